// The kernels of Barrientos 2011, chapter 4: range queries and nearest neighbors by brute force,
// List of Clusters and SSS-Index. One block answers a query, and its threads share the points.

// The output of all range kernels: the number of neighbors of each query, and at most `room` of
// them.
struct Answers {
    unsigned* counts;
    unsigned long long* found;
    unsigned room;
};

__device__ inline void report(const Answers& answers, unsigned query, float distance, unsigned point) {
    const unsigned to = atomicAdd(&answers.counts[query], 1);
    if (to < answers.room) {
        answers.found[size_t(query) * answers.room + to] = key_of(distance, point);
    }
}

// A List of Clusters. The points of the space are the centers, followed by the buckets in order.
struct Clusters {
    const float* radii;
    // The bucket of cluster c is from ends[c - 1] to ends[c], counted from the end of the centers.
    const unsigned* ends;
    // The cluster of each point in a bucket.
    const unsigned* cluster_of;
    // The numbers of the points.
    const unsigned* points;
    unsigned count;
};

// An SSS-Index. The points of the space are the points of the store. The distance between point x
// and pivot p is at p * count + x.
struct Pivots {
    const unsigned* pivots;
    const float* distances;
    unsigned count;
};

// Algorithm 11.
template <unsigned METRIC, typename Space>
__device__ void range_brute(const Space& space, float radius, const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    const auto query = load(space, blockIdx.x, shared);
    for (unsigned j = threadIdx.x; j < space.count; j += blockDim.x) {
        const float d = distance<METRIC>(space, query, j);
        if (d <= radius) {
            report(answers, blockIdx.x, d, j);
        }
    }
}

// Searches the points of buckets up to `end` whose cluster has to be searched, with all threads.
// Calls `found` with the points within the radius.
template <unsigned METRIC, typename Space, typename Query, typename Searched, typename Radius, typename Report>
__device__ void search_buckets(const Space& space, const Query& query, const Clusters& clusters, unsigned end,
                               const Searched& searched, const Radius& radius, const Report& found) {
    for (unsigned j = threadIdx.x; j < end; j += blockDim.x) {
        if (searched(clusters.cluster_of[j])) {
            const float d = distance<METRIC>(space, query, clusters.count + j);
            if (d <= radius()) {
                found(d, clusters.points[clusters.count + j]);
            }
        }
    }
}

// Searches the points that no pivot excludes, with all threads. Calls `found` with the points
// within the radius. Point j of the table is point `first + j` of the space.
template <unsigned METRIC, typename Space, typename Query, typename Report>
__device__ void search_table(const Space& space, const Query& query, const Pivots& pivots, unsigned first, const Bounds& bounds,
                             const float* from_pivots, float radius, const Report& found) {
    const unsigned count = space.count - first;
    for (unsigned j = threadIdx.x; j < count; j += blockDim.x) {
        bool excluded = false;
        for (unsigned p = 0; p < pivots.count && !excluded; p++) {
            const float of_point = pivots.distances[size_t(p) * count + j];
            excluded = gap(bounds, of_point, from_pivots[p]) > radius || gap(bounds, from_pivots[p], of_point) > radius;
        }
        if (!excluded) {
            const float d = distance<METRIC>(space, query, first + j);
            if (d <= radius) {
                found(d, j);
            }
        }
    }
}

