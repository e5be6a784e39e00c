// base: scores[r] = <training row r, query>. The query is a dense vector.
//
// One warp per training row reads the entries of the row in parallel; one query per launch. This is
// the CSR kernel of Bell & Garland (2008), variant "vector", and the baseline "Base" of Bresler et
// al. (2011, section 5). Only the few entries that match a term of the query are added, one by one,
// in term order. Blocks must consist of whole warps. Reference: src/search/exhaustive.rs. Launcher:
// `base`.
const u32 CHUNKS = 4; // chunks of 32 entries that a warp loads concurrently

extern "C" __global__ void base(u32 rows, const u64* row_ptr, const u64* row_end, const u32* cols,
                                const float* vals, const float* query, float* scores) {
    const u32 row = blockDim.x / 32 * blockIdx.x + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    const u64 begin = row_ptr[row], end = row_end[row];
    double sum = 0.0;
    for (u64 start = begin; start < end; start += 32 * CHUNKS) {
        u32 col[CHUNKS];
        float val[CHUNKS], weight[CHUNKS];
#pragma unroll
        for (u32 chunk = 0; chunk < CHUNKS; chunk++) {
            const u64 entry = start + 32 * chunk + lane;
            col[chunk] = entry < end ? __ldg(cols + entry) : NO_ROW;
            val[chunk] = entry < end ? __ldg(vals + entry) : 0.0f;
        }
#pragma unroll
        for (u32 chunk = 0; chunk < CHUNKS; chunk++) {
            weight[chunk] = col[chunk] == NO_ROW ? 0.0f : __ldg(query + col[chunk]);
        }
#pragma unroll
        for (u32 chunk = 0; chunk < CHUNKS; chunk++) {
            // A term that the query lacks adds 0, which does not change the sum.
            u32 matches = __ballot_sync(FULL_MASK, weight[chunk] != 0.0f);
            for (; matches; matches &= matches - 1) {
                const u32 source = __ffs(matches) - 1;
                sum = fma((double)__shfl_sync(FULL_MASK, val[chunk], source),
                          (double)__shfl_sync(FULL_MASK, weight[chunk], source), sum);
            }
        }
    }
    if (lane == 0) scores[row] = round_to_f32(sum);
}

// base_scatter: writes query first + b as a dense vector: dense[b * terms + t] = weight of term t.
// If `clear` is set, resets the same entries to 0. One block per query. Launcher: `base_scatter`.
extern "C" __global__ void base_scatter(Queries queries, u32 first, u64 terms, u32 clear,
                                        float* dense) {
    u32 query = first + blockIdx.x;
    float* row = dense + terms * blockIdx.x;
    u32 end = queries.ptr[query + 1];
    for (u32 entry = queries.ptr[query] + threadIdx.x; entry < end; entry += blockDim.x) {
        row[queries.col(entry)] = clear ? 0.0f : queries.vals[entry];
    }
}
