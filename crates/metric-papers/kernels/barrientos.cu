// The kernels of Barrientos 2011, chapter 4: range queries and nearest-neighbor queries by brute
// force, List of Clusters and SSS-Index. One block answers each query, and its threads share the
// points.

// The results of range queries: the number of neighbors of each query, and the first `capacity` of
// them.
struct Answers {
    unsigned* counts;
    unsigned long long* neighbors;
    unsigned capacity;
};

// Appends a neighbor to the results of a query. Only counts it if the results are full.
__device__ inline void add_result(const Answers& answers, unsigned query, float distance,
                                  unsigned point) {
    const unsigned slot = atomicAdd(&answers.counts[query], 1);
    if (slot < answers.capacity) {
        answers.neighbors[size_t(query) * answers.capacity + slot] = make_key(distance, point);
    }
}

// A List of Clusters. The points of the space are the centers, followed by the points of the
// buckets in order.
struct Clusters {
    const float* radii;
    // The bucket of cluster c is from ends[c - 1] to ends[c], not counting the centers.
    const unsigned* ends;
    // The cluster of each point in a bucket.
    const unsigned* cluster_of;
    // The number of each point of the space among all points.
    const unsigned* points;
    unsigned count;
};

// An SSS-Index.
struct Pivots {
    // The numbers of the pivots. In the second stage of a 2-Stage search, the numbers of the
    // points.
    const unsigned* numbers;
    // The distance between point x and pivot p is at p * n + x, for n points.
    const float* distances;
    // Number of pivots.
    unsigned count;
};

// Algorithm 11: range queries by brute force. Shared memory: the query.
template <unsigned METRIC, typename Space>
__device__ void range_brute(const Space& space, float radius, const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    const auto query = load(space, blockIdx.x, shared);
    for (unsigned j = threadIdx.x; j < space.count; j += blockDim.x) {
        const float d = distance<METRIC>(space, query, j);
        if (d <= radius) {
            add_result(answers, blockIdx.x, d, j);
        }
    }
}

// Searches the points of buckets before `end`, in all clusters for which `is_searched` returns
// true. Calls `visit` for each point within the radius. All threads of the block must call it.
template <unsigned METRIC, typename Space, typename Query, typename IsSearched, typename Radius,
          typename Visit>
__device__ void search_buckets(const Space& space, const Query& query, const Clusters& clusters,
                               unsigned end, const IsSearched& is_searched, const Radius& radius,
                               const Visit& visit) {
    for (unsigned j = threadIdx.x; j < end; j += blockDim.x) {
        if (is_searched(clusters.cluster_of[j])) {
            const float d = distance<METRIC>(space, query, clusters.count + j);
            if (d <= radius()) {
                visit(d, clusters.points[clusters.count + j]);
            }
        }
    }
}

// Searches the points that no pivot excludes, and calls `visit` for each point within the radius.
// Point j of the table is point `first + j` of the space. All threads of the block must call it.
template <unsigned METRIC, typename Space, typename Query, typename Visit>
__device__ void search_table(const Space& space, const Query& query, const Pivots& pivots,
                             unsigned first, const Bounds& bounds, const float* pivot_distances,
                             float radius, const Visit& visit) {
    const unsigned count = space.count - first;
    for (unsigned j = threadIdx.x; j < count; j += blockDim.x) {
        bool excluded = false;
        for (unsigned p = 0; p < pivots.count && !excluded; p++) {
            const float point_distance = pivots.distances[size_t(p) * count + j];
            excluded = min_distance(bounds, point_distance, pivot_distances[p]) > radius ||
                       min_distance(bounds, pivot_distances[p], point_distance) > radius;
        }
        if (!excluded) {
            const float d = distance<METRIC>(space, query, first + j);
            if (d <= radius) {
                visit(d, j);
            }
        }
    }
}

