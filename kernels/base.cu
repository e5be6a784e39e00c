// base: scores[r] = <training row r, query>; the query is a dense vector.
// This is the CSR kernel of Bell & Garland (2008), variant "vector", and the comparison of Bresler et al.
// 2011 (section 5, "Base"). One warp per training row reads its entries in parallel; one query per launch.
// Few entries match a term of the query, so their products are added one by one in term order. Blocks
// consist of whole warps; any number of rows. Reference: src/search/exhaustive.rs. Launcher: `base`.
const u32 PIECES = 4; // of 32 entries; their loads are in flight concurrently

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
            // A term that is not in the query adds 0, which does not change the sum.
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

// base_scatter: dense[b * terms + t] = weight of term t in query first + b, for `count` queries. With
// `clear`, it sets these entries to 0 again. One block per query. Launcher: `base_scatter`.
extern "C" __global__ void base_scatter(Queries queries, u32 first, u64 terms, u32 clear,
                                        float* dense) {
    u32 query = first + blockIdx.x;
    float* row = dense + terms * blockIdx.x;
    u32 end = queries.ptr[query + 1];
    for (u32 at = queries.ptr[query] + threadIdx.x; at < end; at += blockDim.x) {
        row[queries.col(at)] = clear ? 0.0f : queries.vals[at];
    }
}
