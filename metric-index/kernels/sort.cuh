// A bitonic sort in shared memory.

// Number of threads per block.
constexpr unsigned SELECT_THREADS = 256;

// Sorts `size` keys in ascending order. `size` must be a power of two. All threads of the block
// must call it.
__device__ inline void sort(unsigned long long* keys, unsigned size) {
    for (unsigned length = 2; length <= size; length *= 2) {
        for (unsigned stride = length / 2; stride > 0; stride /= 2) {
            __syncthreads();
            for (unsigned i = threadIdx.x; i < size; i += SELECT_THREADS) {
                const unsigned other = i ^ stride;
                if (other > i && (keys[i] > keys[other]) == ((i & length) == 0)) {
                    const unsigned long long key = keys[i];
                    keys[i] = keys[other];
                    keys[other] = key;
                }
            }
        }
    }
    __syncthreads();
}
