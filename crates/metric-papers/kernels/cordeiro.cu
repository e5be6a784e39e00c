// The kernels of Cordeiro 2023. A warp computes a distance. Each block keeps the k nearest points
// so far in shared memory, and a warp finds the farthest of them with a reduction.

// Number of warps of `k_selection`.
constexpr unsigned WARPS = 8;

// A set of vectors.
struct Rows {
    // Each row has `dimension` values.
    const float* values;
    unsigned count;
    unsigned dimension;
};

// Returns the Euclidean distance between two vectors, computed by a warp. Each lane computes one of
// 32 terms. Then lane l adds the terms of sum l % 8 in the same order as the CPU.
__device__ inline float warp_distance(const float* query, const float* point, unsigned dimension) {
    constexpr unsigned AHEAD = 4;
    const unsigned lane = threadIdx.x % 32;
    double sum = 0;
    for (unsigned first = 0; first < dimension; first += 32 * AHEAD) {
        float x[AHEAD], y[AHEAD];
#pragma unroll
        for (unsigned ahead = 0; ahead < AHEAD; ahead++) {
            // Zeros beyond the end do not change the sums.
            const unsigned i = first + 32 * ahead + lane;
            x[ahead] = i < dimension ? query[i] : 0;
            y[ahead] = i < dimension ? point[i] : 0;
        }
#pragma unroll
        for (unsigned ahead = 0; ahead < AHEAD; ahead++) {
            const double difference = static_cast<double>(x[ahead]) - y[ahead];
            const double square = difference * difference;
            // The terms i, i + 8, i + 16 and i + 24 belong to the same sum, in this order.
#pragma unroll
            for (unsigned row = 0; row < 4; row++) {
                sum += __shfl_sync(~0u, square, row * 8 + lane % 8);
            }
        }
    }
    sum += __shfl_xor_sync(~0u, sum, 4);
    sum += __shfl_xor_sync(~0u, sum, 2);
    sum += __shfl_xor_sync(~0u, sum, 1);
    return static_cast<float>(sqrt(sum));
}

// Finds the farthest neighbor and its position. All threads of a warp must call it.
__device__ inline void find_farthest(const unsigned long long* neighbors, unsigned k,
                                     unsigned long long& key, unsigned& position) {
    key = 0;
    position = 0;
    for (unsigned i = threadIdx.x % 32; i < k; i += 32) {
        if (neighbors[i] >= key) {
            key = neighbors[i];
            position = i;
        }
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        const unsigned long long other = __shfl_xor_sync(~0u, key, offset);
        const unsigned other_position = __shfl_xor_sync(~0u, position, offset);
        if (other > key || (other == key && other_position < position)) {
            key = other;
            position = other_position;
        }
    }
}

// Algorithm 2: finds nearest neighbors. If `queries_per_block` > 0, block b answers this number of
// queries, starting with query b * queries_per_block, each over all points. If it is 0, all blocks
// answer the first query, each over its part of the points. The result has k neighbors for each
// query, or for each block. Shared memory: the query, followed by k keys.
extern "C" __global__ void __launch_bounds__(1024)
    knn_kernel(Rows points, const float* queries, unsigned queries_per_block, unsigned k,
               unsigned long long* neighbors) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned lock;
    __shared__ unsigned long long farthest_key;
    __shared__ unsigned farthest_position;
    float* query = reinterpret_cast<float*>(shared);
    unsigned long long* own_keys =
        reinterpret_cast<unsigned long long*>(shared + (points.dimension * 4 + 15) / 16 * 16);
    const unsigned first = queries_per_block ? blockIdx.x * queries_per_block : 0,
                   last = queries_per_block ? first + queries_per_block : 1;
    const unsigned long long parts = queries_per_block ? 1 : gridDim.x,
                             part = queries_per_block ? 0 : blockIdx.x;
    const unsigned begin = static_cast<unsigned>(points.count * part / parts);
    const unsigned end = static_cast<unsigned>(points.count * (part + 1) / parts);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (unsigned q = first; q < last; q++) {
        for (unsigned i = threadIdx.x; i < points.dimension; i += blockDim.x) {
            query[i] = queries[size_t(q) * points.dimension + i];
        }
        for (unsigned i = threadIdx.x; i < k; i += blockDim.x) {
            own_keys[i] = ~0ull;
        }
        if (threadIdx.x == 0) {
            lock = 0;
            farthest_key = ~0ull;
            farthest_position = 0;
        }
        __syncthreads();
        for (unsigned p = begin + warp; p < end; p += blockDim.x / 32) {
            const float distance = warp_distance(
                query, points.values + size_t(p) * points.dimension, points.dimension);
            const unsigned long long key =
                static_cast<unsigned long long>(__float_as_uint(distance)) << 32 | p;
            // Unlike in the paper, which has one barrier per distance, the warps are not
            // synchronized. Only one warp at a time changes the neighbors. All lanes use the value
            // that lane 0 reads, so that they take the same branch.
            const unsigned long long farthest_before_lock =
                *static_cast<volatile unsigned long long*>(&farthest_key);
            if (key >= __shfl_sync(~0u, farthest_before_lock, 0)) {
                continue;
            }
            if (lane == 0) {
                while (atomicCAS(&lock, 0, 1) != 0) {
                }
            }
            __syncwarp();
            __threadfence_block();
            const unsigned long long farthest_after_lock =
                *static_cast<volatile unsigned long long*>(&farthest_key);
            if (key < __shfl_sync(~0u, farthest_after_lock, 0)) {
                if (lane == 0) {
                    *static_cast<volatile unsigned long long*>(
                        &own_keys[*static_cast<volatile unsigned*>(&farthest_position)]) = key;
                }
                __syncwarp();
                __threadfence_block();
                unsigned long long farthest;
                unsigned position;
                find_farthest(own_keys, k, farthest, position);
                if (lane == 0) {
                    *static_cast<volatile unsigned*>(&farthest_position) = position;
                    *static_cast<volatile unsigned long long*>(&farthest_key) = farthest;
                }
            }
            __threadfence_block();
            __syncwarp();
            if (lane == 0) {
                atomicExch(&lock, 0);
            }
            __syncwarp();
        }
        __syncthreads();
        unsigned long long* output = neighbors + size_t(queries_per_block ? q : blockIdx.x) * k;
        for (unsigned i = threadIdx.x; i < k; i += blockDim.x) {
            output[i] = own_keys[i];
        }
        __syncthreads();
    }
}

