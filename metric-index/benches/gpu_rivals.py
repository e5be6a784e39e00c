"""Measure exact nearest neighbors with PyTorch on a GPU: float32 matrix products and top-k.

Prints the median device time of seven runs in milliseconds.

    python3 metric-index/benches/gpu_rivals.py [POINTSxDIMENSION ...]
"""
import sys

import torch

torch.backends.cuda.matmul.allow_tf32 = False
torch.manual_seed(1)


def nearest(points, squares, queries, k):
    """Compute at most 2^31 products at a time, the fastest of the sizes tried."""
    step = max(1, (1 << 31) // len(points))
    found = []
    for part in queries.split(step):
        distances = torch.addmm(squares, part, points.T, alpha=-2)
        found.append(distances.topk(k, largest=False))
    return found


def milliseconds(work):
    times = []
    for _ in range(8):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times[1:])[3]


def main():
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for shape in sys.argv[1:] or ["70000x784", "1275219x128", "3000000x300"]:
        count, dimension = map(int, shape.split("x"))
        points = torch.randn(count, dimension, device="cuda")
        squares = (points * points).sum(1)
        floor = milliseconds(lambda: torch.sum(points.view(-1)[: points.numel()]))
        print(f"{shape:>12} one pass over the points: {floor:.3f}")
        for k in (32, 128):
            line = f"{shape:>12} k={k:<4}"
            for queries in (1, 16, 32, 128, 512, 2048, 8192):
                batch = torch.randn(queries, dimension, device="cuda")
                time = milliseconds(lambda: nearest(points, squares, batch, k))
                line += f"  {queries}: {time:.3f}"
            print(line, flush=True)
        del points


main()
