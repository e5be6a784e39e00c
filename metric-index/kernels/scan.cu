// The filter for Manhattan and Chebyshev distances. The values are the distances in f32, computed
// from unmodified vectors. The arguments are as in `filter.cu`.

// Number of coordinates per step.
constexpr int TILE_TERMS = 16;

template <int ROWS, int COLS, int PER_ROW, int PER_COL>
__device__ void scan(const float* points, unsigned metric, unsigned first, unsigned end,
                     const float* queries, const Query* states, unsigned* counts,
                     unsigned query_count, Candidate* candidates, unsigned capacity,
                     unsigned dimension, unsigned all) {
    constexpr int ROW_THREADS = COLS / PER_COL, THREADS = ROWS / PER_ROW * ROW_THREADS;
    __shared__ float point_tile[TILE_TERMS][ROWS + 1];
    __shared__ float query_tile[TILE_TERMS][COLS + 1];
    const unsigned row0 = first + blockIdx.y * ROWS, col0 = blockIdx.x * COLS;
    const unsigned row = threadIdx.x / ROW_THREADS, col = threadIdx.x % ROW_THREADS;
    float sums[PER_ROW][PER_COL] = {};
    for (unsigned first_term = 0; first_term < dimension; first_term += TILE_TERMS) {
        for (unsigned i = threadIdx.x; i < ROWS * TILE_TERMS; i += THREADS) {
            const unsigned vector = row0 + i / TILE_TERMS, term = first_term + i % TILE_TERMS;
            point_tile[i % TILE_TERMS][i / TILE_TERMS] =
                vector < end && term < dimension ? points[size_t(vector) * dimension + term] : 0;
        }
        for (unsigned i = threadIdx.x; i < COLS * TILE_TERMS; i += THREADS) {
            const unsigned vector = col0 + i / TILE_TERMS, term = first_term + i % TILE_TERMS;
            query_tile[i % TILE_TERMS][i / TILE_TERMS] =
                vector < query_count && term < dimension
                    ? queries[size_t(vector) * dimension + term]
                    : 0;
        }
        __syncthreads();
#pragma unroll
        for (int term = 0; term < TILE_TERMS; term++) {
#pragma unroll
            for (int m = 0; m < PER_ROW; m++) {
#pragma unroll
                for (int n = 0; n < PER_COL; n++) {
                    const float difference = point_tile[term][row + m * (ROWS / PER_ROW)] -
                                             query_tile[term][col + n * ROW_THREADS];
                    sums[m][n] = metric == CHEBYSHEV ? fmaxf(sums[m][n], fabsf(difference))
                                                     : sums[m][n] + fabsf(difference);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < PER_COL; n++) {
        const unsigned query = col0 + col + n * ROW_THREADS;
        if (query >= query_count) {
            continue;
        }
        const float threshold = states[query].threshold;
#pragma unroll
        for (int m = 0; m < PER_ROW; m++) {
            const unsigned position = row0 + row + m * (ROWS / PER_ROW);
            if (position >= end) {
                continue;
            }
            const float value = sums[m][n];
            if (all) {
                candidates[size_t(query) * capacity + position - first] = {value, position};
            } else if (value <= threshold) {
                const unsigned slot = atomicAdd(&counts[query], 1);
                if (slot < capacity) {
                    candidates[size_t(query) * capacity + slot] = {value, position};
                }
            }
        }
    }
}

#define SCAN(NAME, METRIC, ROWS, COLS, PER_ROW, PER_COL)                                         \
    extern "C" __global__ void __launch_bounds__(ROWS / PER_ROW * (COLS / PER_COL))              \
        NAME(const float* points, unsigned first, unsigned end, const float* queries,            \
             const Query* states, unsigned* counts, unsigned query_count, Candidate* candidates, \
             unsigned capacity, unsigned dimension, unsigned all) {                              \
        scan<ROWS, COLS, PER_ROW, PER_COL>(points, METRIC, first, end, queries, states, counts,  \
                                           query_count, candidates, capacity, dimension, all);   \
    }

SCAN(manhattan_4, MANHATTAN, 256, 4, 4, 1)
SCAN(manhattan_64, MANHATTAN, 128, 64, 8, 4)
SCAN(chebyshev_4, CHEBYSHEV, 256, 4, 4, 1)
SCAN(chebyshev_64, CHEBYSHEV, 128, 64, 8, 4)
