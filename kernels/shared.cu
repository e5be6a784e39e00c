// shared: scores[r] = <training row r, query `query`>. The query is sparse and in shared memory.
//
// Algorithm 2 of Bresler et al. (2011): one thread per training row, one query per launch. Dynamic
// shared memory: `capacity` * 8 bytes; longer queries are processed in chunks. Reference:
// src/search/exhaustive.rs. Launcher: `shared`.
extern "C" __global__ void shared(u32 rows, const u64* row_ptr, const u64* row_end, const u32* cols,
                                  const float* vals, Queries queries, u32 query, u32 capacity,
                                  float* scores) {
    extern __shared__ u32 memory[];
    u32 row = blockDim.x * blockIdx.x + threadIdx.x;
    bool is_active = row < rows;
    u64 begin = is_active ? row_ptr[row] : 0, end = is_active ? row_end[row] : 0;
    PlainFetch fetch = {cols, vals};
    float score = merge_and_sum(fetch, begin, end, is_active, queries, query, capacity, memory,
                                (float*)(memory + capacity));
    if (is_active) scores[row] = score;
}
