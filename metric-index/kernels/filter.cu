// The filter of Euclidean and angular distances: products of matrices of 16-bit floats on tensor cores.
//
// With points x and queries q, moved and scaled (`prepare.cu`), v = |x|^2/2 - q.x orders the points by distance. The products
// of 16-bit floats are exact, and are summed in 32 bits. `prepare_queries` bounds the error.
//
// A block has COLS queries and goes through tiles of ROWS points, TERMS coordinates at a time, which flow into shared memory
// STAGES - 1 steps ahead, from tile to tile. Queries stay there if they fit; else they flow, too. Values are never written: only those
// at most the query's threshold are, as candidates.

constexpr int TERMS = 32;
// Points whose terms are stored together.
constexpr unsigned GROUP = 64;
// Candidates of a block that are collected before they are written.
constexpr unsigned BUFFERED = 512;

__device__ inline void copy_async(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

// Where 16 bytes of a row of 64 bytes lie: rows that are read together lie in different banks.
__device__ inline unsigned chunk_at(unsigned row, unsigned chunk) {
    return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4);
}

__device__ inline void load4(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

__device__ inline void load2(unsigned (&to)[2], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from));
}

__device__ inline void multiply(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// points: 16-bit floats, of `steps` times TERMS coordinates, GROUP points at a time: a step of a group is in one piece. halves: |x|^2/2 of
// each. Points `first` to `end` are looked at, from a multiple of ROWS.
// queries: steps * TERMS 16-bit floats a query, up to a multiple of COLS; states, counts: of `query_count` queries.
// candidates: `room` for each query. If `all` is set, every point is a candidate, and its index is its place less `first`.
// resident: whether the shared memory has room for all terms of the queries.
template <int ROWS, int COLS, int WARP_ROWS, int WARP_COLS, int STAGES>
__device__ void filter(const unsigned short* points, const float* halves, unsigned first, unsigned end,
                       const unsigned short* queries, const Query* states, unsigned* counts, unsigned query_count,
                       Candidate* candidates, unsigned room, unsigned steps, unsigned all, unsigned resident) {
    constexpr int THREADS = 32 * WARP_ROWS * WARP_COLS;
    constexpr int M = ROWS / WARP_ROWS / 16;
    constexpr int N = COLS / WARP_COLS / 8;
    constexpr unsigned POINT_BYTES = ROWS * 64, QUERY_BYTES = COLS * 64;
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ unsigned buffered;
    __shared__ uint2 buffer[BUFFERED];

    const unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const unsigned warp_row = warp / WARP_COLS * (ROWS / WARP_ROWS), warp_col = warp % WARP_COLS * (COLS / WARP_COLS);
    const unsigned col0 = blockIdx.x * COLS;
    const unsigned of_points = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const unsigned of_queries = of_points + STAGES * POINT_BYTES;
    const unsigned tiles = (end - first + ROWS - 1) / ROWS;
    if (thread == 0) {
        buffered = 0;
    }

    const auto fetch_queries = [&](unsigned step, unsigned to) {
        for (unsigned piece = thread; piece < COLS * 4; piece += THREADS) {
            const unsigned row = piece / 4, chunk = piece % 4;
            copy_async(of_queries + to * QUERY_BYTES + chunk_at(row, chunk),
                       queries + (size_t(col0 + row) * steps + step) * TERMS + chunk * 8);
        }
    };
    // What is fetched next: a step of a tile, into a stage. Rows beyond the last point exist: their memory is padded to ROWS.
    unsigned next_tile = blockIdx.y, next_step = 0, next_stage = 0;
    const auto fetch = [&]() {
        if (next_tile < tiles) {
            const unsigned group0 = first / GROUP + next_tile * (ROWS / GROUP);
#pragma unroll
            for (unsigned piece = thread; piece < ROWS * 4; piece += THREADS) {
                const unsigned row = piece / 4, chunk = piece % 4;
                const size_t step = size_t(group0 + row / GROUP) * steps + next_step;
                copy_async(of_points + next_stage * POINT_BYTES + chunk_at(row, chunk),
                           points + (step * GROUP + row % GROUP) * TERMS + chunk * 8);
            }
            if (!resident) {
                fetch_queries(next_step, next_stage);
            }
            if (++next_step == steps) {
                next_step = 0;
                next_tile += gridDim.y;
            }
            next_stage = next_stage + 1 == STAGES ? 0 : next_stage + 1;
        }
        asm volatile("cp.async.commit_group;");
    };
    if (resident) {
        for (unsigned step = 0; step < steps; step++) {
            fetch_queries(step, step);
        }
    }
    for (int step = 0; step < STAGES - 1; step++) {
        fetch();
    }
    const auto flush = [&]() {
        const unsigned found = min(buffered, BUFFERED);
        for (unsigned at = thread; at < found; at += THREADS) {
            const unsigned col = buffer[at].x % COLS, place = first + buffer[at].x / COLS;
            const unsigned to = atomicAdd(&counts[col0 + col], 1);
            if (to < room) {
                candidates[size_t(col0 + col) * room + to] = {__uint_as_float(buffer[at].y), place};
            }
        }
        __syncthreads();
        if (thread == 0) {
            buffered = 0;
        }
        __syncthreads();
    };

    // The sums are -v: a candidate's is at least -threshold.
    float least[N][2];
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const unsigned query = col0 + warp_col + n * 8 + lane % 4 * 2 + i;
            least[n][i] = query < query_count ? -states[query].threshold : __int_as_float(0x7F800000);
        }
    }
    unsigned stage = 0;
    for (unsigned tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
        const unsigned row0 = first + tile * ROWS;
        float sums[M][N][4];
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int high = 0; high < 2; high++) {
                const unsigned place = row0 + warp_row + m * 16 + lane / 4 + high * 8;
                const float half = place < end ? halves[place] : __int_as_float(0x7F800000);
#pragma unroll
                for (int n = 0; n < N; n++) {
                    sums[m][n][high * 2] = sums[m][n][high * 2 + 1] = -half;
                }
            }
        }
        for (unsigned step = 0; step < steps; step++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
            __syncthreads();
            fetch();
            if (step == 0 && buffered > BUFFERED / 2) {
                flush();
            }
            const unsigned from_points = of_points + stage * POINT_BYTES;
            const unsigned from_queries = of_queries + (resident ? step : stage) * QUERY_BYTES;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                unsigned a[M][4], b[N][2];
#pragma unroll
                for (int m = 0; m < M; m++) {
                    load4(a[m], from_points + chunk_at(warp_row + m * 16 + lane % 16, half * 2 + lane / 16));
                }
#pragma unroll
                for (int n = 0; n + 1 < N; n += 2) {
                    unsigned two[4];
                    load4(two, from_queries + chunk_at(warp_col + n * 8 + lane % 8 + lane / 16 * 8, half * 2 + lane / 8 % 2));
                    b[n][0] = two[0], b[n][1] = two[1], b[n + 1][0] = two[2], b[n + 1][1] = two[3];
                }
                if constexpr (N % 2 == 1) {
                    load2(b[N - 1], from_queries + chunk_at(warp_col + (N - 1) * 8 + lane % 8, half * 2 + lane / 8 % 2));
                }
#pragma unroll
                for (int m = 0; m < M; m++) {
#pragma unroll
                    for (int n = 0; n < N; n++) {
                        multiply(sums[m][n], a[m], b[n]);
                    }
                }
            }
        }
        if (steps == 1) {
            // No thread may still read `buffered`.
            __syncthreads();
        }
        // Element e of a fragment row m of the warp: of the query n = e / 4, and there of place e / 2 % 2 and query e % 2.
