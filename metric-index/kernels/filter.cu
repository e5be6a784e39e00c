// The filter for Euclidean and angular distances: matrix products of 16-bit floats on tensor cores.
//
// For points x and queries q, shifted and scaled by `prepare.cu`, v = |x|^2/2 - q.x orders the
// points by distance. The products of 16-bit floats are exact, and are added in 32 bits.
// `prepare_queries` bounds the error.
//
// A block processes COLS queries and loops over tiles of ROWS points, TERMS coordinates at a time.
// The points are loaded into shared memory STAGES - 1 steps ahead, across tiles. The queries stay
// in shared memory if they fit; otherwise they are loaded in steps, too. Values are never written
// to memory. A point whose value is at most the query's threshold becomes a candidate.

// Number of coordinates per step.
constexpr int TERMS = 32;
// Number of points whose coordinates are stored together.
constexpr unsigned GROUP = 64;
// Number of candidates that a block collects before it writes them.
constexpr unsigned MAX_BUFFERED = 512;

__device__ inline void copy_async(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

// Returns the offset of a chunk of 16 bytes in a row of 64 bytes. Rows that are read together use
// different banks.
__device__ inline unsigned chunk_at(unsigned row, unsigned chunk) {
    return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4);
}

__device__ inline void load4(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

__device__ inline void load2(unsigned (&to)[2], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(from));
}

