// shared: scores[r] = <training row r, query `query`>; the query is sparse, in shared memory.
// Algorithm 2 of Bresler et al. 2011: one thread per training row, one query per launch. Dynamic shared
// memory: room * 8 bytes; longer queries are processed in chunks. Reference: src/search/exhaustive.rs.
// Launcher: `shared`.
extern "C" __global__ void shared(u32 rows, const u64* row_ptr, const u64* row_end, const u32* cols, const float* vals,
                                  Queries queries, u32 query, u32 room, float* scores) {
    extern __shared__ u32 memory[];
    u32 row = blockDim.x * blockIdx.x + threadIdx.x;
    bool active = row < rows;
    u64 begin = active ? row_ptr[row] : 0, end = active ? row_end[row] : 0;
    PlainFetch fetch = {cols, vals};
    float score = merged(fetch, begin, end, active, queries, query, room, memory,
                         (float*)(memory + room));
    if (active) scores[row] = score;
}