#pragma unroll
        for (int m = 0; m < M; m++) {
            bool any = all;
#pragma unroll
            for (int e = 0; e < 4 * N; e++) {
                any |= sums[m][e / 4][e % 4] >= least[e / 4][e % 2];
            }
            if (!any) {
                continue;
            }
            // Few come here: what follows is small rather than fast, so that it does not push the rest out of the instruction cache.
            unsigned marks = 0;
#pragma unroll
            for (int e = 0; e < 4 * N; e++) {
                marks |= (all || sums[m][e / 4][e % 4] >= least[e / 4][e % 2]) << e;
            }
            while (marks) {
                const int marked = __ffs(marks) - 1;
                marks &= marks - 1;
                float sum = 0;
#pragma unroll
                for (int e = 0; e < 4 * N; e++) {
                    sum = e == marked ? sums[m][e / 4][e % 4] : sum;
                }
                const unsigned place = row0 + warp_row + m * 16 + lane / 4 + marked / 2 % 2 * 8;
                const unsigned col = warp_col + marked / 4 * 8 + lane % 4 * 2 + marked % 2;
                if (place >= end || col0 + col >= query_count) {
                    continue;
                }
                Candidate* own = candidates + size_t(col0 + col) * room;
                if (all) {
                    own[place - first] = {-sum, place};
                    continue;
                }
                const unsigned at = atomicAdd(&buffered, 1);
                if (at < BUFFERED) {
                    buffer[at] = make_uint2((place - first) * COLS + col, __float_as_uint(-sum));
                    continue;
                }
                const unsigned to = atomicAdd(&counts[col0 + col], 1);
                if (to < room) {
                    own[to] = {-sum, place};
                }
            }
        }
    }
    __syncthreads();
    flush();
}

#define FILTER(NAME, ROWS, COLS, WARP_ROWS, WARP_COLS, STAGES, BLOCKS)                                                  \
    extern "C" __global__ void __launch_bounds__(32 * WARP_ROWS * WARP_COLS, BLOCKS)                                    \
        NAME(const unsigned short* points, const float* halves, unsigned first, unsigned end,                           \
             const unsigned short* queries, const Query* states, unsigned* counts, unsigned query_count,                \
             Candidate* candidates, unsigned room, unsigned steps, unsigned all, unsigned resident) {                   \
        filter<ROWS, COLS, WARP_ROWS, WARP_COLS, STAGES>(points, halves, first, end, queries, states, counts,           \
                                                         query_count, candidates, room, steps, all, resident);          \
    }

FILTER(filter_8, 64, 8, 4, 1, 10, 4)
FILTER(filter_16, 64, 16, 4, 1, 10, 4)
FILTER(filter_32, 64, 32, 4, 1, 8, 4)
FILTER(filter_64, 128, 64, 4, 2, 4, 2)
FILTER(filter_128, 128, 128, 2, 2, 3, 2)
FILTER(filter_128_long, 128, 128, 2, 2, 4, 2)
