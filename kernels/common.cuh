// Common definitions of the kernels: types, the order of neighbors, and one exact similarity.
//
// A training part is a CSR matrix of `rows` rows. Row r has the entries row_ptr[r] .. row_end[r] of
// `cols` (term ids, strictly increasing) and `vals` (weights, finite). Rows begin at multiples of four
// entries, so that four entries can be read at once; in the gaps, the column is NO_ROW and the weight is
// 0. Queries are CSR without gaps, with 16-bit columns if the vocabulary allows it.
//
// The similarity equals that of src/search/mod.rs: products are exact in f64, added in f64 in term order,
// rounded once to f32, and at most FLT_MAX. For two f32 widened to f64, fma(a, b, s) is this addition,
// because the product of 24-bit significands is exact in 53 bits.
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;

#define FULL 0xffffffffu
#define NO_ROW 0xffffffffu
#define FLOAT_MAX 3.402823466e+38f

__device__ __forceinline__ float rounded(double sum) {
    return fminf(__double2float_rn(sum), FLOAT_MAX);
}

// A neighbor as one number: better neighbors have greater numbers (similarity, then the lower row). 0
// means no neighbor. The similarity must be above 0.
__device__ __forceinline__ u64 neighbor_key(float similarity, u32 row) {
    return ((u64)__float_as_uint(similarity) << 32) | (u64)(~row);
}

// Neighbor for the host: the row, then the similarity (Neighbor in src/search/neighbor.rs).
__device__ __forceinline__ u64 neighbor_of(u64 key) { return key ^ 0xffffffffull; }

// Query rows of a batch.
struct Queries {
    const u32* ptr;   // ptr[q] .. ptr[q + 1]
    const void* cols; // u16 if narrow, otherwise u32
    const float* vals;
    u32 narrow;

    __device__ __forceinline__ u32 col(u32 at) const {
        return narrow ? (u32)__ldg((const u16*)cols + at) : __ldg((const u32*)cols + at);
    }
};

// Rows that may be neighbors of the queries of a batch. Null pointers restrict nothing. Row numbers refer
// to the whole training matrix.
struct Allow {
    const u32* only;       // a bit per row: set if the row is allowed
    const uint2* ranges;   // ranges[q].x .. ranges[q].y are excluded
    const u64* bounds;     // lists[bounds[q]] .. lists[bounds[q + 1]], increasing, are excluded
    const u32* lists;
    const u32* of_rows;    // groups; rows of the query's own group are excluded
    const u32* of_queries;

    __device__ __forceinline__ bool denies() const { return only || ranges || bounds || of_rows; }

    __device__ __forceinline__ bool in_set_and_other_group(u32 query, u32 row) const {
        if (only && !(only[row / 32] >> row % 32 & 1)) return false;
        return !of_rows || of_rows[row] != of_queries[query];
    }

    __device__ __forceinline__ bool allows(u32 query, u32 row) const {
        if (ranges) {
            uint2 range = ranges[query];
            if (range.x <= row && row < range.y) return false;
        }
        if (bounds) {
            u64 low = bounds[query], end = bounds[query + 1], high = end;
            while (low < high) {
                u64 middle = (low + high) / 2;
                if (lists[middle] < row) low = middle + 1; else high = middle;
            }
            if (low < end && lists[low] == row) return false;
        }
        return in_set_and_other_group(query, row);
    }
};

// Sorts `count` (a power of two) keys in shared memory, greatest first; all threads call it.
__device__ __forceinline__ void sort_descending(u64* keys, u32 count) {
    for (u32 size = 2; size <= count; size *= 2) {
        for (u32 stride = size / 2; stride > 0; stride /= 2) {
            for (u32 at = threadIdx.x; at < count / 2; at += blockDim.x) {
                u32 low = 2 * at - (at & (stride - 1));
                u32 high = low + stride;
                bool descending = (low & size) == 0;
                u64 a = keys[low], b = keys[high];
                if ((a < b) == descending) {
                    keys[low] = b;
                    keys[high] = a;
                }
            }
            __syncthreads();
        }
    }
}
