// grid_texture, grid_ldg: scores[b * rows + r] = <training row r, query b of the batch>.
//
// Algorithm 3 of Bresler et al. (2011). blockIdx.x is the query of the batch; first_row +
// blockIdx.y * blockDim.x + threadIdx.x is the training row. The query is in shared memory, which
// needs `capacity` * 8 bytes; longer queries are processed in chunks. grid_texture reads the
// training rows through textures, grid_ldg through the read-only cache. Query b is list[b], or
// first + b if `list` is null. A launch computes the rows from first_row to last_row of the
// segment. Reference: src/search/exhaustive.rs. Launchers: `grid_texture`, `grid_ldg`.
template <class Fetch>
__device__ __forceinline__ void score_row(const Fetch& fetch, u32 rows, u32 first_row, u32 last_row,
                                          const u64* row_ptr, const u64* row_end,
                                          const Queries& queries, u32 first, const u32* list,
                                          u32 capacity, float* scores) {
    extern __shared__ u32 memory[];
    u32 row = first_row + blockDim.x * blockIdx.y + threadIdx.x;
    bool is_active = row < last_row;
    u64 begin = is_active ? row_ptr[row] : 0, end = is_active ? row_end[row] : 0;
    u32 query = list ? list[blockIdx.x] : first + blockIdx.x;
    float score = merge_and_sum(fetch, begin, end, is_active, queries, query, capacity, memory,
                                (float*)(memory + capacity));
    if (is_active) scores[(u64)rows * blockIdx.x + row] = score;
}

extern "C" __global__ void grid_ldg(u32 rows, u32 first_row, u32 last_row, const u64* row_ptr,
                                    const u64* row_end, const u32* cols, const float* vals,
                                    Queries queries, u32 first, const u32* list, u32 capacity,
                                    float* scores) {
    ReadOnlyFetch fetch = {cols, vals};
    score_row(fetch, rows, first_row, last_row, row_ptr, row_end, queries, first, list, capacity,
              scores);
}

extern "C" __global__ void grid_texture(u32 rows, u32 first_row, u32 last_row, const u64* row_ptr,
                                        const u64* row_end, u64 cols, u64 vals, u64 origin,
                                        Queries queries, u32 first, const u32* list, u32 capacity,
                                        float* scores) {
    TextureFetch fetch = {cols, vals, origin};
    score_row(fetch, rows, first_row, last_row, row_ptr, row_end, queries, first, list, capacity,
              scores);
}
