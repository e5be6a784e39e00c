// The trees of Karelis 2020. They are built level by level, with all nodes of a level at once, and
// searched with one thread per query. The points are rows of `dimension` values with Euclidean
// distances.
//
// Each node of a level is a range of positions in `order`. `node_of` contains the node of each
// position plus 1, or 0. Items are compared by their keys, and then by the numbers of their points.
// The key is the distance to the vantage point (VP-tree), or the coordinate in which the node is
// widest (KD-tree).

constexpr unsigned TREE_THREADS = 256;
constexpr unsigned NO_NODE = ~0u;

__device__ inline unsigned node_at(const unsigned* node_of, unsigned place) {
    return node_of[place] - 1;
}

struct Level {
    const unsigned* starts;
    const unsigned* counts;
    unsigned nodes;
    // Number of positions at the start of a node that do not move: 1 in a VP-tree, for the vantage
    // point.
    unsigned fixed;
};

// Writes the node of each position. One block per node, and several blocks for large nodes.
extern "C" __global__ void __launch_bounds__(TREE_THREADS) tree_mark(Level level, unsigned* node_of) {
    const unsigned start = level.starts[blockIdx.x], count = level.counts[blockIdx.x];
    for (unsigned i = blockIdx.y * TREE_THREADS + threadIdx.x; i < count; i += gridDim.y * TREE_THREADS) {
        node_of[start + i] = blockIdx.x + 1;
    }
}

// Moves the last point of each node to the front, as its vantage point. One thread per node.
extern "C" __global__ void __launch_bounds__(TREE_THREADS) vp_begin(Level level, unsigned* order, float* above) {
    const unsigned node = blockIdx.x * TREE_THREADS + threadIdx.x;
    if (node < level.nodes) {
        const unsigned first = level.starts[node], last = first + level.counts[node] - 1;
        const unsigned point = order[first];
        const float distance = above[first];
        order[first] = order[last];
        above[first] = above[last];
        order[last] = point;
        above[last] = distance;
    }
}

// Computes the distances of all other points of a node to its vantage point, and their keys. Eight
// threads per position.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    vp_keys(const float* points, unsigned dimension, Level level, const unsigned* node_of, const unsigned* order, unsigned count,
            float* above, unsigned long long* keys) {
    const unsigned at = blockIdx.x * (TREE_THREADS / 8) + threadIdx.x / 8;
    const unsigned place = min(at, count - 1), node = node_at(node_of, place);
    const unsigned start = node == NO_NODE ? 0 : level.starts[node], point = order[place];
    const bool is_measured = at < count && node != NO_NODE && place != start;
    // All threads of a warp must take part.
    const float distance = distance_of_eight<EUCLIDEAN>(points + size_t(is_measured ? order[start] : 0) * dimension,
                                                        points + size_t(is_measured ? point : 0) * dimension, dimension);
    if (is_measured && threadIdx.x % 8 == 0) {
        above[place] = distance;
        keys[place] = static_cast<unsigned long long>(__float_as_uint(distance)) << 32 | point;
    }
}

__device__ inline unsigned in_order(float value) {
    const unsigned bits = __float_as_uint(value);
    return bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u);
}