// Algorithm 12: range queries with a List of Clusters. Shared memory: the query, followed by one
// bit per cluster.
template <unsigned METRIC, typename Space>
__device__ void range_clusters(const Space& space, const Clusters& clusters, const Bounds& bounds,
                               float radius, const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned last;
    unsigned* search_bits = reinterpret_cast<unsigned*>(shared + query_bytes(space));
    const auto query = load(space, blockIdx.x, shared);
    for (unsigned j = threadIdx.x; j < (clusters.count + 31) / 32; j += blockDim.x) {
        search_bits[j] = 0;
    }
    if (threadIdx.x == 0) {
        last = clusters.count;
    }
    __syncthreads();
    for (unsigned j = threadIdx.x;
         j < clusters.count && j <= *static_cast<volatile unsigned*>(&last); j += blockDim.x) {
        const float d = distance<METRIC>(space, query, j);
        if (d <= radius) {
            add_result(answers, blockIdx.x, d, clusters.points[j]);
        }
        if (min_distance(bounds, d, clusters.radii[j]) <= radius) {
            atomicOr(&search_bits[j / 32], 1u << j % 32);
        }
        // Points of later clusters are outside this ball. If the query ball is inside it, no later
        // point is within the radius.
        if (min_distance(bounds, clusters.radii[j], d) > radius) {
            atomicMin(&last, j);
        }
    }
    __syncthreads();
    const unsigned end = clusters.count ? clusters.ends[min(last, clusters.count - 1)] : 0;
    search_buckets<METRIC>(
        space, query, clusters, end,
        [&](unsigned cluster) { return search_bits[cluster / 32] >> cluster % 32 & 1; },
        [&]() { return radius; },
        [&](float d, unsigned point) { add_result(answers, blockIdx.x, d, point); });
}

// Algorithm 13: range queries with an SSS-Index. Each thread compares a point with all pivots.
// Shared memory: the query, followed by its distances to the pivots.
template <unsigned METRIC, typename Space>
__device__ void range_pivots(const Space& space, const Pivots& pivots, const Bounds& bounds,
                             float radius, const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* pivot_distances = reinterpret_cast<float*>(shared + query_bytes(space));
    const auto query = load(space, blockIdx.x, shared);
    for (unsigned j = threadIdx.x; j < pivots.count; j += blockDim.x) {
        pivot_distances[j] = distance<METRIC>(space, query, pivots.numbers[j]);
    }
    __syncthreads();
    search_table<METRIC>(
        space, query, pivots, 0, bounds, pivot_distances, radius,
        [&](float d, unsigned point) { add_result(answers, blockIdx.x, d, point); });
}

// Algorithm 13, but the threads of a warp share the pivots of a point (section 4.1.3, distribution
// by pivots).
template <unsigned METRIC, typename Space>
__device__ void range_pivots_shared(const Space& space, const Pivots& pivots, const Bounds& bounds,
                                    float radius, const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* pivot_distances = reinterpret_cast<float*>(shared + query_bytes(space));
    const auto query = load(space, blockIdx.x, shared);
    for (unsigned j = threadIdx.x; j < pivots.count; j += blockDim.x) {
        pivot_distances[j] = distance<METRIC>(space, query, pivots.numbers[j]);
    }
    __syncthreads();
    const unsigned lane = threadIdx.x % 32;
    for (unsigned j = threadIdx.x / 32; j < space.count; j += blockDim.x / 32) {
        bool excluded = false;
        for (unsigned p = lane; p < pivots.count && !excluded; p += 32) {
            const float point_distance = pivots.distances[size_t(p) * space.count + j];
            excluded = min_distance(bounds, point_distance, pivot_distances[p]) > radius ||
                       min_distance(bounds, pivot_distances[p], point_distance) > radius;
        }
        if (__ballot_sync(~0u, excluded) == 0 && lane == 0) {
            const float d = distance<METRIC>(space, query, j);
            if (d <= radius) {
                add_result(answers, blockIdx.x, d, j);
            }
        }
    }
}

// Computes the distances between all points and each query, for the search by sorting (section
// 4.2.1).
template <unsigned METRIC, typename Space>
__device__ void all_distances(const Space& space, unsigned long long* keys) {
    extern __shared__ __align__(16) unsigned char shared[];
    const auto query = load(space, blockIdx.y, shared);
    for (unsigned j = blockIdx.x * blockDim.x + threadIdx.x; j < space.count;
         j += gridDim.x * blockDim.x) {
        keys[size_t(blockIdx.y) * space.count + j] = make_key(distance<METRIC>(space, query, j), j);
    }
}

