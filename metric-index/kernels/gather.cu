// Copies the neighbors of all queries to one array, nearest first. The neighbors of query q end at
// `ends[q]`. One block per query. Queries with more than `max_sorted` neighbors are copied
// unsorted. Shared memory: `max_sorted` keys, a power of two.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
    gather(const unsigned long long* neighbors, unsigned capacity, const unsigned* ends,
           unsigned max_sorted, unsigned long long* output) {
    extern __shared__ unsigned long long keys[];
    const unsigned start = blockIdx.x ? ends[blockIdx.x - 1] : 0, count = ends[blockIdx.x] - start;
    const unsigned long long* own_neighbors = neighbors + size_t(blockIdx.x) * capacity;
    if (count > max_sorted) {
        for (unsigned index = threadIdx.x; index < count; index += SELECT_THREADS) {
            output[start + index] = own_neighbors[index];
        }
        return;
    }
    unsigned size = 1;
    while (size < count) {
        size *= 2;
    }
    for (unsigned index = threadIdx.x; index < size; index += SELECT_THREADS) {
        keys[index] = index < count ? own_neighbors[index] : ~0ull;
    }
    sort(keys, size);
    for (unsigned index = threadIdx.x; index < count; index += SELECT_THREADS) {
        output[start + index] = keys[index];
    }
}
