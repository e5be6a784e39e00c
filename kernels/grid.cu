// grid_texture, grid_ldg: scores[b * rows + r] = <training row r, query b of the batch>.
// Algorithm 3 of Bresler et al. 2011: blockIdx.x = query of the batch, blockIdx.y * blockDim.x +
// threadIdx.x = training row. The query is in shared memory (room * 8 bytes; longer queries in chunks).
// The training row is read through textures, or through the read-only cache for comparison. Query b is
// list[b], or first + b without a list. Rows are first_row .. first_row + gridDim.y * blockDim.x of the
// part, below `rows`. Reference: src/search/exhaustive.rs. Launchers: `grid_texture`, `grid_ldg`.
template <class Fetch>
__device__ __forceinline__ void grid(const Fetch& fetch, u32 rows, u32 first_row, u32 last_row,
                                     const u64* row_ptr, const u64* row_end, const Queries& queries, u32 first,
                                     const u32* list, u32 room, float* scores) {
    extern __shared__ u32 memory[];
    u32 row = first_row + blockDim.x * blockIdx.y + threadIdx.x;
    bool active = row < last_row;
    u64 begin = active ? row_ptr[row] : 0, end = active ? row_end[row] : 0;
    u32 query = list ? list[blockIdx.x] : first + blockIdx.x;
    float score = merged(fetch, begin, end, active, queries, query, room, memory,
                         (float*)(memory + room));
    if (active) scores[(u64)rows * blockIdx.x + row] = score;
}

extern "C" __global__ void grid_ldg(u32 rows, u32 first_row, u32 last_row, const u64* row_ptr, const u64* row_end,
                                    const u32* cols, const float* vals, Queries queries, u32 first,
                                    const u32* list, u32 room, float* scores) {
    ReadOnlyFetch fetch = {cols, vals};
    grid(fetch, rows, first_row, last_row, row_ptr, row_end, queries, first, list, room, scores);
}

extern "C" __global__ void grid_texture(u32 rows, u32 first_row, u32 last_row, const u64* row_ptr, const u64* row_end,
                                        u64 cols, u64 vals, u64 origin, Queries queries, u32 first,
                                        const u32* list, u32 room, float* scores) {
    TextureFetch fetch = {cols, vals, origin};
    grid(fetch, rows, first_row, last_row, row_ptr, row_end, queries, first, list, room, scores);
}