// Algorithm 12. Shared memory: the query, followed by one bit per cluster.
template <unsigned METRIC, typename Space>
__device__ void range_clusters(const Space& space, const Clusters& clusters, const Bounds& bounds, float radius,
                               const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned last;
    unsigned* search = reinterpret_cast<unsigned*>(shared + query_bytes(space));
    const auto query = load(space, blockIdx.x, shared);
    for (unsigned j = threadIdx.x; j < (clusters.count + 31) / 32; j += blockDim.x) {
        search[j] = 0;
    }
    if (threadIdx.x == 0) {
        last = clusters.count;
    }
    __syncthreads();
    for (unsigned j = threadIdx.x; j < clusters.count && j <= *static_cast<volatile unsigned*>(&last); j += blockDim.x) {
        const float d = distance<METRIC>(space, query, j);
        if (d <= radius) {
            report(answers, blockIdx.x, d, clusters.points[j]);
        }
        if (gap(bounds, d, clusters.radii[j]) <= radius) {
            atomicOr(&search[j / 32], 1u << j % 32);
        }
        // Later points are outside this ball. If the query's ball is inside it, none of them is
        // within the radius.
        if (gap(bounds, clusters.radii[j], d) > radius) {
            atomicMin(&last, j);
        }
    }
    __syncthreads();
    const unsigned end = clusters.count ? clusters.ends[min(last, clusters.count - 1)] : 0;
    search_buckets<METRIC>(
        space, query, clusters, end, [&](unsigned cluster) { return search[cluster / 32] >> cluster % 32 & 1; },
        [&]() { return radius; }, [&](float d, unsigned point) { report(answers, blockIdx.x, d, point); });
}

// Algorithm 13: one thread compares a point with one pivot after another. Shared memory: the query,
// followed by its distances to the pivots.
template <unsigned METRIC, typename Space>
__device__ void range_pivots(const Space& space, const Pivots& pivots, const Bounds& bounds, float radius,
                             const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* from_pivots = reinterpret_cast<float*>(shared + query_bytes(space));
    const auto query = load(space, blockIdx.x, shared);
    for (unsigned j = threadIdx.x; j < pivots.count; j += blockDim.x) {
        from_pivots[j] = distance<METRIC>(space, query, pivots.pivots[j]);
    }
    __syncthreads();
    search_table<METRIC>(space, query, pivots, 0, bounds, from_pivots, radius,
                         [&](float d, unsigned point) { report(answers, blockIdx.x, d, point); });
}

// Algorithm 13 where the threads of a warp share the pivots of a point (section 4.1.3, distribution
// by pivots).
template <unsigned METRIC, typename Space>
__device__ void range_pivots_shared(const Space& space, const Pivots& pivots, const Bounds& bounds, float radius,
                                    const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* from_pivots = reinterpret_cast<float*>(shared + query_bytes(space));
    const auto query = load(space, blockIdx.x, shared);
    for (unsigned j = threadIdx.x; j < pivots.count; j += blockDim.x) {
        from_pivots[j] = distance<METRIC>(space, query, pivots.pivots[j]);
    }
    __syncthreads();
    const unsigned lane = threadIdx.x % 32;
    for (unsigned j = threadIdx.x / 32; j < space.count; j += blockDim.x / 32) {
        bool excluded = false;
        for (unsigned p = lane; p < pivots.count && !excluded; p += 32) {
            const float of_point = pivots.distances[size_t(p) * space.count + j];
            excluded = gap(bounds, of_point, from_pivots[p]) > radius || gap(bounds, from_pivots[p], of_point) > radius;
        }
        if (__ballot_sync(~0u, excluded) == 0 && lane == 0) {
            const float d = distance<METRIC>(space, query, j);
            if (d <= radius) {
                report(answers, blockIdx.x, d, j);
            }
        }
    }
}

// Computes the distances of all points to each query, which the search by sorting sorts (section
// 4.2.1).
template <unsigned METRIC, typename Space>
__device__ void all_distances(const Space& space, unsigned long long* keys) {
    extern __shared__ __align__(16) unsigned char shared[];
    const auto query = load(space, blockIdx.y, shared);
    for (unsigned j = blockIdx.x * blockDim.x + threadIdx.x; j < space.count; j += gridDim.x * blockDim.x) {
        keys[size_t(blockIdx.y) * space.count + j] = key_of(distance<METRIC>(space, query, j), j);
    }
}

// The data of a search with heaps.
struct HeapSearch {
    // K * threads keys per block: column t is the heap of thread t.
    unsigned long long* heaps;
    // The queries of the launch: each block answers `queries[blockIdx.x]`.
    const unsigned* queries;
    // k keys for each query.
    unsigned long long* neighbors;
    // The queries with fewer than k neighbors within the first radius.
    unsigned* pending;
    unsigned* pending_count;
    float first;
    float step;
    unsigned k;
    // 0: searches within the first radius only; 1: continues until k neighbors are found.
    unsigned launch;
};

