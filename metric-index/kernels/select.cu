// Reduces the candidates of queries and finds the neighbors among them.

// Returns a value such that at least `rank` candidates have a value at most as large, and not many
// more than `rank`. Finds it by bisection of the candidates' keys. The threads hold as many keys as
// fit in registers. All threads of the block must call it.
__device__ inline float value_of_rank(const Candidate* candidates, unsigned count, unsigned rank) {
    __shared__ unsigned least, greatest, totals[3];
    if (threadIdx.x == 0) {
        least = ~0u;
        greatest = totals[0] = totals[1] = totals[2] = 0;
    }
    __syncthreads();
    constexpr unsigned KEYS = 16;
    unsigned keys[KEYS], low = ~0u, high = 0;
#pragma unroll
    for (unsigned i = 0; i < KEYS; i++) {
        const unsigned index = threadIdx.x + i * SELECT_THREADS;
        keys[i] = index < count ? float_to_ordered(candidates[index].value) : ~0u;
        low = min(low, keys[i]);
        high = index < count ? max(high, keys[i]) : high;
    }
    for (unsigned index = threadIdx.x + KEYS * SELECT_THREADS; index < count;
         index += SELECT_THREADS) {
        low = min(low, float_to_ordered(candidates[index].value));
        high = max(high, float_to_ordered(candidates[index].value));
    }
    low = __reduce_min_sync(~0u, low);
    high = __reduce_max_sync(~0u, high);
    if (threadIdx.x % 32 == 0) {
        atomicMin(&least, low);
        atomicMax(&greatest, high);
    }
    __syncthreads();
    // Fewer than `rank` keys are at most `low`, and at least `rank` keys are at most `high`.
    low = least - 1;
    high = greatest;
    for (unsigned step = 0; high - low > 1; step++) {
        const unsigned middle = low + (high - low) / 2;
        unsigned own_total = 0;
#pragma unroll
        for (unsigned i = 0; i < KEYS; i++) {
            own_total += keys[i] <= middle;
        }
        for (unsigned index = threadIdx.x + KEYS * SELECT_THREADS; index < count;
             index += SELECT_THREADS) {
            own_total += float_to_ordered(candidates[index].value) <= middle;
        }
        own_total = __reduce_add_sync(~0u, own_total);
        if (threadIdx.x % 32 == 0) {
            atomicAdd(&totals[step % 3], own_total);
        }
        __syncthreads();
        const unsigned total = totals[step % 3];
        if (threadIdx.x == 0) {
            // All threads have read this total before the barrier.
            totals[(step + 2) % 3] = 0;
        }
        if (total < rank) {
            low = middle;
        } else {
            high = middle;
            if (total <= rank + rank / 8) {
                break;
            }
        }
    }
    __syncthreads();
    return ordered_to_float(high);
}

// Returns the threshold if `value` is the k-th smallest value: `value` plus twice the maximum error
// of values, which is the query's slack plus a share of the value. Every point as near as the k-th
// point has at most this value.
__device__ inline float threshold_for(const Query& state, float value) {
    return __fadd_ru(__fadd_ru(value, __fmul_ru(state.slope, fabsf(value))), state.slack);
}

// Keeps the candidates of each query that can be among its `k` nearest points, and lowers its
// threshold. `fixed_count` is the number of candidates of each query, or 0 to use `counts`. Shared
// memory: `capacity` candidates. One block per query.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
    select(Query* states, unsigned* counts, Candidate* candidates, unsigned capacity, unsigned k,
           unsigned fixed_count) {
    extern __shared__ Candidate kept[];
    __shared__ unsigned kept_count;
    const unsigned query = blockIdx.x;
    Candidate* own_candidates = candidates + size_t(query) * capacity;
    Query state = states[query];
    const unsigned count = fixed_count ? fixed_count : counts[query];
    if (state.status != ANSWERED || count > capacity) {
        __syncthreads();
        if (threadIdx.x == 0) {
            states[query].status = state.status ? state.status : TOO_MANY_CANDIDATES;
            states[query].threshold = -__int_as_float(0x7F800000);
            counts[query] = 0;
        }
        return;
    }
    if (threadIdx.x == 0) {
        kept_count = 0;
    }
    float threshold = state.threshold;
    if (count >= k) {
        threshold = fminf(threshold, threshold_for(state, value_of_rank(own_candidates, count, k)));
    }
    __syncthreads();
    for (unsigned index = threadIdx.x; index < count; index += SELECT_THREADS) {
        if (own_candidates[index].value <= threshold) {
            kept[atomicAdd(&kept_count, 1)] = own_candidates[index];
        }
    }
    __syncthreads();
    for (unsigned index = threadIdx.x; index < kept_count; index += SELECT_THREADS) {
        own_candidates[index] = kept[index];
    }
    if (threadIdx.x == 0) {
        counts[query] = kept_count;
        states[query].threshold = threshold;
    }
}

// Returns the key of a neighbor: the bits of its distance, then the point. Distances are at least
// 0, so their bits have the same order.
__device__ inline unsigned long long neighbor_key(float distance, unsigned point) {
    return static_cast<unsigned long long>(__float_as_uint(distance)) << 32 | point;
}

// The points of a store.
struct Points {
    // `dimension` unmodified values per point.
    const float* values;
    // The lengths of the points, only for angular distances.
    const double* lengths;
    unsigned count;
    unsigned dimension;
    unsigned metric;
    // Position p holds point p * step modulo count.
    unsigned step;
};

