// The trees of Karelis 2020. The kernels build them level by level, all nodes of a level at once,
// and search them with one thread per query. The points are rows of `dimension` values with
// Euclidean distances.
//
// Each node of a level is a range of positions in `order`. `node_of` has the node of each position
// plus 1, or 0 for none. Points are sorted by their keys, and then by their numbers. The key is the
// distance to the vantage point (VP-tree), or the coordinate in which the node is widest (KD-tree).

constexpr unsigned TREE_THREADS = 256;
constexpr unsigned NO_NODE = ~0u;

// Returns the node of a position, or NO_NODE.
__device__ inline unsigned node_at(const unsigned* node_of, unsigned position) {
    return node_of[position] - 1;
}

// The nodes of a level.
struct Level {
    const unsigned* starts;
    const unsigned* counts;
    unsigned nodes;
    // Number of positions at the start of each node that do not move: 1 in a VP-tree, for the
    // vantage point.
    unsigned fixed;
};

// Writes the node of each position. One or more blocks per node.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_mark(Level level, unsigned* node_of) {
    const unsigned start = level.starts[blockIdx.x], count = level.counts[blockIdx.x];
    for (unsigned i = blockIdx.y * TREE_THREADS + threadIdx.x; i < count;
         i += gridDim.y * TREE_THREADS) {
        node_of[start + i] = blockIdx.x + 1;
    }
}

// Swaps the first and last points of each node, so that the last point becomes the vantage point.
// One thread per node.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    vp_begin(Level level, unsigned* order, float* above) {
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

// Computes the distances of the other points of a node to its vantage point, and their keys. Eight
// threads per position.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    vp_keys(const float* points, unsigned dimension, Level level, const unsigned* node_of,
            const unsigned* order, unsigned count, float* above, unsigned long long* keys) {
    const unsigned index = blockIdx.x * (TREE_THREADS / 8) + threadIdx.x / 8;
    const unsigned position = min(index, count - 1), node = node_at(node_of, position);
    const unsigned start = node == NO_NODE ? 0 : level.starts[node], point = order[position];
    const bool is_measured = index < count && node != NO_NODE && position != start;
    // All threads of a warp must call this function.
    const float distance = distance_of_eight<EUCLIDEAN>(
        points + size_t(is_measured ? order[start] : 0) * dimension,
        points + size_t(is_measured ? point : 0) * dimension, dimension);
    if (is_measured && threadIdx.x % 8 == 0) {
        above[position] = distance;
        keys[position] = static_cast<unsigned long long>(__float_as_uint(distance)) << 32 | point;
    }
}

// Maps floats to unsigned integers in the same order.
__device__ inline unsigned float_to_ordered(float value) {
    const unsigned bits = __float_as_uint(value);
    return bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u);
}

