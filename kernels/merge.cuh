// Returns the similarity of a training row and a sparse query by merging them, as in Bresler et al.
// (2011, algorithms 2 and 3, "pivots"). The lower column advances; weights of equal columns are
// multiplied and added. All threads of the block must call it. Threads that are not active only
// help to load the query.
//
// Queries of more than `capacity` terms are merged in chunks that fit in shared memory. A thread
// keeps its position in the training row between chunks. `Fetch` reads the training row by plain
// loads, through the read-only cache, or through textures.
template <class Fetch>
__device__ __forceinline__ float merge_and_sum(const Fetch& fetch, u64 begin, u64 end,
                                               bool is_active, const Queries& queries, u32 query,
                                               u32 capacity, u32* query_cols, float* query_vals) {
    double sum = 0.0;
    u64 entry = begin;
    u32 first = queries.ptr[query], last = queries.ptr[query + 1];
    for (u32 chunk = first; chunk < last; chunk += capacity) {
        u32 length = min(capacity, last - chunk);
        __syncthreads();
        for (u32 term = threadIdx.x; term < length; term += blockDim.x) {
            query_cols[term] = queries.col(chunk + term);
            query_vals[term] = queries.vals[chunk + term];
        }
        __syncthreads();
        if (is_active) {
            u32 term = 0;
            while (entry < end && term < length) {
                u32 column = fetch.col(entry), query_column = query_cols[term];
                if (column == query_column) {
                    sum = fma((double)fetch.val(entry), (double)query_vals[term], sum);
                    entry++;
                    term++;
                } else if (column < query_column) {
                    entry++;
                } else {
                    term++;
                }
            }
        }
    }
    return round_to_f32(sum);
}

struct PlainFetch {
    const u32* cols;
    const float* vals;
    __device__ __forceinline__ u32 col(u64 entry) const { return cols[entry]; }
    __device__ __forceinline__ float val(u64 entry) const { return vals[entry]; }
};

struct ReadOnlyFetch {
    const u32* cols;
    const float* vals;
    __device__ __forceinline__ u32 col(u64 entry) const { return __ldg(cols + entry); }
    __device__ __forceinline__ float val(u64 entry) const { return __ldg(vals + entry); }
};

// Reads a row from textures that start at the entry `origin`.
struct TextureFetch {
    u64 cols;
    u64 vals;
    u64 origin;
    __device__ __forceinline__ u32 col(u64 entry) const {
        return tex1Dfetch<u32>((cudaTextureObject_t)cols, (int)(entry - origin));
    }
    __device__ __forceinline__ float val(u64 entry) const {
        return tex1Dfetch<float>((cudaTextureObject_t)vals, (int)(entry - origin));
    }
};
