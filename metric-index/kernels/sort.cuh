// A sort in shared memory.

constexpr unsigned SELECT_THREADS = 256;

// Rising; `size` is a power of two.
__device__ inline void sort(unsigned long long* keys, unsigned size) {
    for (unsigned length = 2; length <= size; length *= 2) {
        for (unsigned apart = length / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (unsigned i = threadIdx.x; i < size; i += SELECT_THREADS) {
                const unsigned other = i ^ apart;
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
