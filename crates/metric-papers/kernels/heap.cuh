// A heap of the `k` smallest keys, with the largest key at the root. Entry i is at i * step.
struct Heap {
    unsigned long long* keys;
    unsigned step;
    unsigned size;
    unsigned k;
};

// Inserts a key. If the heap is full, a smaller key replaces the largest key, and a larger key is
// ignored.
__device__ inline void insert(Heap& heap, unsigned long long key) {
    unsigned index;
    if (heap.size < heap.k) {
        index = heap.size++;
        while (index > 0 && heap.keys[(index - 1) / 2 * heap.step] < key) {
            heap.keys[index * heap.step] = heap.keys[(index - 1) / 2 * heap.step];
            index = (index - 1) / 2;
        }
    } else if (heap.k > 0 && key < heap.keys[0]) {
        index = 0;
        for (;;) {
            unsigned child = 2 * index + 1;
            if (child >= heap.size) {
                break;
            }
            if (child + 1 < heap.size &&
                heap.keys[(child + 1) * heap.step] > heap.keys[child * heap.step]) {
                child++;
            }
            if (heap.keys[child * heap.step] <= key) {
                break;
            }
            heap.keys[index * heap.step] = heap.keys[child * heap.step];
            index = child;
        }
    } else {
        return;
    }
    heap.keys[index * heap.step] = key;
}