// The arguments of a nearest-neighbor search with heaps.
struct HeapSearch {
    // k keys for each thread of each block. Within a block, column t is the heap of thread t.
    unsigned long long* heaps;
    // The queries of the launch: each block answers `queries[blockIdx.x]`.
    const unsigned* queries;
    // k keys for each query.
    unsigned long long* neighbors;
    // The queries that have fewer than k neighbors within the first radius.
    unsigned* pending;
    unsigned* pending_count;
    // The first radius, and the amount by which it grows.
    float first;
    float step;
    unsigned k;
    // 0 to search within the first radius only; 1 to enlarge the radius until there are k
    // neighbors.
    unsigned launch;
};

// Algorithm 14: merges the heaps of all threads into the heaps of one warp, in shared memory, and
// these into the heap of the first thread. Returns the number of neighbors to all threads.
__device__ unsigned reduce(const HeapSearch& search, const Heap& own_heap, unsigned* sizes,
                           unsigned long long* warp_heaps) {
    __shared__ unsigned total;
    sizes[threadIdx.x] = own_heap.size;
    __syncthreads();
    const unsigned long long* heaps = search.heaps + size_t(blockIdx.x) * blockDim.x * search.k;
    if (threadIdx.x < 32) {
        Heap heap = {warp_heaps + threadIdx.x, 32, 0, search.k};
        for (unsigned j = threadIdx.x; j < blockDim.x; j += 32) {
            for (unsigned i = 0; i < sizes[j]; i++) {
                insert(heap, heaps[size_t(i) * blockDim.x + j]);
            }
        }
        // All lanes must have read the sizes before they are overwritten.
        __syncwarp();
        sizes[threadIdx.x] = heap.size;
        __syncwarp();
        if (threadIdx.x == 0) {
            for (unsigned j = 1; j < 32; j++) {
                for (unsigned i = 0; i < sizes[j]; i++) {
                    insert(heap, warp_heaps[i * 32 + j]);
                }
            }
            total = heap.size;
        }
    }
    __syncthreads();
    return total;
}

// Writes the neighbors of the query, nearest first, and fills the remaining elements with NO_KEY.
__device__ void write_neighbors(const HeapSearch& search, unsigned count,
                                unsigned long long* warp_heaps) {
    const unsigned query = search.queries[blockIdx.x];
    if (threadIdx.x == 0) {
        // Empty the first thread's heap by repeatedly removing the largest key.
        Heap heap = {warp_heaps, 32, count, search.k};
        for (unsigned remaining = count; remaining > 0; remaining--) {
            search.neighbors[size_t(query) * search.k + remaining - 1] = heap.keys[0];
            const unsigned long long last = heap.keys[(remaining - 1) * 32];
            heap.size = remaining - 1;
            heap.k = remaining - 1;
            if (remaining > 1) {
                // The last key moves down from the root.
                heap.keys[0] = NO_KEY;
                insert(heap, last);
            }
        }
        for (unsigned i = count; i < search.k; i++) {
            search.neighbors[size_t(query) * search.k + i] = NO_KEY;
        }
    }
}

// Returns the radius to try after `radius`, or infinity if the step is lost in rounding.
__device__ inline float next_radius(float radius, float step) {
    const float next = radius + step;
    return next > radius ? next : __int_as_float(0x7F800000);
}

// Adds the query of the block to the pending queries.
__device__ inline void defer_query(const HeapSearch& search) {
    if (threadIdx.x == 0) {
        search.pending[atomicAdd(search.pending_count, 1)] = search.queries[blockIdx.x];
    }
}

