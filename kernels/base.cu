// base: scores[r] = <training row r, query>, the query a dense vector.
// The CSR kernel of Bell & Garland (2008), "scalar": a thread a training row, one query a launch;
// the comparison of Bresler et al. 2011 (section 5, "Base"). Any block size, any number of rows.
// Reference: src/search/exhaustive.rs. Launcher: `base`.
extern "C" __global__ void base(u32 rows, const u64* row_ptr, const u64* row_end, const u32* cols, const float* vals,
                                const float* query, float* scores) {
    u32 row = blockDim.x * blockIdx.x + threadIdx.x;
    if (row >= rows) return;
    double sum = 0.0;
    u64 end = row_end[row];
    for (u64 at = row_ptr[row]; at < end; at++) {
        float weight = __ldg(query + cols[at]);
        // A term that the query lacks adds 0, which changes no sum.
        if (weight != 0.0f) sum = fma((double)vals[at], (double)weight, sum);
    }
    scores[row] = rounded(sum);
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