// Returns the point at a position.
__device__ inline unsigned point_at(const Points& points, unsigned position) {
    return static_cast<unsigned>(static_cast<unsigned long long>(position) * points.step %
                                 points.count);
}

// Maximum dimension of queries in shared memory. Queries with more dimensions are read from global
// memory.
constexpr unsigned MAX_CACHED_DIMENSION = 4096;

template <unsigned METRIC, typename A>
__device__ inline void measure_with(const Points& points, const A* query, Candidate* candidates,
                                    unsigned count) {
    for (unsigned first = 0; first < count; first += SELECT_THREADS / 8) {
        const unsigned index = first + threadIdx.x / 8;
        const unsigned point = index < count ? point_at(points, candidates[index].position) : 0;
        const float* vector = points.values + size_t(point) * points.dimension;
        const float distance = distance_of_eight<METRIC>(query, vector, points.dimension);
        __syncwarp();
        if (threadIdx.x % 8 == 0 && index < count) {
            reinterpret_cast<unsigned long long*>(candidates)[index] =
                neighbor_key(distance, point);
        }
    }
}

// Replaces some candidates by the keys of their exact distances from a query. All threads of the
// block must call it.
template <typename A>
__device__ inline void measure(const Points& points, const A* query, Candidate* candidates,
                               unsigned count) {
    if (points.metric == EUCLIDEAN) {
        measure_with<EUCLIDEAN>(points, query, candidates, count);
    } else if (points.metric == MANHATTAN) {
        measure_with<MANHATTAN>(points, query, candidates, count);
    } else {
        measure_with<CHEBYSHEV>(points, query, candidates, count);
    }
}

// Replaces some candidates by the keys of their exact angular distances. Sets `is_certain` to false
// if the rounding of an angle to f32 is uncertain.
__device__ inline void measure_angles(const Points& points, const float* query, double query_length,
                                      Candidate* candidates, unsigned count, bool& is_certain) {
    for (unsigned index = threadIdx.x; index < count; index += SELECT_THREADS) {
        const unsigned point = point_at(points, candidates[index].position);
        const float* vector = points.values + size_t(point) * points.dimension;
        const float distance =
            angle(vector, points.lengths[point], query, query_length, points.dimension, is_certain);
        reinterpret_cast<unsigned long long*>(candidates)[index] = neighbor_key(distance, point);
    }
}

// Replaces all candidates by the keys of their exact distances (`neighbor_key`). Each block
// processes groups of 32 candidates: the groups blockIdx.y, blockIdx.y + gridDim.y, and so on.
// Shared memory: the coordinates of a query as f64, if they are at most MAX_CACHED_DIMENSION and
// the distance is not angular.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
    measure_all(Points points, const float* queries, const double* query_lengths, Query* states,
                const unsigned* counts, Candidate* candidates, unsigned capacity) {
    constexpr unsigned GROUP_SIZE = SELECT_THREADS / 8;
    extern __shared__ double near_query[];
    const unsigned query = blockIdx.x, count = counts[query];
    if (states[query].status != ANSWERED || count > capacity) {
        if (threadIdx.x == 0 && blockIdx.y == 0) {
            states[query].status =
                states[query].status ? states[query].status : TOO_MANY_CANDIDATES;
        }
        return;
    }
    if (blockIdx.y * GROUP_SIZE >= count) {
        return;
    }
    bool is_certain = true;
    const float* values = queries + size_t(query) * points.dimension;
    const bool is_cached = points.metric != ANGULAR && points.dimension <= MAX_CACHED_DIMENSION;
    if (is_cached) {
        for (unsigned i = threadIdx.x; i < points.dimension; i += SELECT_THREADS) {
            near_query[i] = values[i];
        }
        __syncthreads();
    }
    for (unsigned first = blockIdx.y * GROUP_SIZE; first < count; first += gridDim.y * GROUP_SIZE) {
        Candidate* group = candidates + size_t(query) * capacity + first;
        const unsigned group_count = min(count - first, GROUP_SIZE);
        if (points.metric == ANGULAR) {
            measure_angles(points, values, query_lengths[query], group, group_count, is_certain);
        } else if (is_cached) {
            measure(points, near_query, group, group_count);
        } else {
            measure(points, values, group, group_count);
        }
    }
    if (!is_certain) {
        states[query].status = UNCERTAIN_ROUNDING;
    }
}

// Writes the `k` nearest results of `measure_all`, nearest first. Of equal distances, the lower
// point comes first. If there are fewer than `k`, all bits of the remaining elements are set.
// Shared memory: `capacity` keys. One block per query.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
    order(const Query* states, const unsigned* counts, const unsigned long long* candidates,
          unsigned capacity, unsigned k, unsigned long long* neighbors) {
    extern __shared__ unsigned long long keys[];
    const unsigned query = blockIdx.x, count = counts[query];
    if (states[query].status != ANSWERED || count > capacity) {
        return;
    }
    unsigned size = 1;
    while (size < count) {
        size *= 2;
    }
    for (unsigned index = threadIdx.x; index < size; index += SELECT_THREADS) {
        keys[index] = index < count ? candidates[size_t(query) * capacity + index] : ~0ull;
    }
    sort(keys, size);
    for (unsigned index = threadIdx.x; index < k; index += SELECT_THREADS) {
        neighbors[size_t(query) * k + index] = index < count ? keys[index] : ~0ull;
    }
}