// Algorithm 15: nearest neighbors with a List of Clusters. Shared memory: the query, the heaps of a
// warp, the distances to the centers, and the sizes of the heaps.
template <unsigned METRIC, typename Space>
__device__ void nearest_clusters(const Space& space, const Clusters& clusters, const Bounds& bounds,
                                 const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned last;
    unsigned long long* warp_heaps =
        reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    float* center_distances = reinterpret_cast<float*>(warp_heaps + 32 * search.k);
    unsigned* sizes = reinterpret_cast<unsigned*>(center_distances + clusters.count);
    const auto query = load(space, search.queries[blockIdx.x], shared);
    for (unsigned i = threadIdx.x; i < clusters.count; i += blockDim.x) {
        center_distances[i] = distance<METRIC>(space, query, i);
    }
    unsigned long long* heaps = search.heaps + size_t(blockIdx.x) * blockDim.x * search.k;
    float radius = search.first;
    for (;;) {
        if (threadIdx.x == 0) {
            last = clusters.count;
        }
        __syncthreads();
        for (unsigned i = threadIdx.x; i < clusters.count; i += blockDim.x) {
            if (min_distance(bounds, clusters.radii[i], center_distances[i]) > radius) {
                atomicMin(&last, i);
            }
        }
        __syncthreads();
        Heap own_heap = {heaps + threadIdx.x, blockDim.x, 0, search.k};
        const unsigned end = clusters.count ? clusters.ends[min(last, clusters.count - 1)] : 0;
        search_buckets<METRIC>(
            space, query, clusters, end,
            [&](unsigned cluster) {
                return min_distance(bounds, center_distances[cluster], clusters.radii[cluster]) <=
                       radius;
            },
            [&]() { return radius; },
            [&](float d, unsigned point) { insert(own_heap, make_key(d, point)); });
        for (unsigned i = threadIdx.x; i < clusters.count; i += blockDim.x) {
            if (center_distances[i] <= radius) {
                insert(own_heap, make_key(center_distances[i], clusters.points[i]));
            }
        }
        const unsigned count = reduce(search, own_heap, sizes, warp_heaps);
        if (count >= min(search.k, space.count) || isinf(radius)) {
            write_neighbors(search, count, warp_heaps);
            return;
        }
        if (search.launch == 0) {
            defer_query(search);
            return;
        }
        radius = next_radius(radius, search.step);
        __syncthreads();
    }
}

// Nearest neighbors with a List of Clusters and the decreasing radius of figure 4.3. The radius is
// infinite at first. Later, it is the lowest k-th distance that any thread has found so far.
template <unsigned METRIC, typename Space>
__device__ void nearest_clusters_decreasing(const Space& space, const Clusters& clusters,
                                            const Bounds& bounds, const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned radius_bits;
    unsigned long long* warp_heaps =
        reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    float* center_distances = reinterpret_cast<float*>(warp_heaps + 32 * search.k);
    unsigned* sizes = reinterpret_cast<unsigned*>(center_distances + clusters.count);
    const auto query = load(space, search.queries[blockIdx.x], shared);
    if (threadIdx.x == 0) {
        radius_bits = 0x7F800000;
    }
    __syncthreads();
    Heap own_heap = {search.heaps + size_t(blockIdx.x) * blockDim.x * search.k + threadIdx.x,
                     blockDim.x, 0, search.k};
    const auto visit = [&](float d, unsigned point) {
        insert(own_heap, make_key(d, point));
        if (own_heap.size == search.k) {
            atomicMin(&radius_bits, __float_as_uint(distance_of_key(own_heap.keys[0])));
        }
    };
    const auto radius = [&]() {
        return __uint_as_float(*static_cast<volatile unsigned*>(&radius_bits));
    };
    for (unsigned i = threadIdx.x; i < clusters.count; i += blockDim.x) {
        center_distances[i] = distance<METRIC>(space, query, i);
        if (center_distances[i] <= radius()) {
            visit(center_distances[i], clusters.points[i]);
        }
    }
    __syncthreads();
    const unsigned end = clusters.count ? clusters.ends[clusters.count - 1] : 0;
    search_buckets<METRIC>(
        space, query, clusters, end,
        [&](unsigned cluster) {
            return min_distance(bounds, center_distances[cluster], clusters.radii[cluster]) <=
                   radius();
        },
        radius, visit);
    const unsigned count = reduce(search, own_heap, sizes, warp_heaps);
    write_neighbors(search, count, warp_heaps);
}