// Algorithm 14: merges the heaps of all threads into those of one warp, in shared memory, and then
// into the heap of its first thread. Returns the number of neighbors to all threads.
__device__ unsigned reduce(const HeapSearch& search, const Heap& own, unsigned* sizes, unsigned long long* warp_heaps) {
    __shared__ unsigned total;
    sizes[threadIdx.x] = own.size;
    __syncthreads();
    const unsigned long long* heaps = search.heaps + size_t(blockIdx.x) * blockDim.x * search.k;
    if (threadIdx.x < 32) {
        Heap heap = {warp_heaps + threadIdx.x, 32, 0, search.k};
        for (unsigned j = threadIdx.x; j < blockDim.x; j += 32) {
            for (unsigned i = 0; i < sizes[j]; i++) {
                insert(heap, heaps[size_t(i) * blockDim.x + j]);
            }
        }
        // From here on, no thread reads the sizes.
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

// Writes the neighbors, nearest first, if there are enough or if no radius can give more.
__device__ void finish(const HeapSearch& search, unsigned found, unsigned long long* warp_heaps) {
    const unsigned query = search.queries[blockIdx.x];
    if (threadIdx.x == 0) {
        // The heap of the first thread is emptied by repeatedly removing its largest key.
        Heap heap = {warp_heaps, 32, found, search.k};
        for (unsigned left = found; left > 0; left--) {
            search.neighbors[size_t(query) * search.k + left - 1] = heap.keys[0];
            const unsigned long long last = heap.keys[(left - 1) * 32];
            heap.size = left - 1;
            heap.k = left - 1;
            if (left > 1) {
                // The last key sinks from the root.
                heap.keys[0] = NO_KEY;
                insert(heap, last);
            }
        }
        for (unsigned i = found; i < search.k; i++) {
            search.neighbors[size_t(query) * search.k + i] = NO_KEY;
        }
    }
}

// Returns the radius after one that gave too few neighbors; infinite when it exceeds all distances.
__device__ inline float widened(float radius, float step) {
    const float next = radius + step;
    // Without this, a step that is lost in rounding would never end.
    return next > radius ? next : __int_as_float(0x7F800000);
}

__device__ inline void leave(const HeapSearch& search) {
    if (threadIdx.x == 0) {
        search.pending[atomicAdd(search.pending_count, 1)] = search.queries[blockIdx.x];
    }
}

// Algorithm 15. Shared memory: the query, the distances to the centers, the sizes of the heaps, and
// the heaps of a warp.
template <unsigned METRIC, typename Space>
__device__ void nearest_clusters(const Space& space, const Clusters& clusters, const Bounds& bounds, const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned last;
    unsigned long long* warp_heaps = reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    float* from_centers = reinterpret_cast<float*>(warp_heaps + 32 * search.k);
    unsigned* sizes = reinterpret_cast<unsigned*>(from_centers + clusters.count);
    const auto query = load(space, search.queries[blockIdx.x], shared);
    for (unsigned i = threadIdx.x; i < clusters.count; i += blockDim.x) {
        from_centers[i] = distance<METRIC>(space, query, i);
    }
    unsigned long long* heaps = search.heaps + size_t(blockIdx.x) * blockDim.x * search.k;
    float radius = search.first;
    for (;;) {
        if (threadIdx.x == 0) {
            last = clusters.count;
        }
        __syncthreads();
        for (unsigned i = threadIdx.x; i < clusters.count; i += blockDim.x) {
            if (gap(bounds, clusters.radii[i], from_centers[i]) > radius) {
                atomicMin(&last, i);
            }
        }
        __syncthreads();
        Heap own = {heaps + threadIdx.x, blockDim.x, 0, search.k};
        const unsigned end = clusters.count ? clusters.ends[min(last, clusters.count - 1)] : 0;
        search_buckets<METRIC>(
            space, query, clusters, end,
            [&](unsigned cluster) { return gap(bounds, from_centers[cluster], clusters.radii[cluster]) <= radius; },
            [&]() { return radius; }, [&](float d, unsigned point) { insert(own, key_of(d, point)); });
        for (unsigned i = threadIdx.x; i < clusters.count; i += blockDim.x) {
            if (from_centers[i] <= radius) {
                insert(own, key_of(from_centers[i], clusters.points[i]));
            }
        }
        const unsigned found = reduce(search, own, sizes, warp_heaps);
        if (found >= min(search.k, space.count) || isinf(radius)) {
            finish(search, found, warp_heaps);
            return;
        }
        if (search.launch == 0) {
            leave(search);
            return;
        }
        radius = widened(radius, search.step);
        __syncthreads();
    }
}

// The decreasing radius of figure 4.3: infinite at first, then the distance of the farthest of the
// k nearest points that a thread has found.
template <unsigned METRIC, typename Space>
__device__ void nearest_clusters_decreasing(const Space& space, const Clusters& clusters, const Bounds& bounds,
                                            const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned radius_bits;
    unsigned long long* warp_heaps = reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    float* from_centers = reinterpret_cast<float*>(warp_heaps + 32 * search.k);
    unsigned* sizes = reinterpret_cast<unsigned*>(from_centers + clusters.count);
    const auto query = load(space, search.queries[blockIdx.x], shared);
    if (threadIdx.x == 0) {
        radius_bits = 0x7F800000;
    }
    __syncthreads();
    Heap own = {search.heaps + size_t(blockIdx.x) * blockDim.x * search.k + threadIdx.x, blockDim.x, 0, search.k};
    const auto found = [&](float d, unsigned point) {
        insert(own, key_of(d, point));
        if (own.size == search.k) {
            atomicMin(&radius_bits, __float_as_uint(distance_in(own.keys[0])));
        }
    };
    const auto radius = [&]() { return __uint_as_float(*static_cast<volatile unsigned*>(&radius_bits)); };
    for (unsigned i = threadIdx.x; i < clusters.count; i += blockDim.x) {
        from_centers[i] = distance<METRIC>(space, query, i);
        if (from_centers[i] <= radius()) {
            found(from_centers[i], clusters.points[i]);
        }
    }
    __syncthreads();
    const unsigned end = clusters.count ? clusters.ends[clusters.count - 1] : 0;
    search_buckets<METRIC>(
        space, query, clusters, end,
        [&](unsigned cluster) { return gap(bounds, from_centers[cluster], clusters.radii[cluster]) <= radius(); }, radius, found);
    const unsigned count = reduce(search, own, sizes, warp_heaps);
    finish(search, count, warp_heaps);
}

// Algorithm 16. Shared memory: the query, the heaps of a warp, the distances to the pivots, and the
// sizes of the heaps.
template <unsigned METRIC, typename Space>
__device__ void nearest_pivots(const Space& space, const Pivots& pivots, const Bounds& bounds, const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned long long* warp_heaps = reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    float* from_pivots = reinterpret_cast<float*>(warp_heaps + 32 * search.k);
    unsigned* sizes = reinterpret_cast<unsigned*>(from_pivots + pivots.count);
    const auto query = load(space, search.queries[blockIdx.x], shared);
    for (unsigned i = threadIdx.x; i < pivots.count; i += blockDim.x) {
        from_pivots[i] = distance<METRIC>(space, query, pivots.pivots[i]);
    }
    __syncthreads();
    unsigned long long* heaps = search.heaps + size_t(blockIdx.x) * blockDim.x * search.k;
    float radius = search.first;
    for (;;) {
        Heap own = {heaps + threadIdx.x, blockDim.x, 0, search.k};
        search_table<METRIC>(space, query, pivots, 0, bounds, from_pivots, radius,
                             [&](float d, unsigned point) { insert(own, key_of(d, point)); });
        const unsigned found = reduce(search, own, sizes, warp_heaps);
        if (found >= min(search.k, space.count) || isinf(radius)) {
            finish(search, found, warp_heaps);
            return;
        }
        if (search.launch == 0) {
            leave(search);
            return;
        }
        radius = widened(radius, search.step);
        __syncthreads();
    }
}

// Brute force with the same heaps, for comparison.
template <unsigned METRIC, typename Space>
__device__ void nearest_brute(const Space& space, const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned long long* warp_heaps = reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    unsigned* sizes = reinterpret_cast<unsigned*>(warp_heaps + 32 * search.k);
    const auto query = load(space, search.queries[blockIdx.x], shared);
    Heap own = {search.heaps + size_t(blockIdx.x) * blockDim.x * search.k + threadIdx.x, blockDim.x, 0, search.k};
    for (unsigned j = threadIdx.x; j < space.count; j += blockDim.x) {
        insert(own, key_of(distance<METRIC>(space, query, j), j));
    }
    const unsigned found = reduce(search, own, sizes, warp_heaps);
    finish(search, found, warp_heaps);
}

// The *2-Stage* search of Barrientos 2012, section VII-A. Every GPU has all centers (or pivots),
// followed by its own points. In the first stage, the GPU of a query computes the data that the
// other GPUs need, as 32-bit words.
struct Stage {
    // The queries of the launch: each block answers `queries[blockIdx.x]`.
    const unsigned* queries;
    // `width` words for each query of the launch.
    unsigned* said;
    unsigned width;
};

// The first stage of a List of Clusters: sets one bit for each cluster that has to be searched.
// Shared memory: the query, followed by these bits.
template <unsigned METRIC, typename Space>
__device__ void mark_clusters(const Space& space, const Clusters& clusters, const Bounds& bounds, float radius,
                              const Stage& stage) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned last;
    unsigned* search = reinterpret_cast<unsigned*>(shared + query_bytes(space));
    const auto query = load(space, stage.queries[blockIdx.x], shared);
    for (unsigned j = threadIdx.x; j < stage.width; j += blockDim.x) {
        search[j] = 0;
    }
    if (threadIdx.x == 0) {
        last = clusters.count;
    }
    __syncthreads();
    for (unsigned j = threadIdx.x; j < clusters.count && j <= *static_cast<volatile unsigned*>(&last); j += blockDim.x) {
        const float d = distance<METRIC>(space, query, j);
        if (gap(bounds, d, clusters.radii[j]) <= radius) {
            atomicOr(&search[j / 32], 1u << j % 32);
        }
        if (gap(bounds, clusters.radii[j], d) > radius) {
            atomicMin(&last, j);
        }
    }
    __syncthreads();
    for (unsigned j = threadIdx.x; j < stage.width; j += blockDim.x) {
        // A thread that did not yet know the last cluster may have marked a later one.
        const unsigned after = last >= j * 32 + 31 ? ~0u : last < j * 32 ? 0 : ~0u >> (31 - last % 32);
        stage.said[size_t(blockIdx.x) * stage.width + j] = search[j] & after;
    }
}

// The first stage of an SSS-Index: the distances to the pivots. Shared memory: the query.
template <unsigned METRIC, typename Space>
__device__ void measure_pivots(const Space& space, const Stage& stage) {
    extern __shared__ __align__(16) unsigned char shared[];
    const auto query = load(space, stage.queries[blockIdx.x], shared);
    for (unsigned j = threadIdx.x; j < stage.width; j += blockDim.x) {
        stage.said[size_t(blockIdx.x) * stage.width + j] = __float_as_uint(distance<METRIC>(space, query, j));
    }
}

// The second stage of a List of Clusters. The center of a cluster is also in its bucket.
template <unsigned METRIC, typename Space, typename Query, typename Report>
__device__ void search_marked(const Space& space, const Query& query, const Clusters& clusters, const Stage& stage, float radius,
                              const Report& found) {
    const unsigned* search = stage.said + size_t(blockIdx.x) * stage.width;
    const unsigned end = clusters.count ? clusters.ends[clusters.count - 1] : 0;
    search_buckets<METRIC>(
        space, query, clusters, end, [&](unsigned cluster) { return search[cluster / 32] >> cluster % 32 & 1; },
        [&]() { return radius; }, found);
}

// The second stage of an SSS-Index. Shared memory after the query: the distances to the pivots.
template <unsigned METRIC, typename Space, typename Query, typename Report>
__device__ void search_measured(const Space& space, const Query& query, const Pivots& pivots, const Bounds& bounds,
                                const Stage& stage, float radius, float* from_pivots, const Report& found) {
    for (unsigned i = threadIdx.x; i < stage.width; i += blockDim.x) {
        from_pivots[i] = __uint_as_float(stage.said[size_t(blockIdx.x) * stage.width + i]);
    }
    __syncthreads();
    search_table<METRIC>(space, query, pivots, pivots.count, bounds, from_pivots, radius,
                         [&](float d, unsigned point) { found(d, pivots.pivots[point]); });
}

template <unsigned METRIC, typename Space>
__device__ void range_marked(const Space& space, const Clusters& clusters, const Stage& stage, float radius,
                             const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    const unsigned number = stage.queries[blockIdx.x];
    const auto query = load(space, number, shared);
    search_marked<METRIC>(space, query, clusters, stage, radius,
                          [&](float d, unsigned point) { report(answers, number, d, point); });
}

template <unsigned METRIC, typename Space>
__device__ void range_measured(const Space& space, const Pivots& pivots, const Bounds& bounds, const Stage& stage, float radius,
                               const Answers& answers) {
    extern __shared__ __align__(16) unsigned char shared[];
    const unsigned number = stage.queries[blockIdx.x];
    const auto query = load(space, number, shared);
    search_measured<METRIC>(space, query, pivots, bounds, stage, radius, reinterpret_cast<float*>(shared + query_bytes(space)),
                            [&](float d, unsigned point) { report(answers, number, d, point); });
}

// Shared memory: the query, the heaps of a warp, and the sizes of the heaps.
template <unsigned METRIC, typename Space>
__device__ void nearest_marked(const Space& space, const Clusters& clusters, const Stage& stage, const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned long long* warp_heaps = reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    unsigned* sizes = reinterpret_cast<unsigned*>(warp_heaps + 32 * search.k);
    const auto query = load(space, stage.queries[blockIdx.x], shared);
    Heap own = {search.heaps + size_t(blockIdx.x) * blockDim.x * search.k + threadIdx.x, blockDim.x, 0, search.k};
    search_marked<METRIC>(space, query, clusters, stage, search.first,
                          [&](float d, unsigned point) { insert(own, key_of(d, point)); });
    const unsigned found = reduce(search, own, sizes, warp_heaps);
    finish(search, found, warp_heaps);
}

// Shared memory: the query, the heaps of a warp, the distances to the pivots, and the sizes of the
// heaps.
template <unsigned METRIC, typename Space>
__device__ void nearest_measured(const Space& space, const Pivots& pivots, const Bounds& bounds, const Stage& stage,
                                 const HeapSearch& search) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned long long* warp_heaps = reinterpret_cast<unsigned long long*>(shared + query_bytes(space));
    float* from_pivots = reinterpret_cast<float*>(warp_heaps + 32 * search.k);
    unsigned* sizes = reinterpret_cast<unsigned*>(from_pivots + pivots.count);
    const auto query = load(space, stage.queries[blockIdx.x], shared);
    Heap own = {search.heaps + size_t(blockIdx.x) * blockDim.x * search.k + threadIdx.x, blockDim.x, 0, search.k};
    search_measured<METRIC>(space, query, pivots, bounds, stage, search.first, from_pivots,
                            [&](float d, unsigned point) { insert(own, key_of(d, point)); });
    const unsigned found = reduce(search, own, sizes, warp_heaps);
    finish(search, found, warp_heaps);
}

