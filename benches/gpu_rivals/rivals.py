#!/usr/bin/env python3
"""Measure other ways to find k nearest neighbors on a GPU, on the rows of
`cargo bench --bench cuda -- dump DIR`.

    python3 benches/gpu_rivals/rivals.py DIR [K [QUERIES]]

* CuPy: `queries @ training.T` (cuSPARSE SpGEMM), then the k best of each row of the sparse product.
  They are selected by one sort (row, similarity and column packed into 64 bits), by a kernel
  written for it, and by dense rows and `argpartition`.
* A dense product: blocks of bf16 queries and training rows on the tensor cores, f32 sums, top-k. It
  is not exact, because the weights are bf16; the script prints the share of the neighbors that it
  finds.

Requires CuPy and PyTorch with CUDA. Times are CUDA events around everything on the GPU except
copies: medians of three runs after a warm-up. The training matrix and all queries are on the GPU
before the clock starts. """
import json
import sys
import time

import cupy
import cupyx.scipy.sparse as sparse
import numpy
import torch


def rows(folder, name):
    part = lambda what, kind: numpy.fromfile(f"{folder}/{name}.{what}", dtype=kind)
    shape = json.load(open(f"{folder}/shape.json"))
    ptr = part("ptr", numpy.uint64).astype(numpy.int64)
    cols = part("cols", numpy.uint32).astype(numpy.int32)
    return ptr, cols, part("vals", numpy.float32), shape["terms"]


def on_gpu(ptr, cols, vals, terms, first, last):
    start, end = int(ptr[first]), int(ptr[last])
    return sparse.csr_matrix(
        (cupy.asarray(vals[start:end]), cupy.asarray(cols[start:end]),
         cupy.asarray((ptr[first:last + 1] - ptr[first]).astype(numpy.int32))),
        shape=(last - first, terms))


TOP = cupy.RawKernel(r"""
// Selects the k best of each row of a CSR product: one block per row, k <= 64. Each step takes the largest value
// below the previous one (ties: the lower column). Values stay in L1/L2 between the steps.
extern "C" __global__ void top(const int* ptr, const int* cols, const float* vals, int k,
                               int* best_col, float* best_val) {
    __shared__ unsigned long long warps[8];
    __shared__ unsigned long long last;
    int row = blockIdx.x;
    if (threadIdx.x == 0) last = ~0ull;
    __syncthreads();
    for (int rank = 0; rank < k; rank++) {
        unsigned long long mine = 0, limit = last;
        for (int at = ptr[row] + threadIdx.x; at < ptr[row + 1]; at += blockDim.x) {
            float value = vals[at];
            if (value > 0) {
                unsigned long long key = ((unsigned long long)__float_as_uint(value) << 32)
                    | (unsigned)~cols[at];
                if (key < limit && key > mine) mine = key;
            }
        }
        for (int step = 16; step > 0; step /= 2) {
            unsigned long long other = __shfl_xor_sync(~0u, mine, step);
            if (other > mine) mine = other;
        }
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int warp = 1; warp < 8; warp++) if (warps[warp] > mine) mine = warps[warp];
            last = mine;
            best_col[row * k + rank] = mine ? (int)~(unsigned)mine : -1;
            best_val[row * k + rank] = __uint_as_float((unsigned)(mine >> 32));
        }
        __syncthreads();
        if (last == 0) {
            for (int rest = rank + 1 + threadIdx.x; rest < k; rest += blockDim.x) {
                best_col[row * k + rest] = -1;
                best_val[row * k + rest] = 0;
            }
            return;
        }
    }
}
""", "top")


def sorted_top(product, k):
    """Return the columns of the k best entries of each row with CuPy alone; -1 if a row has fewer.

    CuPy cannot select per row of a sparse matrix. The fastest substitute is one sort of 64-bit
    numbers.
    """
    rows, columns = product.shape
    row = product.tocoo(copy=False).row.astype(cupy.uint64)
    column_bits = int(columns - 1).bit_length()
    assert (rows - 1).bit_length() + 32 + column_bits <= 64
    bits = product.data.view(cupy.uint32).astype(cupy.uint64)
    keys = (row << (32 + column_bits)) | ((0xffffffff - bits) << column_bits) \
        | product.indices.astype(cupy.uint64)
    keys.sort()
    place = product.indptr[:-1, None] + cupy.arange(k, dtype=product.indptr.dtype)
    found = (keys[cupy.minimum(place, keys.size - 1)] & ((1 << column_bits) - 1)).astype(cupy.int32)
    return cupy.where(place < product.indptr[1:, None], found, -1)