// Algorithm 3: writes the k smallest keys of each query in ascending order. One block per query.
// Shared memory: `size` keys, a power of two of at least k.
extern "C" __global__ void __launch_bounds__(256)
    k_selection(const unsigned long long* keys, unsigned length, unsigned k, unsigned size,
                unsigned long long* neighbors) {
    extern __shared__ unsigned long long selected[];
    __shared__ unsigned long long warp_keys[WARPS];
    __shared__ unsigned warp_positions[WARPS];
    __shared__ unsigned long long largest;
    __shared__ unsigned largest_position, is_taken;
    const unsigned long long* own_keys = keys + size_t(blockIdx.x) * length;
    for (unsigned i = threadIdx.x; i < size; i += blockDim.x) {
        selected[i] = i < min(k, length) ? own_keys[i] : ~0ull;
    }
    const auto find_largest = [&]() {
        unsigned long long key = 0;
        unsigned position = 0;
        for (unsigned i = threadIdx.x; i < k; i += blockDim.x) {
            if (selected[i] >= key) {
                key = selected[i];
                position = i;
            }
        }
        for (unsigned offset = 16; offset > 0; offset /= 2) {
            const unsigned long long other = __shfl_xor_sync(~0u, key, offset);
            const unsigned other_position = __shfl_xor_sync(~0u, position, offset);
            if (other > key) {
                key = other;
                position = other_position;
            }
        }
        if (threadIdx.x % 32 == 0) {
            warp_keys[threadIdx.x / 32] = key;
            warp_positions[threadIdx.x / 32] = position;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned best = 0;
            for (unsigned w = 1; w < WARPS; w++) {
                best = warp_keys[w] > warp_keys[best] ? w : best;
            }
            largest = warp_keys[best];
            largest_position = warp_positions[best];
            is_taken = 0;
        }
        __syncthreads();
    };
    __syncthreads();
    find_largest();
    for (unsigned pass_start = k; pass_start < length; pass_start += blockDim.x) {
        const unsigned i = pass_start + threadIdx.x;
        unsigned long long key = i < length ? own_keys[i] : ~0ull;
        // One thread at a time replaces the largest key with its own key. Then the block finds the
        // new largest key.
        while (__syncthreads_or(key < largest)) {
            if (key < largest && atomicCAS(&is_taken, 0, 1) == 0) {
                selected[largest_position] = key;
                key = ~0ull;
            }
            __syncthreads();
            find_largest();
        }
    }
    for (unsigned run_length = 2; run_length <= size; run_length *= 2) {
        for (unsigned offset = run_length / 2; offset > 0; offset /= 2) {
            __syncthreads();
            for (unsigned i = threadIdx.x; i < size; i += blockDim.x) {
                const unsigned other = i ^ offset;
                if (other > i && (selected[i] > selected[other]) == ((i & run_length) == 0)) {
                    const unsigned long long key = selected[i];
                    selected[i] = selected[other];
                    selected[other] = key;
                }
            }
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < k; i += blockDim.x) {
        neighbors[size_t(blockIdx.x) * k + i] = selected[i];
    }
}
