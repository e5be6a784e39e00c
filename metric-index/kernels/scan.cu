// The filter of Manhattan and Chebyshev distances, which are values themselves: in f32, of vectors as they are.
// The same arguments as `filter.cu`.

constexpr int DEPTH = 16;

template <int ROWS, int COLS, int PER_ROW, int PER_COL>
__device__ void scan(const float* points, unsigned metric, unsigned first, unsigned end, const float* queries, const Query* states,
                     unsigned* counts, unsigned query_count, Candidate* candidates, unsigned room, unsigned dimension, unsigned all) {
    constexpr int WIDE = COLS / PER_COL, THREADS = ROWS / PER_ROW * WIDE;
    __shared__ float of_points[DEPTH][ROWS + 1];
    __shared__ float of_queries[DEPTH][COLS + 1];
    const unsigned row0 = first + blockIdx.y * ROWS, col0 = blockIdx.x * COLS;
    const unsigned row = threadIdx.x / WIDE, col = threadIdx.x % WIDE;
    float sums[PER_ROW][PER_COL] = {};
    for (unsigned from = 0; from < dimension; from += DEPTH) {
        for (unsigned i = threadIdx.x; i < ROWS * DEPTH; i += THREADS) {
            const unsigned line = row0 + i / DEPTH, term = from + i % DEPTH;
            of_points[i % DEPTH][i / DEPTH] = line < end && term < dimension ? points[size_t(line) * dimension + term] : 0;
        }
        for (unsigned i = threadIdx.x; i < COLS * DEPTH; i += THREADS) {
            const unsigned line = col0 + i / DEPTH, term = from + i % DEPTH;
            of_queries[i % DEPTH][i / DEPTH] =
                line < query_count && term < dimension ? queries[size_t(line) * dimension + term] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth++) {
#pragma unroll
            for (int m = 0; m < PER_ROW; m++) {
#pragma unroll
                for (int n = 0; n < PER_COL; n++) {
                    const float apart = of_points[depth][row + m * (ROWS / PER_ROW)] - of_queries[depth][col + n * WIDE];
                    sums[m][n] = metric == CHEBYSHEV ? fmaxf(sums[m][n], fabsf(apart)) : sums[m][n] + fabsf(apart);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < PER_COL; n++) {
        const unsigned query = col0 + col + n * WIDE;
        if (query >= query_count) {
            continue;
        }
        const float threshold = states[query].threshold;
#pragma unroll
        for (int m = 0; m < PER_ROW; m++) {
            const unsigned place = row0 + row + m * (ROWS / PER_ROW);
            if (place >= end) {
                continue;
            }
            const float value = sums[m][n];
            if (all) {
                candidates[size_t(query) * room + place - first] = {value, place};
            } else if (value <= threshold) {
                const unsigned at = atomicAdd(&counts[query], 1);
                if (at < room) {
                    candidates[size_t(query) * room + at] = {value, place};
                }
            }
        }
    }
}

#define SCAN(NAME, METRIC, ROWS, COLS, PER_ROW, PER_COL)                                                                 \
    extern "C" __global__ void __launch_bounds__(ROWS / PER_ROW*(COLS / PER_COL))                                       \
        NAME(const float* points, unsigned first, unsigned end, const float* queries, const Query* states,              \
             unsigned* counts, unsigned query_count, Candidate* candidates, unsigned room, unsigned dimension,          \
             unsigned all) {                                                                                            \
        scan<ROWS, COLS, PER_ROW, PER_COL>(points, METRIC, first, end, queries, states, counts, query_count,            \
                                           candidates, room, dimension, all);                                           \
    }

SCAN(manhattan_4, MANHATTAN, 256, 4, 4, 1)
SCAN(manhattan_64, MANHATTAN, 128, 64, 8, 4)
SCAN(chebyshev_4, CHEBYSHEV, 256, 4, 4, 1)
SCAN(chebyshev_64, CHEBYSHEV, 128, 64, 8, 4)