// Computes the box of each node: the smallest values, followed by the largest. One block per node.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    kd_boxes(const float* points, unsigned dimension, Level level, const unsigned* order, float* boxes, unsigned* axes) {
    __shared__ float lows[TREE_THREADS], highs[TREE_THREADS];
    const unsigned start = level.starts[blockIdx.x], count = level.counts[blockIdx.x];
    float* box = boxes + size_t(blockIdx.x) * 2 * dimension;
    double widest = -1;
    unsigned axis = 0;
    for (unsigned i = 0; i < dimension; i++) {
        float low = __int_as_float(0x7F800000), high = -low;
        for (unsigned at = threadIdx.x; at < count; at += TREE_THREADS) {
            const float value = points[size_t(order[start + at]) * dimension + i];
            low = fminf(low, value);
            high = fmaxf(high, value);
        }
        lows[threadIdx.x] = low;
        highs[threadIdx.x] = high;
        for (unsigned apart = TREE_THREADS / 2; apart > 0; apart /= 2) {
            __syncthreads();
            if (threadIdx.x < apart) {
                lows[threadIdx.x] = fminf(lows[threadIdx.x], lows[threadIdx.x + apart]);
                highs[threadIdx.x] = fmaxf(highs[threadIdx.x], highs[threadIdx.x + apart]);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            // Replaces negative zeros.
            box[i] = lows[0] + 0.0f;
            box[dimension + i] = highs[0] + 0.0f;
            const double spread = static_cast<double>(box[dimension + i]) - box[i];
            if (spread > widest) {
                widest = spread;
                axis = i;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        axes[blockIdx.x] = axis;
    }
}

// Computes the keys of a KD-tree. One thread per position.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    kd_keys(const float* points, unsigned dimension, const unsigned* axes, const unsigned* node_of, const unsigned* order,
            unsigned count, unsigned long long* keys) {
    const unsigned place = blockIdx.x * TREE_THREADS + threadIdx.x;
    if (place < count && node_at(node_of, place) != NO_NODE) {
        const unsigned point = order[place];
        const float value = points[size_t(point) * dimension + axes[node_at(node_of, place)]];
        keys[place] = static_cast<unsigned long long>(in_order(value)) << 32 | point;
    }
}

// Counts the keys of each node that begin with its prefix, by their next digit: 256 counts per
// node. One thread per position.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_count(const unsigned long long* keys, Level level, const unsigned* node_of, unsigned count,
               const unsigned long long* prefixes, unsigned shift, unsigned* digits) {
    __shared__ unsigned own[256];
    const unsigned first = blockIdx.x * TREE_THREADS * 8, last = min(count, first + TREE_THREADS * 8) - 1;
    // Most blocks are inside a single node.
    const bool is_one = node_at(node_of, first) == node_at(node_of, last) && node_at(node_of, first) != NO_NODE;
    own[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned place = first + threadIdx.x; place <= last; place += TREE_THREADS) {
        const unsigned node = node_at(node_of, place);
        if (node == NO_NODE || place - level.starts[node] < level.fixed) {
            continue;
        }
        const unsigned long long key = keys[place];
        if (shift < 56 && key >> (shift + 8) != prefixes[node]) {
            continue;
        }
        const unsigned digit = key >> shift & 255;
        atomicAdd(is_one ? &own[digit] : &digits[size_t(node) * 256 + digit], 1);
    }
    __syncthreads();
    if (is_one && own[threadIdx.x] > 0) {
        atomicAdd(&digits[size_t(node_at(node_of, first)) * 256 + threadIdx.x], own[threadIdx.x]);
    }
}

