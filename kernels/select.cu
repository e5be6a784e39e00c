// select: finds the k best neighbors of each query from dense scores; k is from 1 to `rows`.
//
// One block of 1024 threads per row of scores. neighbors[b * k ..] = neighbors of query b among the
// rows first_row + r, best first if k <= sorted, otherwise in row order. counts[b] is their number.
// Only rows with scores above 0 are neighbors. Scores of excluded rows are set to 0. A radix
// selection (11, 11 and 10 bits) finds the k-th greatest score. Then one pass in row order takes
// all greater scores and, among the scores equal to the k-th, the scores of the lowest rows.
// Dynamic shared memory: `sorted` keys of 8 bytes (a power of two, at least 1024). Reference:
// src/search/exhaustive.rs. Launcher: `select`.
extern "C" __global__ void __launch_bounds__(1024)
    select(u32 rows, u32 first_row, float* scores, u32 first, const u32* list, Allow allow, u32 k,
           u32 sorted, u64* neighbors, u32* counts) {
    extern __shared__ u64 keys[];
    __shared__ u32 bins[2048];
    __shared__ u32 warp_sums[33];
    __shared__ u32 chosen, above;
    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    float* score = scores + (u64)rows * blockIdx.x;
    u32 query = list ? list[blockIdx.x] : first + blockIdx.x;
    if (allow.has_filter()) {
        // Each thread clears the excluded rows among the rows that it reads.
        for (u32 row = tid; row < rows; row += 1024) {
            if (!allow.allows(query, first_row + row)) score[row] = 0.0f;
        }
    }
    u64* own_neighbors = neighbors + (u64)k * blockIdx.x;

    // Find the bits of the k-th greatest score, starting with the highest. Positive floats have the
    // same order as their bits.
    u32 prefix = 0, mask = 0, remaining = k;
    const u32 shifts[3] = {21, 10, 0};
    bool takes_all = false;
    for (u32 pass = 0; pass < 3 && !takes_all; pass++) {
        u32 shift = shifts[pass], width = pass == 2 ? 1024 : 2048;
        for (u32 bin = tid; bin < 2048; bin += 1024) bins[bin] = 0;
        __syncthreads();
        for (u32 row = tid; row < rows; row += 1024) {
            u32 bits = __float_as_uint(score[row]);
            if (score[row] > 0.0f && (bits & mask) == prefix) {
                atomicAdd(&bins[(bits >> shift) & (width - 1)], 1);
            }
        }
        __syncthreads();
        // Cumulative counts from the highest bin down; thread t holds bins 2t and 2t + 1.
        u32 a = bins[2 * tid], b = bins[2 * tid + 1];
        u32 sum = a + b;
        for (u32 step = 1; step < 32; step *= 2) {
            u32 other = __shfl_down_sync(FULL_MASK, sum, step);
            if (lane + step < 32) sum += other;
        }
        if (lane == 0) warp_sums[warp] = sum;
        if (tid == 0) chosen = NO_ROW;
        __syncthreads();
        u32 higher_warps = 0;
        for (u32 other = warp + 1; other < 32; other++) higher_warps += warp_sums[other];
        sum += higher_warps;      // count of this thread's bins and all higher bins
        u32 higher = sum - a - b; // count of the higher bins only
        if (higher < remaining && sum >= remaining) {
            u32 with_b = higher + b;
            chosen = 2 * tid + (with_b >= remaining ? 1 : 0);
            above = with_b >= remaining ? higher : with_b;
        }
        __syncthreads();
        if (chosen == NO_ROW) {
            takes_all = true; // fewer than k scores are above 0; possible only in the first pass
        } else {
            prefix |= chosen << shift;
            mask |= (width - 1) << shift;
            remaining -= above;
        }
        __syncthreads();
    }
    // `prefix` has the bits of the k-th score. `remaining` of the scores equal to it are taken.
    u32 taken_count = 0, equal_count = 0;
    for (u32 start = 0; start < rows; start += 1024) {
        u32 row = start + tid;
        float value = row < rows ? score[row] : 0.0f;
        u32 bits = __float_as_uint(value);
        bool is_equal = value > 0.0f && !takes_all && bits == prefix;
        bool is_greater = value > 0.0f && (takes_all || bits > prefix);
        u32 equal_lanes = __ballot_sync(FULL_MASK, is_equal),
            greater_lanes = __ballot_sync(FULL_MASK, is_greater);
        if (lane == 0) warp_sums[warp] = __popc(equal_lanes) << 16 | __popc(greater_lanes);
        __syncthreads();
        u32 before = 0, total = 0;
        for (u32 other = 0; other < 32; other++) {
            if (other == warp) before = total;
            total += warp_sums[other];
        }
        u32 lower_lanes = (1u << lane) - 1;
        u32 equal_before = equal_count + (before >> 16) + __popc(equal_lanes & lower_lanes);
        u32 greater_before = (before & 0xffff) + __popc(greater_lanes & lower_lanes);
        bool is_taken = is_greater || (is_equal && equal_before < remaining);
        u32 position = taken_count + greater_before + min(equal_before, remaining) -
                       min(equal_count, remaining);
        if (is_taken) {
            u64 key = neighbor_key(value, first_row + row);
            if (k <= sorted) keys[position] = key;
            else own_neighbors[position] = neighbor_from_key(key);
        }
        u32 new_equal_count = equal_count + (total >> 16);
        taken_count +=
            (total & 0xffff) + min(new_equal_count, remaining) - min(equal_count, remaining);
        equal_count = new_equal_count;
        __syncthreads();
    }
    if (tid == 0) counts[blockIdx.x] = taken_count;
    if (k <= sorted) {
        u32 size = 1;
        while (size < taken_count) size *= 2;
        for (u32 position = taken_count + tid; position < size; position += 1024) {
            keys[position] = 0;
        }
        __syncthreads();
        sort_descending(keys, size);
        for (u32 position = tid; position < taken_count; position += 1024) {
            own_neighbors[position] = neighbor_from_key(keys[position]);
        }
    }
}