def timed(work, runs=3):
    times = []
    for _ in range(runs + 1):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        cupy.cuda.Device().synchronize()
        start.record()
        result = work()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return sorted(times[1:])[runs // 2], result


def main():
    folder = sys.argv[1]
    k = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    train = rows(folder, "training")
    test = rows(folder, "test")
    queries = min(int(sys.argv[3]) if len(sys.argv) > 3 else 10 ** 9, len(test[0]) - 1)
    training = on_gpu(*train, 0, len(train[0]) - 1)
    count = training.shape[0]
    transposed = training.T.tocsr()

    def by_sorting(batch):
        return lambda: [sorted_top(part @ transposed, k) for part in parts[batch]]

    def by_dense_rows(batch):
        def work():
            found = []
            for part in parts[batch]:
                scores = (part @ transposed).toarray()
                best = cupy.argpartition(-scores, k, axis=1)[:, :k]
                order = cupy.argsort(-cupy.take_along_axis(scores, best, axis=1), axis=1)
                found.append(cupy.take_along_axis(best, order, axis=1))
            return found
        return work

    def product_only(batch):
        def work():
            for part in parts[batch]:
                part @ transposed
        return work

    def spgemm(batch):
        def work():
            found = []
            for part in parts[batch]:
                product = part @ transposed
                cols = cupy.empty((part.shape[0], k), dtype=cupy.int32)
                vals = cupy.empty((part.shape[0], k), dtype=cupy.float32)
                TOP((part.shape[0],), (256,), (product.indptr, product.indices, product.data,
                                               numpy.int32(k), cols, vals))
                found.append(cols)
            return found
        return work

    parts = {}
    for batch in (8_192,) if queries > 100_000 else (2_048, 8_192):
        some = [(first, min(first + batch, queries)) for first in range(0, queries, batch)]
        parts[batch] = [on_gpu(*test, first, last) for first, last in some]
        runs = 1 if queries > 100_000 else 3
        for name, way in (("the product alone", product_only),
                          (f"top-{k} of dense rows by argpartition", by_dense_rows),
                          (f"top-{k} by CuPy's sort", by_sorting),
                          (f"top-{k} by a kernel written for it", spgemm)):
            seconds, found = timed(way(batch), runs)
            print(f"cupy csr @ csr.T, {name}, batches of {batch}: {seconds * 1e3:.1f} ms, "
                  f"{seconds / queries * 1e6:.3f} us per query", flush=True)
            if way is by_sorting:
                sort = found
        differ = sum(int((a != b).any(axis=1).sum()) for a, b in zip(sort, found))
        print(f"both ways of top-{k} differ in {differ} of {queries} queries")
        exact = found

    # Dense: training rows once as bf16, 23,149 x 47,236 = 2.2 GB.
    dense = torch.zeros((count, train[3]), dtype=torch.bfloat16, device="cuda")
    index = torch.from_numpy(numpy.repeat(numpy.arange(count), numpy.diff(train[0]))).cuda()
    dense[index, torch.from_numpy(train[1].astype(numpy.int64)).cuda()] = \
        torch.from_numpy(train[2]).cuda().bfloat16()
    batch = 4_096
    some = min(queries, 40_960)
    coords = []
    for first in range(0, some, batch):
        last = min(first + batch, some)
        start, end = int(test[0][first]), int(test[0][last])
        row = numpy.repeat(numpy.arange(last - first), numpy.diff(test[0][first:last + 1]))
        coords.append((last - first, torch.from_numpy(row).cuda(),
                       torch.from_numpy(test[1][start:end].astype(numpy.int64)).cuda(),
                       torch.from_numpy(test[2][start:end]).cuda().bfloat16()))
    block = torch.zeros((batch, train[3]), dtype=torch.bfloat16, device="cuda")

    def product():
        found = []
        for size, row, col, val in coords:
            block.zero_()
            block[row, col] = val
            found.append(torch.topk(block[:size] @ dense.T, k).indices)
        return found

    times = []
    for _ in range(4):
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        found = product()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    seconds = sorted(times[1:])[1]
    own = torch.cat(found).cpu().numpy()
    same = cupy.asnumpy(cupy.concatenate(exact))[:some]
    kept = numpy.mean([len(set(a) & set(b)) / k for a, b in zip(own[:2_000], same[:2_000])])
    print(f"dense bf16 product + top-{k}, {some} queries: {seconds / some * 1e6:.3f} us per query, "
          f"{seconds / some * queries * 1e3:.1f} ms for {queries}; "
          f"{100 * kept:.1f} % of the exact neighbors")


main()