// Appends the next digit to the key with each node's rank, and clears the counts. One warp per
// node.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_digit(unsigned* digits, unsigned nodes, unsigned long long* prefixes, unsigned* ranks) {
    const unsigned node = blockIdx.x * (TREE_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (node >= nodes) {
        return;
    }
    unsigned* own = digits + size_t(node) * 256;
    unsigned sum = 0;
    for (unsigned i = 0; i < 8; i++) {
        sum += own[lane * 8 + i];
    }
    unsigned before = sum;
    for (unsigned apart = 1; apart < 32; apart *= 2) {
        const unsigned other = __shfl_up_sync(~0u, before, apart);
        before += lane >= apart ? other : 0;
    }
    before -= sum;
    const unsigned rank = ranks[node];
    if (before <= rank && rank < before + sum) {
        for (unsigned i = 0; i < 8; i++) {
            const unsigned size = own[lane * 8 + i];
            if (before <= rank && rank < before + size) {
                prefixes[node] = prefixes[node] << 8 | (lane * 8 + i);
                ranks[node] = rank - before;
                break;
            }
            before += size;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        own[lane * 8 + i] = 0;
    }
}

// Returns whether a position moves to the first side of its node: its key is below the node's key.
__device__ inline bool goes_first(const unsigned long long* keys, const Level& level, const unsigned* node_of,
                                  const unsigned long long* middles, unsigned place, unsigned count) {
    if (place >= count || node_at(node_of, place) == NO_NODE || place - level.starts[node_at(node_of, place)] < level.fixed) {
        return false;
    }
    return keys[place] < middles[node_at(node_of, place)];
}

// Counts the positions before each one in a block of 1,024 that move to the first side, and all
// such positions of the block.
extern "C" __global__ void __launch_bounds__(1024)
    tree_scan(const unsigned long long* keys, Level level, const unsigned* node_of, const unsigned long long* middles, unsigned count,
              unsigned* before, unsigned* sums) {
    __shared__ unsigned of_warps[32];
    const unsigned place = blockIdx.x * 1024 + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned ballot = __ballot_sync(~0u, goes_first(keys, level, node_of, middles, place, count));
    if (lane == 0) {
        of_warps[warp] = __popc(ballot);
    }
    __syncthreads();
    if (warp == 0) {
        unsigned sum = of_warps[lane];
        for (unsigned apart = 1; apart < 32; apart *= 2) {
            const unsigned other = __shfl_up_sync(~0u, sum, apart);
            sum += lane >= apart ? other : 0;
        }
        if (lane == 31) {
            sums[blockIdx.x] = sum;
        }
        of_warps[lane] = sum - of_warps[lane];
    }
    __syncthreads();
    if (place < count) {
        before[place] = of_warps[warp] + __popc(ballot & ((1u << lane) - 1));
    }
}

// Computes the sums before each block. A single block.
extern "C" __global__ void __launch_bounds__(1024) tree_scan_sums(unsigned* sums, unsigned blocks) {
    __shared__ unsigned part[1024];
    unsigned before = 0;
    for (unsigned from = 0; from < blocks; from += 1024) {
        const unsigned i = from + threadIdx.x, value = i < blocks ? sums[i] : 0;
        part[threadIdx.x] = value;
        __syncthreads();
        for (unsigned apart = 1; apart < 1024; apart *= 2) {
            const unsigned other = threadIdx.x >= apart ? part[threadIdx.x - apart] : 0;
            __syncthreads();
            part[threadIdx.x] += other;
            __syncthreads();
        }
        if (i < blocks) {
            sums[i] = before + part[threadIdx.x] - value;
        }
        before += part[1023];
        __syncthreads();
    }
}

// Moves each point to its side. Both sides keep the order of their points. `halves` are the sizes
// of the first sides. One thread per position.
extern "C" __global__ void __launch_bounds__(1024)
    tree_scatter(const unsigned long long* keys, Level level, const unsigned* node_of, const unsigned long long* middles,
                 const unsigned* halves, unsigned count, const unsigned* before, const unsigned* sums, const unsigned* order,
                 const float* above, unsigned* new_order, float* new_above) {
    const unsigned place = blockIdx.x * 1024 + threadIdx.x;
    if (place >= count) {
        return;
    }
    const unsigned node = node_at(node_of, place);
    unsigned to = place;
    if (node != NO_NODE && place - level.starts[node] >= level.fixed) {
        const unsigned start = level.starts[node] + level.fixed;
        const unsigned first = before[place] + sums[place / 1024] - before[start] - sums[start / 1024];
        to = goes_first(keys, level, node_of, middles, place, count) ? start + first
                                                                     : start + halves[node] + (place - start - first);
    }
    new_order[to] = order[place];
    new_above[to] = above[place];
}

// Computes the smallest and largest distance of each side of each node, for the first side and then
// for the second. One block per node.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    vp_sides(Level level, const unsigned* halves, const float* above, float* sides) {
    __shared__ unsigned extremes[4];
    if (threadIdx.x < 4) {
        extremes[threadIdx.x] = threadIdx.x % 2 ? 0 : 0x7F800000;
    }
    __syncthreads();
    const unsigned start = level.starts[blockIdx.x] + 1, count = level.counts[blockIdx.x] - 1;
    for (unsigned i = threadIdx.x; i < count; i += TREE_THREADS) {
        // Distances are at least 0, so their bits have the same order.
        const unsigned distance = __float_as_uint(above[start + i]), side = i < halves[blockIdx.x] ? 0 : 2;
        atomicMin(&extremes[side], distance);
        atomicMax(&extremes[side + 1], distance);
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        sides[blockIdx.x * 4 + threadIdx.x] = __uint_as_float(extremes[threadIdx.x]);
    }
}