// Computes the bounding box of each node (the smallest values, then the largest) and its widest
// axis. One block per node.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    kd_boxes(const float* points, unsigned dimension, Level level, const unsigned* order,
             float* boxes, unsigned* axes) {
    __shared__ float lows[TREE_THREADS], highs[TREE_THREADS];
    const unsigned start = level.starts[blockIdx.x], count = level.counts[blockIdx.x];
    float* box = boxes + size_t(blockIdx.x) * 2 * dimension;
    double widest = -1;
    unsigned axis = 0;
    for (unsigned i = 0; i < dimension; i++) {
        float low = __int_as_float(0x7F800000), high = -low;
        for (unsigned index = threadIdx.x; index < count; index += TREE_THREADS) {
            const float value = points[size_t(order[start + index]) * dimension + i];
            low = fminf(low, value);
            high = fmaxf(high, value);
        }
        lows[threadIdx.x] = low;
        highs[threadIdx.x] = high;
        for (unsigned offset = TREE_THREADS / 2; offset > 0; offset /= 2) {
            __syncthreads();
            if (threadIdx.x < offset) {
                lows[threadIdx.x] = fminf(lows[threadIdx.x], lows[threadIdx.x + offset]);
                highs[threadIdx.x] = fmaxf(highs[threadIdx.x], highs[threadIdx.x + offset]);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            // Adding 0 replaces negative zeros.
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
    kd_keys(const float* points, unsigned dimension, const unsigned* axes, const unsigned* node_of,
            const unsigned* order, unsigned count, unsigned long long* keys) {
    const unsigned position = blockIdx.x * TREE_THREADS + threadIdx.x;
    if (position < count && node_at(node_of, position) != NO_NODE) {
        const unsigned point = order[position];
        const float value = points[size_t(point) * dimension + axes[node_at(node_of, position)]];
        keys[position] = static_cast<unsigned long long>(float_to_ordered(value)) << 32 | point;
    }
}

// Counts the next digits of the keys that begin with the prefix of their node: 256 counts per node.
// Each block processes eight positions per thread.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_count(const unsigned long long* keys, Level level, const unsigned* node_of, unsigned count,
               const unsigned long long* prefixes, unsigned shift, unsigned* digits) {
    __shared__ unsigned block_digits[256];
    const unsigned first = blockIdx.x * TREE_THREADS * 8,
                   last = min(count, first + TREE_THREADS * 8) - 1;
    // Most blocks are inside a single node.
    const bool is_single_node =
        node_at(node_of, first) == node_at(node_of, last) && node_at(node_of, first) != NO_NODE;
    block_digits[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned position = first + threadIdx.x; position <= last; position += TREE_THREADS) {
        const unsigned node = node_at(node_of, position);
        if (node == NO_NODE || position - level.starts[node] < level.fixed) {
            continue;
        }
        const unsigned long long key = keys[position];
        if (shift < 56 && key >> (shift + 8) != prefixes[node]) {
            continue;
        }
        const unsigned digit = key >> shift & 255;
        atomicAdd(is_single_node ? &block_digits[digit] : &digits[size_t(node) * 256 + digit], 1);
    }
    __syncthreads();
    if (is_single_node && block_digits[threadIdx.x] > 0) {
        atomicAdd(&digits[size_t(node_at(node_of, first)) * 256 + threadIdx.x],
                  block_digits[threadIdx.x]);
    }
}

// For each node, finds the next digit of the key whose rank is `ranks[node]`, appends it to the
// prefix, and clears the counts. One warp per node.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_digit(unsigned* digits, unsigned nodes, unsigned long long* prefixes, unsigned* ranks) {
    const unsigned node = blockIdx.x * (TREE_THREADS / 32) + threadIdx.x / 32,
                   lane = threadIdx.x % 32;
    if (node >= nodes) {
        return;
    }
    unsigned* node_digits = digits + size_t(node) * 256;
    unsigned sum = 0;
    for (unsigned i = 0; i < 8; i++) {
        sum += node_digits[lane * 8 + i];
    }
    unsigned before = sum;
    for (unsigned offset = 1; offset < 32; offset *= 2) {
        const unsigned other = __shfl_up_sync(~0u, before, offset);
        before += lane >= offset ? other : 0;
    }
    before -= sum;
    const unsigned rank = ranks[node];
    if (before <= rank && rank < before + sum) {
        for (unsigned i = 0; i < 8; i++) {
            const unsigned size = node_digits[lane * 8 + i];
            if (before <= rank && rank < before + size) {
                prefixes[node] = prefixes[node] << 8 | (lane * 8 + i);
                ranks[node] = rank - before;
                break;
            }
            before += size;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        node_digits[lane * 8 + i] = 0;
    }
}

// Returns whether a point moves to the first side of its node: its key is below the median of the
// node.
__device__ inline bool moves_to_first_side(const unsigned long long* keys, const Level& level,
                                           const unsigned* node_of,
                                           const unsigned long long* medians, unsigned position,
                                           unsigned count) {
    if (position >= count || node_at(node_of, position) == NO_NODE ||
        position - level.starts[node_at(node_of, position)] < level.fixed) {
        return false;
    }
    return keys[position] < medians[node_at(node_of, position)];
}

// Counts the points that move to the first side: for each position, those before it in its block of
// 1,024 positions, and for each block, all of them.
extern "C" __global__ void __launch_bounds__(1024)
    tree_scan(const unsigned long long* keys, Level level, const unsigned* node_of,
              const unsigned long long* medians, unsigned count, unsigned* before, unsigned* sums) {
    __shared__ unsigned warp_sums[32];
    const unsigned position = blockIdx.x * 1024 + threadIdx.x, lane = threadIdx.x % 32,
                   warp = threadIdx.x / 32;
    const unsigned ballot =
        __ballot_sync(~0u, moves_to_first_side(keys, level, node_of, medians, position, count));
    if (lane == 0) {
        warp_sums[warp] = __popc(ballot);
    }
    __syncthreads();
    if (warp == 0) {
        unsigned sum = warp_sums[lane];
        for (unsigned offset = 1; offset < 32; offset *= 2) {
            const unsigned other = __shfl_up_sync(~0u, sum, offset);
            sum += lane >= offset ? other : 0;
        }
        if (lane == 31) {
            sums[blockIdx.x] = sum;
        }
        warp_sums[lane] = sum - warp_sums[lane];
    }
    __syncthreads();
    if (position < count) {
        before[position] = warp_sums[warp] + __popc(ballot & ((1u << lane) - 1));
    }
}

// Replaces the count of each block with the sum of the counts before it. A single block.
extern "C" __global__ void __launch_bounds__(1024) tree_scan_sums(unsigned* sums, unsigned blocks) {
    __shared__ unsigned partial_sums[1024];
    unsigned before = 0;
    for (unsigned pass_start = 0; pass_start < blocks; pass_start += 1024) {
        const unsigned i = pass_start + threadIdx.x, value = i < blocks ? sums[i] : 0;
        partial_sums[threadIdx.x] = value;
        __syncthreads();
        for (unsigned offset = 1; offset < 1024; offset *= 2) {
            const unsigned other = threadIdx.x >= offset ? partial_sums[threadIdx.x - offset] : 0;
            __syncthreads();
            partial_sums[threadIdx.x] += other;
            __syncthreads();
        }
        if (i < blocks) {
            sums[i] = before + partial_sums[threadIdx.x] - value;
        }
        before += partial_sums[1023];
        __syncthreads();
    }
}

// Moves each point to its side. Both sides keep the order of their points. `first_side_counts` has
// the sizes of the first sides. One thread per position.
extern "C" __global__ void __launch_bounds__(1024)
    tree_scatter(const unsigned long long* keys, Level level, const unsigned* node_of,
                 const unsigned long long* medians, const unsigned* first_side_counts,
                 unsigned count, const unsigned* before, const unsigned* sums,
                 const unsigned* order, const float* above, unsigned* new_order, float* new_above) {
    const unsigned position = blockIdx.x * 1024 + threadIdx.x;
    if (position >= count) {
        return;
    }
    const unsigned node = node_at(node_of, position);
    unsigned new_position = position;
    if (node != NO_NODE && position - level.starts[node] >= level.fixed) {
        const unsigned start = level.starts[node] + level.fixed;
        const unsigned first =
            before[position] + sums[position / 1024] - before[start] - sums[start / 1024];
        new_position = moves_to_first_side(keys, level, node_of, medians, position, count)
                           ? start + first
                           : start + first_side_counts[node] + (position - start - first);
    }
    new_order[new_position] = order[position];
    new_above[new_position] = above[position];
}

// Computes the smallest and largest distance to the vantage point, for the first side of each node
// and then for the second. One block per node.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    vp_sides(Level level, const unsigned* first_side_counts, const float* above, float* sides) {
    __shared__ unsigned extremes[4];
    if (threadIdx.x < 4) {
        extremes[threadIdx.x] = threadIdx.x % 2 ? 0 : 0x7F800000;
    }
    __syncthreads();
    const unsigned start = level.starts[blockIdx.x] + 1, count = level.counts[blockIdx.x] - 1;
    for (unsigned i = threadIdx.x; i < count; i += TREE_THREADS) {
        // Distances are at least 0, so their bits have the same order.
        const unsigned distance = __float_as_uint(above[start + i]),
                       side = i < first_side_counts[blockIdx.x] ? 0 : 2;
        atomicMin(&extremes[side], distance);
        atomicMax(&extremes[side + 1], distance);
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        sides[blockIdx.x * 4 + threadIdx.x] = __uint_as_float(extremes[threadIdx.x]);
    }
}

// The tree to search.
struct Tree {
    const float* points;
    const unsigned* order;
    // For each node: its first position, its number of positions, and the nodes of its two sides
    // (NO_NODE for a leaf).
    const uint4* nodes;
    // VP-tree: the smallest and largest distance of both sides of each node. KD-tree: the box of
    // each node.
    const float* bounds;
    unsigned count;
    unsigned dimension;
    unsigned is_kd;
};

// Returns a lower bound on the distance between the query and the points in a box.
__device__ inline float box_bound(const float* query, const float* box, unsigned dimension) {
    double sum = 0;
    for (unsigned i = 0; i < dimension; i++) {
        const double below = static_cast<double>(box[i]) - query[i],
                     beyond = static_cast<double>(query[i]) - box[dimension + i];
        const double difference = fmax(fmax(below, beyond), 0.0);
        sum += difference * difference;
    }
    return __double2float_rd(sqrt(sum) * (1 - 1e-6));
}

// Finds the k nearest points of each query, nearest first, and counts the visited nodes. One thread
// per query. Entry i of the heap of query q is at i * queries + q.
extern "C" __global__ void __launch_bounds__(64)
    tree_nearest(Tree tree, Bounds bounds, const float* queries, unsigned query_count, unsigned k,
                 unsigned long long* heaps, unsigned long long* neighbors, unsigned* visited) {
    // A tree of 2^32 points has fewer levels than this. Each level adds at most one node to the
    // stack.
    constexpr unsigned DEPTH = 64;
    const unsigned query_number = blockIdx.x * 64 + threadIdx.x;
    if (query_number >= query_count) {
        return;
    }
    const float* query = queries + size_t(query_number) * tree.dimension;
    Heap heap = {heaps + query_number, query_count, 0, k};
    const auto radius = [&]() {
        return heap.size == k ? distance_of_key(heap.keys[0]) : __int_as_float(0x7F800000);
    };
    const auto add_point = [&](unsigned position) {
        const unsigned point = tree.order[position];
        const float d = distance_of_one(
            EUCLIDEAN, query, 1, tree.points + size_t(point) * tree.dimension, 1, tree.dimension);
        insert(heap, make_key(d, point));
        return d;
    };
    unsigned stack[DEPTH], depth = 0, nodes = 0;
    float stack_bounds[DEPTH];
    if (tree.count > 0) {
        stack[depth] = 0;
        stack_bounds[depth++] = 0;
    }
    while (depth > 0) {
        const float bound = stack_bounds[--depth];
        if (bound > radius()) {
            continue;
        }
        const unsigned node_index = stack[depth];
        const uint4 node = tree.nodes[node_index];
        nodes++;
        if (node.z == NO_NODE) {
            for (unsigned i = 0; i < node.y; i++) {
                add_point(node.x + i);
            }
            continue;
        }
        float side_bounds[2];
        bool is_second_first;
        if (tree.is_kd) {
            side_bounds[0] =
                box_bound(query, tree.bounds + size_t(node.z) * 2 * tree.dimension, tree.dimension);
            side_bounds[1] =
                box_bound(query, tree.bounds + size_t(node.w) * 2 * tree.dimension, tree.dimension);
            is_second_first = side_bounds[1] < side_bounds[0];
        } else {
            const float d = add_point(node.x);
            const float* side = tree.bounds + size_t(node_index) * 4;
            side_bounds[0] =
                fmaxf(min_distance(bounds, d, side[1]), min_distance(bounds, side[0], d));
            side_bounds[1] =
                fmaxf(min_distance(bounds, d, side[3]), min_distance(bounds, side[2], d));
            // Visit the second side first if the query is farther from the vantage point than all
            // points of the first side.
            is_second_first = d > side[1];
        }
        // Push the more likely side last, so that it is visited first.
        for (unsigned step = 0; step < 2; step++) {
            const bool is_second = (step == 1) == is_second_first;
            if (side_bounds[is_second] <= radius()) {
                stack[depth] = is_second ? node.w : node.z;
                stack_bounds[depth++] = side_bounds[is_second];
            }
        }
    }
    visited[query_number] = nodes;
    const unsigned found = heap.size;
    for (unsigned remaining = found; remaining > 0; remaining--) {
        neighbors[size_t(query_number) * k + remaining - 1] = heap.keys[0];
        const unsigned long long last = heap.keys[size_t(remaining - 1) * query_count];
        heap.size = heap.k = remaining - 1;
        if (remaining > 1) {
            // The last key moves down from the root.
            heap.keys[0] = NO_KEY;
            insert(heap, last);
        }
    }
    for (unsigned i = found; i < k; i++) {
        neighbors[size_t(query_number) * k + i] = NO_KEY;
    }
}