// Algorithm 16: nearest neighbors with an SSS-Index. Shared memory: the query, the heaps of a warp,
// the distances to the pivots, and the sizes of the heaps.
template <unsigned METRIC, typename Space>
__device__ void nearest_pivots(const Space& space, const Pivots& pivots, const Bounds& bounds,
                               const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned long long* warp_heaps =
        reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    float* pivot_distances = reinterpret_cast<float*>(warp_heaps + 32 * search.k);
    unsigned* sizes = reinterpret_cast<unsigned*>(pivot_distances + pivots.count);
    const auto query = load(space, search.queries[blockIdx.x], shared);
    for (unsigned i = threadIdx.x; i < pivots.count; i += blockDim.x) {
        pivot_distances[i] = distance<METRIC>(space, query, pivots.numbers[i]);
    }
    __syncthreads();
    unsigned long long* heaps = search.heaps + size_t(blockIdx.x) * blockDim.x * search.k;
    float radius = search.first;
    for (;;) {
        Heap own_heap = {heaps + threadIdx.x, blockDim.x, 0, search.k};
        search_table<METRIC>(
            space, query, pivots, 0, bounds, pivot_distances, radius,
            [&](float d, unsigned point) { insert(own_heap, make_key(d, point)); });
        const unsigned count = reduce(search, own_heap, sizes, warp_heaps);
        if (count >= min(search.k, space.count) || isinf(radius)) {
            write_neighbors(search, count, warp_heaps);
            return;
        }
        if (search.launch == 0) {
            defer_query(search);
            return;
        }
        radius = next_radius(radius, search.step);
        __syncthreads();
    }
}

// Nearest neighbors by brute force with the same heaps, for comparison. Shared memory: the query,
// the heaps of a warp, and the sizes of the heaps.
template <unsigned METRIC, typename Space>
__device__ void nearest_brute(const Space& space, const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned long long* warp_heaps =
        reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    unsigned* sizes = reinterpret_cast<unsigned*>(warp_heaps + 32 * search.k);
    const auto query = load(space, search.queries[blockIdx.x], shared);
    Heap own_heap = {search.heaps + size_t(blockIdx.x) * blockDim.x * search.k + threadIdx.x,
                     blockDim.x, 0, search.k};
    for (unsigned j = threadIdx.x; j < space.count; j += blockDim.x) {
        insert(own_heap, make_key(distance<METRIC>(space, query, j), j));
    }
    const unsigned count = reduce(search, own_heap, sizes, warp_heaps);
    write_neighbors(search, count, warp_heaps);
}

// The *2-Stage* search of Barrientos 2012, section VII-A. Every GPU has all centers (or pivots),
// followed by its own points. In the first stage, each query is processed on one GPU, which
// computes the data that the other GPUs need, as 32-bit words.
struct Stage {
    // The queries of the launch: each block answers `queries[blockIdx.x]`.
    const unsigned* queries;
    // `width` words for each query of the launch.
    unsigned* words;
    unsigned width;
};

// The first stage of a List of Clusters: sets one bit for each cluster that must be searched.
// Shared memory: the query, followed by these bits.
template <unsigned METRIC, typename Space>
__device__ void mark_clusters(const Space& space, const Clusters& clusters, const Bounds& bounds,
                              float radius, const Stage& stage) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned last;
    unsigned* search_bits = reinterpret_cast<unsigned*>(shared + query_bytes(space));
    const auto query = load(space, stage.queries[blockIdx.x], shared);
    for (unsigned j = threadIdx.x; j < stage.width; j += blockDim.x) {
        search_bits[j] = 0;
    }
    if (threadIdx.x == 0) {
        last = clusters.count;
    }
    __syncthreads();
    for (unsigned j = threadIdx.x;
         j < clusters.count && j <= *static_cast<volatile unsigned*>(&last); j += blockDim.x) {
        const float d = distance<METRIC>(space, query, j);
        if (min_distance(bounds, d, clusters.radii[j]) <= radius) {
            atomicOr(&search_bits[j / 32], 1u << j % 32);
        }
        if (min_distance(bounds, clusters.radii[j], d) > radius) {
            atomicMin(&last, j);
        }
    }
    __syncthreads();
    for (unsigned j = threadIdx.x; j < stage.width; j += blockDim.x) {
        // Clear the bits after the last cluster, which threads may have set before `last` was
        // final.
        const unsigned mask = last >= j * 32 + 31 ? ~0u
                              : last < j * 32     ? 0
                                                  : ~0u >> (31 - last % 32);
        stage.words[size_t(blockIdx.x) * stage.width + j] = search_bits[j] & mask;
    }
}

// The first stage of an SSS-Index: computes the distances to the pivots. Shared memory: the query.
template <unsigned METRIC, typename Space>
__device__ void measure_pivots(const Space& space, const Stage& stage) {
    extern __shared__ __align__(16) unsigned char shared[];
    const auto query = load(space, stage.queries[blockIdx.x], shared);
    for (unsigned j = threadIdx.x; j < stage.width; j += blockDim.x) {
        stage.words[size_t(blockIdx.x) * stage.width + j] =
            __float_as_uint(distance<METRIC>(space, query, j));
    }
}

