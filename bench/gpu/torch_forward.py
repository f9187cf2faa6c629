"""Times the linear maps of bench/gpu in PyTorch on the same card.

Usage: torch_forward.py [index]
Prints GFLOP/s, with TF32 off, since the device rounds every product to float32.
"""

import sys
import time

import torch

device = torch.device("cuda", int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
print(torch.cuda.get_device_name(device), "torch", torch.__version__)
size = 4096
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    for rows, k, n in ((1, size, 4 * size), (8, size, 4 * size), (size, size, size)):
        x = torch.randn(rows, k, device=device, dtype=dtype)
        weights = [torch.randn(n, k, device=device, dtype=dtype) for _ in range(4)]
        best = float("inf")
        for _ in range(6):
            torch.cuda.synchronize(device)
            start = time.perf_counter()
            for i in range(8):
                y = torch.nn.functional.linear(x, weights[i % 4])
            torch.cuda.synchronize(device)
            best = min(best, (time.perf_counter() - start) / 8)
        flops, read = 2 * rows * k * n, n * k * x.element_size()
        print(f"{str(dtype):15} {rows} x {k} x {n}: {flops / best / 1e9:.1f} GFLOP/s, {read / best / 1e9:.1f} GB/s")
