// Fewer candidates, and from the last of them the neighbors.

// A value that at least `rank` values of candidates are below or equal to, and not many more: by bisection of their keys, which
// threads hold in registers, as far as they fit.
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
        const unsigned at = threadIdx.x + i * SELECT_THREADS;
        keys[i] = at < count ? ordered(candidates[at].value) : ~0u;
        low = min(low, keys[i]);
        high = at < count ? max(high, keys[i]) : high;
    }
    for (unsigned at = threadIdx.x + KEYS * SELECT_THREADS; at < count; at += SELECT_THREADS) {
        low = min(low, ordered(candidates[at].value));
        high = max(high, ordered(candidates[at].value));
    }
    low = __reduce_min_sync(~0u, low);
    high = __reduce_max_sync(~0u, high);
    if (threadIdx.x % 32 == 0) {
        atomicMin(&least, low);
        atomicMax(&greatest, high);
    }
    __syncthreads();
    // Fewer than `rank` keys are at most `low`; at least `rank` are at most `high`.
    low = least - 1;
    high = greatest;
    for (unsigned round = 0; high - low > 1; round++) {
        const unsigned middle = low + (high - low) / 2;
        unsigned own = 0;
#pragma unroll
        for (unsigned i = 0; i < KEYS; i++) {
            own += keys[i] <= middle;
        }
        for (unsigned at = threadIdx.x + KEYS * SELECT_THREADS; at < count; at += SELECT_THREADS) {
            own += ordered(candidates[at].value) <= middle;
        }
        own = __reduce_add_sync(~0u, own);
        if (threadIdx.x % 32 == 0) {
            atomicAdd(&totals[round % 3], own);
        }
        __syncthreads();
        const unsigned total = totals[round % 3];
        if (threadIdx.x == 0) {
            // The one that all threads have read before the barrier.
            totals[(round + 2) % 3] = 0;
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
    return unordered(high);
}

// Twice what a value may be wrong by is the query's slack, and a share of the value: a point that is as near as the k-th
// has at most this value.
__device__ inline float lowered(const Query& state, float value) {
    return __fadd_ru(__fadd_ru(value, __fmul_ru(state.slope, fabsf(value))), state.slack);
}

// Keeps the candidates of each query that can be among its `k` nearest. `given` is the number of candidates of each; 0: as counted.
// Shared memory: `room` candidates. A block a query.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
    select(Query* states, unsigned* counts, Candidate* candidates, unsigned room, unsigned k, unsigned given) {
    extern __shared__ Candidate kept[];
    __shared__ unsigned kept_count;
    const unsigned query = blockIdx.x;
    Candidate* own = candidates + size_t(query) * room;
    Query state = states[query];
    const unsigned count = given ? given : counts[query];
    if (state.status != ANSWERED || count > room) {
        __syncthreads();
        if (threadIdx.x == 0) {
            states[query].status = state.status ? state.status : TOO_MANY;
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
        threshold = fminf(threshold, lowered(state, value_of_rank(own, count, k)));
    }
    __syncthreads();
    for (unsigned at = threadIdx.x; at < count; at += SELECT_THREADS) {
        if (own[at].value <= threshold) {
            kept[atomicAdd(&kept_count, 1)] = own[at];
        }
    }
    __syncthreads();
    for (unsigned at = threadIdx.x; at < kept_count; at += SELECT_THREADS) {
        own[at] = kept[at];
    }
    if (threadIdx.x == 0) {
        counts[query] = kept_count;
        states[query].threshold = threshold;
    }
}

// A neighbor: the bits of its distance, then the point. Distances are at least 0: their bits are in their order.
__device__ inline unsigned long long neighbor(float distance, unsigned point) {
    return static_cast<unsigned long long>(__float_as_uint(distance)) << 32 | point;
}

struct Points {
    // `dimension` values each, as given.
    const float* values;
    // The lengths of the points, for angles.
    const double* lengths;
    unsigned count;
    unsigned dimension;
    unsigned metric;
    // Place p is of point p * step modulo count.
    unsigned step;
};

__device__ inline unsigned point_at(const Points& points, unsigned place) {
    return static_cast<unsigned>(static_cast<unsigned long long>(place) * points.step % points.count);
}

// Queries of more coordinates are read from where they are, instead of from shared memory.
constexpr unsigned NEAR_TERMS = 4096;

template <unsigned METRIC, typename A>
__device__ inline void measure_by(const Points& points, const A* query, Candidate* candidates, unsigned count) {
    for (unsigned first = 0; first < count; first += SELECT_THREADS / 8) {
        const unsigned at = first + threadIdx.x / 8;
        const unsigned point = at < count ? point_at(points, candidates[at].place) : 0;
        const float* vector = points.values + size_t(point) * points.dimension;
        const float distance = distance_of_eight<METRIC>(query, vector, points.dimension);
        __syncwarp();
        if (threadIdx.x % 8 == 0 && at < count) {
            reinterpret_cast<unsigned long long*>(candidates)[at] = neighbor(distance, point);
        }
    }
}

// The exact distances of some candidates from a query, in their places, by all threads of the block.
template <typename A>
__device__ inline void measure(const Points& points, const A* query, Candidate* candidates, unsigned count) {
    if (points.metric == EUCLIDEAN) {
        measure_by<EUCLIDEAN>(points, query, candidates, count);
    } else if (points.metric == MANHATTAN) {
        measure_by<MANHATTAN>(points, query, candidates, count);
    } else {
        measure_by<CHEBYSHEV>(points, query, candidates, count);
    }
}

// The same for angles. Clears `sure` where one could be another f32.
__device__ inline void measure_angles(const Points& points, const float* query, double query_length, Candidate* candidates,
                                      unsigned count, bool& sure) {
    for (unsigned at = threadIdx.x; at < count; at += SELECT_THREADS) {
        const unsigned point = point_at(points, candidates[at].place);
        const float* vector = points.values + size_t(point) * points.dimension;
        const float distance = angle(vector, points.lengths[point], query, query_length, points.dimension, sure);
        reinterpret_cast<unsigned long long*>(candidates)[at] = neighbor(distance, point);
    }
}

// The exact distances of all candidates, in their places, as `neighbor`s. Blocks b, b + gridDim.y, ... of 32 candidates a block.
// Shared memory: the coordinates of a query as f64, if they are at most NEAR_TERMS; nothing for angles.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
    measure_all(Points points, const float* queries, const double* query_lengths, Query* states, const unsigned* counts,
                Candidate* candidates, unsigned room) {
    constexpr unsigned TOGETHER = SELECT_THREADS / 8;
    extern __shared__ double near_query[];
    const unsigned query = blockIdx.x, count = counts[query];
    if (states[query].status != ANSWERED || count > room) {
        if (threadIdx.x == 0 && blockIdx.y == 0) {
            states[query].status = states[query].status ? states[query].status : TOO_MANY;
        }
        return;
    }
    if (blockIdx.y * TOGETHER >= count) {
        return;
    }
    bool sure = true;
    const float* values = queries + size_t(query) * points.dimension;
    const bool is_near = points.metric != ANGULAR && points.dimension <= NEAR_TERMS;
    if (is_near) {
        for (unsigned i = threadIdx.x; i < points.dimension; i += SELECT_THREADS) {
            near_query[i] = values[i];
        }
        __syncthreads();
    }
    for (unsigned first = blockIdx.y * TOGETHER; first < count; first += gridDim.y * TOGETHER) {
        Candidate* own = candidates + size_t(query) * room + first;
        const unsigned of_block = min(count - first, TOGETHER);
        if (points.metric == ANGULAR) {
            measure_angles(points, values, query_lengths[query], own, of_block, sure);
        } else if (is_near) {
            measure(points, near_query, own, of_block);
        } else {
            measure(points, values, own, of_block);
        }
    }
    if (!sure) {
        states[query].status = UNSURE;
    }
}

// The `k` nearest of what `measure_all` gives, nearest first, of equal distances the lower point; the rest is filled with ones.
// Shared memory: `room` keys. A block a query.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
    order(const Query* states, const unsigned* counts, const unsigned long long* found, unsigned room, unsigned k,
          unsigned long long* neighbors) {
    extern __shared__ unsigned long long keys[];
    const unsigned query = blockIdx.x, count = counts[query];
    if (states[query].status != ANSWERED || count > room) {
        return;
    }
    unsigned size = 1;
    while (size < count) {
        size *= 2;
    }
    for (unsigned at = threadIdx.x; at < size; at += SELECT_THREADS) {
        keys[at] = at < count ? found[size_t(query) * room + at] : ~0ull;
    }
    sort(keys, size);
    for (unsigned at = threadIdx.x; at < k; at += SELECT_THREADS) {
        neighbors[size_t(query) * k + at] = at < count ? keys[at] : ~0ull;
    }
}
