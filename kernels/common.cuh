// Common definitions of the kernels: types, the order of neighbors, filters and sorting.
//
// A training segment is a CSR matrix of `rows` rows. Row r has the entries row_ptr[r] .. row_end[r]
// of `cols` (term ids, strictly increasing) and `vals` (finite weights). Rows begin at multiples of
// four entries, so that a thread can read four entries at once. Padding entries have the column
// NO_ROW and the weight 0. Queries are in CSR format without padding, with 16-bit columns if the
// vocabulary permits.
//
// The similarity equals the one in src/search/mod.rs: products are exact in f64, are added in f64
// in term order, and their sum is rounded once to f32 and limited to FLT_MAX. For two f32 widened
// to f64, fma(a, b, s) is exactly this addition, because the product of 24-bit significands is
// exact in 53 bits.
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;

#define FULL_MASK 0xffffffffu
#define NO_ROW 0xffffffffu
#define FLOAT_MAX 3.402823466e+38f

// Rounds a sum to a similarity, at most FLT_MAX.
__device__ __forceinline__ float round_to_f32(double sum) {
    return fminf(__double2float_rn(sum), FLOAT_MAX);
}

// Returns the key of a neighbor. Better neighbors have greater keys: a higher similarity or, for
// equal similarities, a lower row. The key 0 means no neighbor. The similarity must be above 0.
__device__ __forceinline__ u64 neighbor_key(float similarity, u32 row) {
    return ((u64)__float_as_uint(similarity) << 32) | (u64)(~row);
}

// Converts a key to the format of the host: the row, then the similarity (`Neighbor` in
// src/search/neighbor.rs).
__device__ __forceinline__ u64 neighbor_from_key(u64 key) { return key ^ 0xffffffffull; }

// The queries of a batch in CSR format.
struct Queries {
    const u32* ptr;   // query q has the entries ptr[q] .. ptr[q + 1]
    const void* cols; // u16 if `narrow`, otherwise u32
    const float* vals;
    u32 narrow;

    __device__ __forceinline__ u32 col(u32 entry) const {
        return narrow ? (u32)__ldg((const u16*)cols + entry) : __ldg((const u32*)cols + entry);
    }
};

// The rows that may be neighbors of the queries of a batch. A null pointer means no restriction.
// Row numbers refer to the whole training matrix.
struct Allow {
    const u32* only;     // one bit per row, set for allowed rows
    const uint2* ranges; // rows ranges[q].x .. ranges[q].y are excluded
    const u64* bounds;   // query q excludes the rows lists[bounds[q] .. bounds[q + 1]], increasing
    const u32* lists;
    const u32* row_groups;   // group of each row; a query excludes the rows of its group
    const u32* query_groups; // group of each query

    // Whether any row is excluded.
    __device__ __forceinline__ bool has_filter() const {
        return only || ranges || bounds || row_groups;
    }

    __device__ __forceinline__ bool is_in_set_and_other_group(u32 query, u32 row) const {
        if (only && !(only[row / 32] >> row % 32 & 1)) return false;
        return !row_groups || row_groups[row] != query_groups[query];
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
        return is_in_set_and_other_group(query, row);
    }
};

// Sorts `count` keys in shared memory in descending order. `count` must be a power of two. All
// threads of the block must call it.
__device__ __forceinline__ void sort_descending(u64* keys, u32 count) {
    for (u32 size = 2; size <= count; size *= 2) {
        for (u32 stride = size / 2; stride > 0; stride /= 2) {
            for (u32 pair = threadIdx.x; pair < count / 2; pair += blockDim.x) {
                u32 low = 2 * pair - (pair & (stride - 1));
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
