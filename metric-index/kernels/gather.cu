// The neighbors of queries, one after another, nearest first; those of query q end at `ends[q]`. Shared memory: `sorted` keys, a
// power of two; more than that are not sorted. A block a query.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
    gather(const unsigned long long* found, unsigned room, const unsigned* ends, unsigned sorted, unsigned long long* to) {
    extern __shared__ unsigned long long keys[];
    const unsigned start = blockIdx.x ? ends[blockIdx.x - 1] : 0, count = ends[blockIdx.x] - start;
    const unsigned long long* own = found + size_t(blockIdx.x) * room;
    if (count > sorted) {
        for (unsigned at = threadIdx.x; at < count; at += SELECT_THREADS) {
            to[start + at] = own[at];
        }
        return;
    }
    unsigned size = 1;
    while (size < count) {
        size *= 2;
    }
    for (unsigned at = threadIdx.x; at < size; at += SELECT_THREADS) {
        keys[at] = at < count ? own[at] : ~0ull;
    }
    sort(keys, size);
    for (unsigned at = threadIdx.x; at < count; at += SELECT_THREADS) {
        to[start + at] = keys[at];
    }
}
