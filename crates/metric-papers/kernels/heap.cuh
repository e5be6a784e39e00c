// A heap of the `k` smallest keys, with the largest at the root. Entry i of a heap is at i * step.
struct Heap {
    unsigned long long* keys;
    unsigned step;
    unsigned size;
    unsigned k;
};

__device__ inline void insert(Heap& heap, unsigned long long key) {
    unsigned at;
    if (heap.size < heap.k) {
        at = heap.size++;
        while (at > 0 && heap.keys[(at - 1) / 2 * heap.step] < key) {
            heap.keys[at * heap.step] = heap.keys[(at - 1) / 2 * heap.step];
            at = (at - 1) / 2;
        }
    } else if (heap.k > 0 && key < heap.keys[0]) {
        at = 0;
        for (;;) {
            unsigned child = 2 * at + 1;
            if (child >= heap.size) {
                break;
            }
            if (child + 1 < heap.size && heap.keys[(child + 1) * heap.step] > heap.keys[child * heap.step]) {
                child++;
            }
            if (heap.keys[child * heap.step] <= key) {
                break;
            }
            heap.keys[at * heap.step] = heap.keys[child * heap.step];
            at = child;
        }
    } else {
        return;
    }
    heap.keys[at * heap.step] = key;
}
