// A stable radix sort of segments of the same length, eight bits at a time, starting with the
// lowest. The search by sorting uses it.

constexpr unsigned RADIX_THREADS = 256;
// Number of keys per block.
constexpr unsigned RADIX_KEYS = 4096;

// Counts the keys of each block with each digit. The count of digit d in block b of segment s is at
// ((s * 256) + d) * blocks + b.
extern "C" __global__ void __launch_bounds__(RADIX_THREADS)
    radix_count(const unsigned long long* keys, unsigned length, unsigned shift, unsigned* counts) {
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    const unsigned start = blockIdx.x * RADIX_KEYS, end = min(length, start + RADIX_KEYS);
    for (unsigned i = start + threadIdx.x; i < end; i += RADIX_THREADS) {
        atomicAdd(&bins[keys[size_t(blockIdx.y) * length + i] >> shift & 255], 1);
    }
    __syncthreads();
    counts[(size_t(blockIdx.y) * 256 + threadIdx.x) * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

// Replaces each count of a segment with the sum of the counts before it. One block per segment.
extern "C" __global__ void __launch_bounds__(RADIX_THREADS)
    radix_scan(unsigned* counts, unsigned per_segment) {
    __shared__ unsigned sums[RADIX_THREADS];
    unsigned* own = counts + size_t(blockIdx.x) * per_segment;
    unsigned before = 0;
    for (unsigned pass_start = 0; pass_start < per_segment; pass_start += RADIX_THREADS) {
        const unsigned i = pass_start + threadIdx.x;
        const unsigned value = i < per_segment ? own[i] : 0;
        sums[threadIdx.x] = value;
        __syncthreads();
        for (unsigned offset = 1; offset < RADIX_THREADS; offset *= 2) {
            const unsigned other = threadIdx.x >= offset ? sums[threadIdx.x - offset] : 0;
            __syncthreads();
            sums[threadIdx.x] += other;
            __syncthreads();
        }
        if (i < per_segment) {
            own[i] = before + sums[threadIdx.x] - value;
        }
        before += sums[RADIX_THREADS - 1];
        __syncthreads();
    }
}

// Moves each key to its sorted position: after the keys with lower digits, after the keys with the
// same digit in earlier blocks, and after earlier keys with the same digit in its block.
extern "C" __global__ void __launch_bounds__(RADIX_THREADS)
    radix_scatter(const unsigned long long* keys, unsigned length, unsigned shift,
                  const unsigned* starts, unsigned long long* output) {
    __shared__ unsigned next[256];
    __shared__ unsigned warp_positions[RADIX_THREADS / 32][256];
    next[threadIdx.x] = starts[(size_t(blockIdx.y) * 256 + threadIdx.x) * gridDim.x + blockIdx.x];
    const unsigned start = blockIdx.x * RADIX_KEYS, end = min(length, start + RADIX_KEYS);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (unsigned pass_start = start; pass_start < end; pass_start += RADIX_THREADS) {
        for (unsigned i = 0; i < RADIX_THREADS / 32; i++) {
            warp_positions[i][threadIdx.x] = 0;
        }
        __syncthreads();
        const unsigned i = pass_start + threadIdx.x;
        const bool is_active = i < end;
        const unsigned long long key = is_active ? keys[size_t(blockIdx.y) * length + i] : 0;
        const unsigned digit = is_active ? key >> shift & 255 : 256;
        const unsigned equal_lanes = __match_any_sync(~0u, digit);
        const unsigned rank = __popc(equal_lanes & ((1u << lane) - 1));
        if (is_active && rank == 0) {
            warp_positions[warp][digit] = __popc(equal_lanes);
        }
        __syncthreads();
        // Replace the counts of each digit with the first positions of the warps. One thread per
        // digit.
        unsigned before = next[threadIdx.x];
        for (unsigned w = 0; w < RADIX_THREADS / 32; w++) {
            const unsigned own = warp_positions[w][threadIdx.x];
            warp_positions[w][threadIdx.x] = before;
            before += own;
        }
        next[threadIdx.x] = before;
        __syncthreads();
        if (is_active) {
            output[size_t(blockIdx.y) * length + warp_positions[warp][digit] + rank] = key;
        }
        __syncthreads();
    }
}
