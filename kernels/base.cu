// base: scores[r] = <training row r, query>, the query a dense vector.
// The CSR kernel of Bell & Garland (2008), "vector": a warp a training row, its entries read side by
// side, one query a launch; the comparison of Bresler et al. 2011 (section 5, "Base"). Few entries meet a
// term of the query: their products are added one by one in order of the terms. Blocks of whole warps,
// any number of rows. Reference: src/search/exhaustive.rs. Launcher: `base`.
const u32 PIECES = 4; // of 32 entries, whose loads are in flight together

extern "C" __global__ void base(u32 rows, const u64* row_ptr, const u64* row_end, const u32* cols, const float* vals,
                                const float* query, float* scores) {
    const u32 row = blockDim.x / 32 * blockIdx.x + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    const u64 begin = row_ptr[row], end = row_end[row];
    double sum = 0.0;
    for (u64 start = begin; start < end; start += 32 * PIECES) {
        u32 col[PIECES];
        float val[PIECES], weight[PIECES];
#pragma unroll
        for (u32 piece = 0; piece < PIECES; piece++) {
            const u64 at = start + 32 * piece + lane;
            col[piece] = at < end ? __ldg(cols + at) : NO_ROW;
            val[piece] = at < end ? __ldg(vals + at) : 0.0f;
        }
#pragma unroll
        for (u32 piece = 0; piece < PIECES; piece++) {
            weight[piece] = col[piece] == NO_ROW ? 0.0f : __ldg(query + col[piece]);
        }
#pragma unroll
        for (u32 piece = 0; piece < PIECES; piece++) {
            // A term that the query lacks adds 0, which changes no sum.
            u32 met = __ballot_sync(FULL, weight[piece] != 0.0f);
            for (; met; met &= met - 1) {
                const u32 from = __ffs(met) - 1;
                sum = fma((double)__shfl_sync(FULL, val[piece], from),
                          (double)__shfl_sync(FULL, weight[piece], from), sum);
            }
        }
    }
    if (lane == 0) scores[row] = rounded(sum);
}

// base_scatter: dense[b * terms + t] = weight of term t in query first + b, for `count` queries; with
// `clear`, sets these entries to 0 again. A block a query. Launcher: `base_scatter`.
extern "C" __global__ void base_scatter(Queries queries, u32 first, u64 terms, u32 clear,
                                        float* dense) {
    u32 query = first + blockIdx.x;
    float* row = dense + terms * blockIdx.x;
    u32 end = queries.ptr[query + 1];
    for (u32 at = queries.ptr[query] + threadIdx.x; at < end; at += blockDim.x) {
        row[queries.col(at)] = clear ? 0.0f : queries.vals[at];
    }
}
