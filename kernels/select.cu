// select: the k best neighbors of each row of dense scores, k from 1 to `rows`.
//
// One block of 1024 threads per row of scores. found[b * k ..] = neighbors among the rows first_row + r,
// best first if k <= sorted, otherwise in row order. counts[b] is their number. Only scores above 0
// count; scores of excluded rows are cleared. A radix selection (11, 11 and 10 bits) finds the k-th
// greatest score. One ordered pass then takes all greater scores and, of the equal ones, the lowest rows.
// Dynamic shared memory: `sorted` keys of 8 bytes (a power of two, at least 1024).
// Reference: src/search/exhaustive.rs. Launcher: `select`.
extern "C" __global__ void __launch_bounds__(1024)
    select(u32 rows, u32 first_row, float* scores, u32 first, const u32* list,
           Allow allow, u32 k, u32 sorted, u64* found, u32* counts) {
    extern __shared__ u64 keys[];
    __shared__ u32 bins[2048];
    __shared__ u32 warp_sums[33];
    __shared__ u32 chosen, above;
    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    float* score = scores + (u64)rows * blockIdx.x;
    u32 query = list ? list[blockIdx.x] : first + blockIdx.x;
    if (allow.denies()) {
        // Each thread clears the excluded rows among the rows that it scans.
        for (u32 row = tid; row < rows; row += 1024) {
            if (!allow.allows(query, first_row + row)) score[row] = 0.0f;
        }
    }
    u64* mine = found + (u64)k * blockIdx.x;

    // Bits of the k-th greatest score, from the highest bit. Positive floats are ordered like their bits.
    u32 prefix = 0, mask = 0, wanted = k;
    const u32 shifts[3] = {21, 10, 0};
    bool all = false;
    for (u32 pass = 0; pass < 3 && !all; pass++) {
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
            u32 other = __shfl_down_sync(FULL, sum, step);
            if (lane + step < 32) sum += other;
        }
        if (lane == 0) warp_sums[warp] = sum;
        if (tid == 0) chosen = NO_ROW;
        __syncthreads();
        u32 later = 0;
        for (u32 other = warp + 1; other < 32; other++) later += warp_sums[other];
        sum += later;             // of this thread's bins and all higher bins
        u32 higher = sum - a - b; // of the higher bins only
        if (higher < wanted && sum >= wanted) {
            u32 of_b = higher + b;
            chosen = 2 * tid + (of_b >= wanted ? 1 : 0);
            above = of_b >= wanted ? higher : of_b;
        }
        __syncthreads();
        if (chosen == NO_ROW) {
            all = true; // fewer than k neighbors; possible only in the first pass
        } else {
            prefix |= chosen << shift;
            mask |= (width - 1) << shift;
            wanted -= above;
        }
        __syncthreads();
    }
    // `prefix` holds the bits of the k-th score; `wanted` of the scores equal to it are taken.
    u32 taken = 0, equal = 0;
    for (u32 start = 0; start < rows; start += 1024) {
        u32 row = start + tid;
        float value = row < rows ? score[row] : 0.0f;
        u32 bits = __float_as_uint(value);
        bool tie = value > 0.0f && !all && bits == prefix;
        bool more = value > 0.0f && (all || bits > prefix);
        u32 ties = __ballot_sync(FULL, tie), mores = __ballot_sync(FULL, more);
        if (lane == 0) warp_sums[warp] = __popc(ties) << 16 | __popc(mores);
        __syncthreads();
        u32 before = 0, total = 0;
        for (u32 other = 0; other < 32; other++) {
            if (other == warp) before = total;
            total += warp_sums[other];
        }
        u32 below = (1u << lane) - 1;
        u32 ties_before = equal + (before >> 16) + __popc(ties & below);
        u32 mores_before = (before & 0xffff) + __popc(mores & below);
        bool take = more || (tie && ties_before < wanted);
        u32 at = taken + mores_before + min(ties_before, wanted) - min(equal, wanted);
        if (take) {
            u64 key = neighbor_key(value, first_row + row);
            if (k <= sorted) keys[at] = key; else mine[at] = neighbor_of(key);
        }
        u32 new_equal = equal + (total >> 16);
        taken += (total & 0xffff) + min(new_equal, wanted) - min(equal, wanted);
        equal = new_equal;
        __syncthreads();
    }
    if (tid == 0) counts[blockIdx.x] = taken;
    if (k <= sorted) {
        u32 size = 1;
        while (size < taken) size *= 2;
        for (u32 at = taken + tid; at < size; at += 1024) keys[at] = 0;
        __syncthreads();
        sort_descending(keys, size);
        for (u32 at = tid; at < taken; at += 1024) mine[at] = neighbor_of(keys[at]);
    }
}