// The second stage of a List of Clusters. The center of a cluster is also in its bucket. All
// threads of the block must call it.
template <unsigned METRIC, typename Space, typename Query, typename Visit>
__device__ void search_marked(const Space& space, const Query& query, const Clusters& clusters,
                              const Stage& stage, float radius, const Visit& visit) {
    const unsigned* search_bits = stage.words + size_t(blockIdx.x) * stage.width;
    const unsigned end = clusters.count ? clusters.ends[clusters.count - 1] : 0;
    search_buckets<METRIC>(
        space, query, clusters, end,
        [&](unsigned cluster) { return search_bits[cluster / 32] >> cluster % 32 & 1; },
        [&]() { return radius; }, visit);
}

// The second stage of an SSS-Index. Shared memory after the query: the distances to the pivots. All
// threads of the block must call it.
template <unsigned METRIC, typename Space, typename Query, typename Visit>
__device__ void search_measured(const Space& space, const Query& query, const Pivots& pivots,
                                const Bounds& bounds, const Stage& stage, float radius,
                                float* pivot_distances, const Visit& visit) {
    for (unsigned i = threadIdx.x; i < stage.width; i += blockDim.x) {
        pivot_distances[i] = __uint_as_float(stage.words[size_t(blockIdx.x) * stage.width + i]);
    }
    __syncthreads();
    search_table<METRIC>(space, query, pivots, pivots.count, bounds, pivot_distances, radius,
                         [&](float d, unsigned point) { visit(d, pivots.numbers[point]); });
}

template <unsigned METRIC, typename Space>
__device__ void range_marked(const Space& space, const Clusters& clusters, const Stage& stage,
                             float radius, const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    const unsigned query_number = stage.queries[blockIdx.x];
    const auto query = load(space, query_number, shared);
    search_marked<METRIC>(space, query, clusters, stage, radius, [&](float d, unsigned point) {
        add_result(answers, query_number, d, point);
    });
}

template <unsigned METRIC, typename Space>
__device__ void range_measured(const Space& space, const Pivots& pivots, const Bounds& bounds,
                               const Stage& stage, float radius, const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    const unsigned query_number = stage.queries[blockIdx.x];
    const auto query = load(space, query_number, shared);
    search_measured<METRIC>(
        space, query, pivots, bounds, stage, radius,
        reinterpret_cast<float*>(shared + query_bytes(space)),
        [&](float d, unsigned point) { add_result(answers, query_number, d, point); });
}

// Nearest neighbors in the second stage of a List of Clusters. Shared memory: the query, the heaps
// of a warp, and the sizes of the heaps.
template <unsigned METRIC, typename Space>
__device__ void nearest_marked(const Space& space, const Clusters& clusters, const Stage& stage,
                               const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned long long* warp_heaps =
        reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    unsigned* sizes = reinterpret_cast<unsigned*>(warp_heaps + 32 * search.k);
    const auto query = load(space, stage.queries[blockIdx.x], shared);
    Heap own_heap = {search.heaps + size_t(blockIdx.x) * blockDim.x * search.k + threadIdx.x,
                     blockDim.x, 0, search.k};
    search_marked<METRIC>(space, query, clusters, stage, search.first,
                          [&](float d, unsigned point) { insert(own_heap, make_key(d, point)); });
    const unsigned count = reduce(search, own_heap, sizes, warp_heaps);
    write_neighbors(search, count, warp_heaps);
}

// Nearest neighbors in the second stage of an SSS-Index. Shared memory: the query, the heaps of a
// warp, the distances to the pivots, and the sizes of the heaps.
template <unsigned METRIC, typename Space>
__device__ void nearest_measured(const Space& space, const Pivots& pivots, const Bounds& bounds,
                                 const Stage& stage, const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned long long* warp_heaps =
        reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    float* pivot_distances = reinterpret_cast<float*>(warp_heaps + 32 * search.k);
    unsigned* sizes = reinterpret_cast<unsigned*>(pivot_distances + pivots.count);
    const auto query = load(space, stage.queries[blockIdx.x], shared);
    Heap own_heap = {search.heaps + size_t(blockIdx.x) * blockDim.x * search.k + threadIdx.x,
                     blockDim.x, 0, search.k};
    search_measured<METRIC>(space, query, pivots, bounds, stage, search.first, pivot_distances,
                            [&](float d, unsigned point) { insert(own_heap, make_key(d, point)); });
    const unsigned count = reduce(search, own_heap, sizes, warp_heaps);
    write_neighbors(search, count, warp_heaps);
}