#define KERNELS(NAME, METRIC, SPACE)                                                                                    \
    extern "C" __global__ void range_brute_##NAME(SPACE space, float radius, Answers answers) {                         \
        range_brute<METRIC>(space, radius, answers);                                                                    \
    }                                                                                                                   \
    extern "C" __global__ void range_clusters_##NAME(SPACE space, Clusters clusters, Bounds bounds, float radius,       \
                                                     Answers answers) {                                                 \
        range_clusters<METRIC>(space, clusters, bounds, radius, answers);                                               \
    }                                                                                                                   \
    extern "C" __global__ void range_pivots_##NAME(SPACE space, Pivots pivots, Bounds bounds, float radius,             \
                                                   Answers answers) {                                                   \
        range_pivots<METRIC>(space, pivots, bounds, radius, answers);                                                   \
    }                                                                                                                   \
    extern "C" __global__ void range_pivots_shared_##NAME(SPACE space, Pivots pivots, Bounds bounds, float radius,      \
                                                          Answers answers) {                                            \
        range_pivots_shared<METRIC>(space, pivots, bounds, radius, answers);                                            \
    }                                                                                                                   \
    extern "C" __global__ void all_distances_##NAME(SPACE space, unsigned long long* keys) {                            \
        all_distances<METRIC>(space, keys);                                                                             \
    }                                                                                                                   \
    extern "C" __global__ void nearest_clusters_##NAME(SPACE space, Clusters clusters, Bounds bounds,                   \
                                                       HeapSearch search) {                                             \
        nearest_clusters<METRIC>(space, clusters, bounds, search);                                                      \
    }                                                                                                                   \
    extern "C" __global__ void nearest_clusters_decreasing_##NAME(SPACE space, Clusters clusters, Bounds bounds,        \
                                                                  HeapSearch search) {                                  \
        nearest_clusters_decreasing<METRIC>(space, clusters, bounds, search);                                           \
    }                                                                                                                   \
    extern "C" __global__ void nearest_pivots_##NAME(SPACE space, Pivots pivots, Bounds bounds, HeapSearch search) {    \
        nearest_pivots<METRIC>(space, pivots, bounds, search);                                                          \
    }                                                                                                                   \
    extern "C" __global__ void nearest_brute_##NAME(SPACE space, HeapSearch search) {                                   \
        nearest_brute<METRIC>(space, search);                                                                           \
    }                                                                                                                   \
    extern "C" __global__ void mark_clusters_##NAME(SPACE space, Clusters clusters, Bounds bounds, float radius,        \
                                                    Stage stage) {                                                      \
        mark_clusters<METRIC>(space, clusters, bounds, radius, stage);                                                  \
    }                                                                                                                   \
    extern "C" __global__ void measure_pivots_##NAME(SPACE space, Stage stage) {                                        \
        measure_pivots<METRIC>(space, stage);                                                                           \
    }                                                                                                                   \
    extern "C" __global__ void range_marked_##NAME(SPACE space, Clusters clusters, Stage stage, float radius,           \
                                                   Answers answers) {                                                   \
        range_marked<METRIC>(space, clusters, stage, radius, answers);                                                  \
    }                                                                                                                   \
    extern "C" __global__ void range_measured_##NAME(SPACE space, Pivots pivots, Bounds bounds, Stage stage,            \
                                                     float radius, Answers answers) {                                   \
        range_measured<METRIC>(space, pivots, bounds, stage, radius, answers);                                          \
    }                                                                                                                   \
    extern "C" __global__ void nearest_marked_##NAME(SPACE space, Clusters clusters, Stage stage, HeapSearch search) {  \
        nearest_marked<METRIC>(space, clusters, stage, search);                                                         \
    }                                                                                                                   \
    extern "C" __global__ void nearest_measured_##NAME(SPACE space, Pivots pivots, Bounds bounds, Stage stage,          \
                                                       HeapSearch search) {                                             \
        nearest_measured<METRIC>(space, pivots, bounds, stage, search);                                                 \
    }

KERNELS(euclidean, EUCLIDEAN, VectorSpace)
KERNELS(edit, EUCLIDEAN, WordSpace)