__device__ inline void multiply(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// points: 16-bit floats. Points are stored in groups of GROUP points. A group has `steps` steps of
// TERMS coordinates of all its points, each contiguous. halves: |x|^2/2 of each point. The kernel
// processes the points from `first`, a multiple of ROWS, to `end`.
//
// queries: steps * TERMS 16-bit floats per query, padded to a multiple of COLS queries. states,
// counts: `query_count` elements.
//
// candidates: `capacity` elements per query. If `all` is set, every point becomes a candidate, and
// its index is its position minus `first`.
//
// is_resident: whether all coordinates of the queries fit in shared memory.
template <int ROWS, int COLS, int WARP_ROWS, int WARP_COLS, int STAGES>
__device__ void filter(const unsigned short* points, const float* halves, unsigned first,
                       unsigned end, const unsigned short* queries, const Query* states,
                       unsigned* counts, unsigned query_count, Candidate* candidates,
                       unsigned capacity, unsigned steps, unsigned all, unsigned is_resident) {
    constexpr int THREADS = 32 * WARP_ROWS * WARP_COLS;
    constexpr int M = ROWS / WARP_ROWS / 16;
    constexpr int N = COLS / WARP_COLS / 8;
    constexpr unsigned POINT_BYTES = ROWS * 64, QUERY_BYTES = COLS * 64;
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ unsigned buffered_count;
    __shared__ uint2 buffer[MAX_BUFFERED];

    const unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const unsigned warp_row = warp / WARP_COLS * (ROWS / WARP_ROWS),
                   warp_col = warp % WARP_COLS * (COLS / WARP_COLS);
    const unsigned col0 = blockIdx.x * COLS;
    const unsigned point_memory = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const unsigned query_memory = point_memory + STAGES * POINT_BYTES;
    const unsigned tiles = (end - first + ROWS - 1) / ROWS;
    if (thread == 0) {
        buffered_count = 0;
    }

    const auto fetch_queries = [&](unsigned step, unsigned stage) {
        for (unsigned index = thread; index < COLS * 4; index += THREADS) {
            const unsigned row = index / 4, chunk = index % 4;
            copy_async(query_memory + stage * QUERY_BYTES + chunk_at(row, chunk),
                       queries + (size_t(col0 + row) * steps + step) * TERMS + chunk * 8);
        }
    };
    // The next step to load: the tile, its step, and the stage in shared memory. Reading beyond the
    // last point is safe, because the memory is padded to a multiple of ROWS.
    unsigned next_tile = blockIdx.y, next_step = 0, next_stage = 0;
    const auto fetch = [&]() {
        if (next_tile < tiles) {
            const unsigned group0 = first / GROUP + next_tile * (ROWS / GROUP);
#pragma unroll
            for (unsigned index = thread; index < ROWS * 4; index += THREADS) {
                const unsigned row = index / 4, chunk = index % 4;
                const size_t step = size_t(group0 + row / GROUP) * steps + next_step;
                copy_async(point_memory + next_stage * POINT_BYTES + chunk_at(row, chunk),
                           points + (step * GROUP + row % GROUP) * TERMS + chunk * 8);
            }
            if (!is_resident) {
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
    if (is_resident) {
        for (unsigned step = 0; step < steps; step++) {
            fetch_queries(step, step);
        }
    }
    for (int step = 0; step < STAGES - 1; step++) {
        fetch();
    }
    const auto flush = [&]() {
        const unsigned flushed_count = min(buffered_count, MAX_BUFFERED);
        for (unsigned index = thread; index < flushed_count; index += THREADS) {
            const unsigned col = buffer[index].x % COLS, position = first + buffer[index].x / COLS;
            const unsigned slot = atomicAdd(&counts[col0 + col], 1);
            if (slot < capacity) {
                candidates[size_t(col0 + col) * capacity + slot] = {
                    __uint_as_float(buffer[index].y), position};
            }
        }
        __syncthreads();
        if (thread == 0) {
            buffered_count = 0;
        }
        __syncthreads();
    };

    // The sums are -v. A candidate has a sum of at least -threshold.
    float min_sums[N][2];
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const unsigned query = col0 + warp_col + n * 8 + lane % 4 * 2 + i;
            min_sums[n][i] =
                query < query_count ? -states[query].threshold : __int_as_float(0x7F800000);
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
                const unsigned position = row0 + warp_row + m * 16 + lane / 4 + high * 8;
                const float half = position < end ? halves[position] : __int_as_float(0x7F800000);
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
            if (step == 0 && buffered_count > MAX_BUFFERED / 2) {
                flush();
            }
            const unsigned stage_points = point_memory + stage * POINT_BYTES;
            const unsigned stage_queries =
                query_memory + (is_resident ? step : stage) * QUERY_BYTES;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                unsigned a[M][4], b[N][2];
#pragma unroll
                for (int m = 0; m < M; m++) {
                    load4(a[m], stage_points +
                                    chunk_at(warp_row + m * 16 + lane % 16, half * 2 + lane / 16));
                }
#pragma unroll
                for (int n = 0; n + 1 < N; n += 2) {
                    unsigned pair[4];
                    load4(pair,
                          stage_queries + chunk_at(warp_col + n * 8 + lane % 8 + lane / 16 * 8,
                                                   half * 2 + lane / 8 % 2));
                    b[n][0] = pair[0], b[n][1] = pair[1];
                    b[n + 1][0] = pair[2], b[n + 1][1] = pair[3];
                }
                if constexpr (N % 2 == 1) {
                    load2(b[N - 1], stage_queries + chunk_at(warp_col + (N - 1) * 8 + lane % 8,
                                                             half * 2 + lane / 8 % 2));
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
            // All threads must have read `buffered_count`.
            __syncthreads();
        }
        // Element e of row m of a warp's fragments belongs to column block n = e / 4. Within the
        // block, (e / 2) % 2 selects one of two rows, and e % 2 selects one of two columns.
#pragma unroll
        for (int m = 0; m < M; m++) {
            bool has_candidate = all;
#pragma unroll
            for (int e = 0; e < 4 * N; e++) {
                has_candidate |= sums[m][e / 4][e % 4] >= min_sums[e / 4][e % 2];
            }
            if (!has_candidate) {
                continue;
            }
            // Few threads get here. This code is compact rather than fast, so that the main loop
            // stays in the instruction cache.
            unsigned candidate_bits = 0;
#pragma unroll
            for (int e = 0; e < 4 * N; e++) {
                candidate_bits |= (all || sums[m][e / 4][e % 4] >= min_sums[e / 4][e % 2]) << e;
            }
            while (candidate_bits) {
                const int element = __ffs(candidate_bits) - 1;
                candidate_bits &= candidate_bits - 1;
                float sum = 0;
#pragma unroll
                for (int e = 0; e < 4 * N; e++) {
                    sum = e == element ? sums[m][e / 4][e % 4] : sum;
                }
                const unsigned position = row0 + warp_row + m * 16 + lane / 4 + element / 2 % 2 * 8;
                const unsigned col = warp_col + element / 4 * 8 + lane % 4 * 2 + element % 2;
                if (position >= end || col0 + col >= query_count) {
                    continue;
                }
                Candidate* own_candidates = candidates + size_t(col0 + col) * capacity;
                if (all) {
                    own_candidates[position - first] = {-sum, position};
                    continue;
                }
                const unsigned buffer_slot = atomicAdd(&buffered_count, 1);
                if (buffer_slot < MAX_BUFFERED) {
                    buffer[buffer_slot] =
                        make_uint2((position - first) * COLS + col, __float_as_uint(-sum));
                    continue;
                }
                const unsigned slot = atomicAdd(&counts[col0 + col], 1);
                if (slot < capacity) {
                    own_candidates[slot] = {-sum, position};
                }
            }
        }
    }
    __syncthreads();
    flush();
}

#define FILTER(NAME, ROWS, COLS, WARP_ROWS, WARP_COLS, STAGES, BLOCKS)                            \
    extern "C" __global__ void __launch_bounds__(32 * WARP_ROWS * WARP_COLS, BLOCKS)              \
        NAME(const unsigned short* points, const float* halves, unsigned first, unsigned end,     \
             const unsigned short* queries, const Query* states, unsigned* counts,                \
             unsigned query_count, Candidate* candidates, unsigned capacity, unsigned steps,      \
             unsigned all, unsigned is_resident) {                                                \
        filter<ROWS, COLS, WARP_ROWS, WARP_COLS, STAGES>(points, halves, first, end, queries,     \
                                                         states, counts, query_count, candidates, \
                                                         capacity, steps, all, is_resident);      \
    }

FILTER(filter_8, 64, 8, 4, 1, 10, 4)
FILTER(filter_16, 64, 16, 4, 1, 10, 4)
FILTER(filter_32, 64, 32, 4, 1, 8, 4)
FILTER(filter_64, 128, 64, 4, 2, 4, 2)
FILTER(filter_128, 128, 128, 2, 2, 3, 2)
FILTER(filter_128_long, 128, 128, 2, 2, 4, 2)
