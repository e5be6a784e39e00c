// Merge of a training row and a sparse query in shared memory, as in Bresler et al. 2011 (algorithms 2 and
// 3, "pivots"). The lesser column advances; equal columns multiply and add.
//
// A query longer than the shared memory is merged in chunks of `room` terms. A thread keeps its position
// in the training row between chunks. `Fetch` reads the training row by plain loads, through the read-only
// cache, or through textures.
template <class Fetch>
__device__ __forceinline__ float merged(const Fetch& fetch, u64 begin, u64 end, bool active,
                                        const Queries& queries, u32 query, u32 room, u32* vidx,
                                        float* vdata) {
    double sum = 0.0;
    u64 left = begin;
    u32 first = queries.ptr[query], last = queries.ptr[query + 1];
    for (u32 piece = first; piece < last; piece += room) {
        u32 length = min(room, last - piece);
        __syncthreads();
        for (u32 at = threadIdx.x; at < length; at += blockDim.x) {
            vidx[at] = queries.col(piece + at);
            vdata[at] = queries.vals[piece + at];
        }
        __syncthreads();
        if (active) {
            u32 right = 0;
            while (left < end && right < length) {
                u32 column = fetch.col(left), wanted = vidx[right];
                if (column == wanted) {
                    sum = fma((double)fetch.val(left), (double)vdata[right], sum);
                    left++;
                    right++;
                } else if (column < wanted) {
                    left++;
                } else {
                    right++;
                }
            }
        }
    }
    return rounded(sum);
}

struct PlainFetch {
    const u32* cols;
    const float* vals;
    __device__ __forceinline__ u32 col(u64 at) const { return cols[at]; }
    __device__ __forceinline__ float val(u64 at) const { return vals[at]; }
};

struct ReadOnlyFetch {
    const u32* cols;
    const float* vals;
    __device__ __forceinline__ u32 col(u64 at) const { return __ldg(cols + at); }
    __device__ __forceinline__ float val(u64 at) const { return __ldg(vals + at); }
};

// Texels starting at the entry `origin`. A texture is at most as wide as the device allows.
struct TextureFetch {
    u64 cols;
    u64 vals;
    u64 origin;
    __device__ __forceinline__ u32 col(u64 at) const {
        return tex1Dfetch<u32>((cudaTextureObject_t)cols, (int)(at - origin));
    }
    __device__ __forceinline__ float val(u64 at) const {
        return tex1Dfetch<float>((cudaTextureObject_t)vals, (int)(at - origin));
    }
};