struct Tree {
    const float* points;
    const unsigned* order;
    // For each node: its first position, its number of positions, and the nodes of its sides
    // (NO_NODE for a leaf).
    const uint4* nodes;
    // VP-tree: the smallest and largest distance of both sides of each node. KD-tree: the box of
    // each node.
    const float* bounds;
    unsigned count;
    unsigned dimension;
    unsigned is_kd;
};

// Returns a lower bound of the distance between the query and the box.
__device__ inline float box_bound(const float* query, const float* box, unsigned dimension) {
    double sum = 0;
    for (unsigned i = 0; i < dimension; i++) {
        const double below = static_cast<double>(box[i]) - query[i], beyond = static_cast<double>(query[i]) - box[dimension + i];
        const double apart = fmax(fmax(below, beyond), 0.0);
        sum += apart * apart;
    }
    return __double2float_rd(sqrt(sum) * (1 - 1e-6));
}

// Finds the k nearest points of each query, nearest first, and counts the nodes that it visits. One
// thread per query. Entry i of the heap of query q is at i * queries + q.
extern "C" __global__ void __launch_bounds__(64)
    tree_nearest(Tree tree, Bounds bounds, const float* queries, unsigned query_count, unsigned k, unsigned long long* heaps,
                 unsigned long long* neighbors, unsigned* visited) {
    // A tree of 2^32 points has fewer levels. Each level has one node on the stack and one node
    // above it.
    constexpr unsigned DEPTH = 64;
    const unsigned number = blockIdx.x * 64 + threadIdx.x;
    if (number >= query_count) {
        return;
    }
    const float* query = queries + size_t(number) * tree.dimension;
    Heap heap = {heaps + number, query_count, 0, k};
    const auto radius = [&]() { return heap.size == k ? distance_in(heap.keys[0]) : __int_as_float(0x7F800000); };
    const auto measure = [&](unsigned place) {
        const unsigned point = tree.order[place];
        const float d = distance_of_one(EUCLIDEAN, query, 1, tree.points + size_t(point) * tree.dimension, 1, tree.dimension);
        insert(heap, key_of(d, point));
        return d;
    };
    unsigned stack[DEPTH], depth = 0, nodes = 0;
    float least[DEPTH];
    if (tree.count > 0) {
        stack[depth] = 0;
        least[depth++] = 0;
    }
    while (depth > 0) {
        const float bound = least[--depth];
        if (bound > radius()) {
            continue;
        }
        const unsigned at = stack[depth];
        const uint4 node = tree.nodes[at];
        nodes++;
        if (node.z == NO_NODE) {
            for (unsigned i = 0; i < node.y; i++) {
                measure(node.x + i);
            }
            continue;
        }
        float near[2];
        bool second_first;
        if (tree.is_kd) {
            near[0] = box_bound(query, tree.bounds + size_t(node.z) * 2 * tree.dimension, tree.dimension);
            near[1] = box_bound(query, tree.bounds + size_t(node.w) * 2 * tree.dimension, tree.dimension);
            second_first = near[1] < near[0];
        } else {
            const float d = measure(node.x);
            const float* side = tree.bounds + size_t(at) * 4;
            near[0] = fmaxf(gap(bounds, d, side[1]), gap(bounds, side[0], d));
            near[1] = fmaxf(gap(bounds, d, side[3]), gap(bounds, side[2], d));
            // The outer side comes first if the query is beyond the median.
            second_first = d > side[1];
        }
        // The more likely side is the last one on the stack.
        for (unsigned turn = 0; turn < 2; turn++) {
            const bool is_second = (turn == 1) == second_first;
            if (near[is_second] <= radius()) {
                stack[depth] = is_second ? node.w : node.z;
                least[depth++] = near[is_second];
            }
        }
    }
    visited[number] = nodes;
    const unsigned found = heap.size;
    for (unsigned left = found; left > 0; left--) {
        neighbors[size_t(number) * k + left - 1] = heap.keys[0];
        const unsigned long long last = heap.keys[size_t(left - 1) * query_count];
        heap.size = heap.k = left - 1;
        if (left > 1) {
            // The last key sinks from the root.
            heap.keys[0] = NO_KEY;
            insert(heap, last);
        }
    }
    for (unsigned i = found; i < k; i++) {
        neighbors[size_t(number) * k + i] = NO_KEY;
    }
}