#define KERNELS(NAME, METRIC, SPACE)                                                               \
    extern "C" __global__ void range_brute_##NAME(SPACE space, float radius, Answers answers) {    \
        range_brute<METRIC>(space, radius, answers);                                               \
    }                                                                                              \
    extern "C" __global__ void range_clusters_##NAME(                                              \
        SPACE space, Clusters clusters, Bounds bounds, float radius, Answers answers) {            \
        range_clusters<METRIC>(space, clusters, bounds, radius, answers);                          \
    }                                                                                              \
    extern "C" __global__ void range_pivots_##NAME(SPACE space, Pivots pivots, Bounds bounds,      \
                                                   float radius, Answers answers) {                \
        range_pivots<METRIC>(space, pivots, bounds, radius, answers);                              \
    }                                                                                              \
    extern "C" __global__ void range_pivots_shared_##NAME(                                         \
        SPACE space, Pivots pivots, Bounds bounds, float radius, Answers answers) {                \
        range_pivots_shared<METRIC>(space, pivots, bounds, radius, answers);                       \
    }                                                                                              \
    extern "C" __global__ void all_distances_##NAME(SPACE space, unsigned long long* keys) {       \
        all_distances<METRIC>(space, keys);                                                        \
    }                                                                                              \
    extern "C" __global__ void nearest_clusters_##NAME(SPACE space, Clusters clusters,             \
                                                       Bounds bounds, HeapSearch search) {         \
        nearest_clusters<METRIC>(space, clusters, bounds, search);                                 \
    }                                                                                              \
    extern "C" __global__ void nearest_clusters_decreasing_##NAME(                                 \
        SPACE space, Clusters clusters, Bounds bounds, HeapSearch search) {                        \
        nearest_clusters_decreasing<METRIC>(space, clusters, bounds, search);                      \
    }                                                                                              \
    extern "C" __global__ void nearest_pivots_##NAME(SPACE space, Pivots pivots, Bounds bounds,    \
                                                     HeapSearch search) {                          \
        nearest_pivots<METRIC>(space, pivots, bounds, search);                                     \
    }                                                                                              \
    extern "C" __global__ void nearest_brute_##NAME(SPACE space, HeapSearch search) {              \
        nearest_brute<METRIC>(space, search);                                                      \
    }                                                                                              \
    extern "C" __global__ void mark_clusters_##NAME(SPACE space, Clusters clusters, Bounds bounds, \
                                                    float radius, Stage stage) {                   \
        mark_clusters<METRIC>(space, clusters, bounds, radius, stage);                             \
    }                                                                                              \
    extern "C" __global__ void measure_pivots_##NAME(SPACE space, Stage stage) {                   \
        measure_pivots<METRIC>(space, stage);                                                      \
    }                                                                                              \
    extern "C" __global__ void range_marked_##NAME(SPACE space, Clusters clusters, Stage stage,    \
                                                   float radius, Answers answers) {                \
        range_marked<METRIC>(space, clusters, stage, radius, answers);                             \
    }                                                                                              \
    extern "C" __global__ void range_measured_##NAME(SPACE space, Pivots pivots, Bounds bounds,    \
                                                     Stage stage, float radius, Answers answers) { \
        range_measured<METRIC>(space, pivots, bounds, stage, radius, answers);                     \
    }                                                                                              \
    extern "C" __global__ void nearest_marked_##NAME(SPACE space, Clusters clusters, Stage stage,  \
                                                     HeapSearch search) {                          \
        nearest_marked<METRIC>(space, clusters, stage, search);                                    \
    }                                                                                              \
    extern "C" __global__ void nearest_measured_##NAME(SPACE space, Pivots pivots, Bounds bounds,  \
                                                       Stage stage, HeapSearch search) {           \
        nearest_measured<METRIC>(space, pivots, bounds, stage, search);                            \
    }

KERNELS(euclidean, EUCLIDEAN, VectorSpace)
KERNELS(edit, EUCLIDEAN, WordSpace)
