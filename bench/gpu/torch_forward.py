"""Times the linear maps of bench/gpu and the forward pass of the trained demo model
in PyTorch on the same card.

Usage: torch_forward.py [index|cpu]
Prints GFLOP/s, with TF32 off, since the device rounds every product to float32, and
tokens per second, logits read back. The forward pass needs transformers.
"""

import pathlib
import sys
import time

import torch

which = sys.argv[1] if len(sys.argv) > 1 else "0"
device = torch.device("cpu") if which == "cpu" else torch.device("cuda", int(which))
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def wait():
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def best(rounds, calls, run):
    """Seconds of a call, the best of some rounds."""
    result = float("inf")
    for _ in range(rounds):
        wait()
        start = time.perf_counter()
        for i in range(calls):
            run(i)
        wait()
        result = min(result, (time.perf_counter() - start) / calls)
    return result


print(torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu", "torch", torch.__version__)
size = 4096 if device.type == "cuda" else 512
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    for rows, k, n in ((1, size, 4 * size), (8, size, 4 * size), (size, size, size)):
        x = torch.randn(rows, k, device=device, dtype=dtype)
        weights = [torch.randn(n, k, device=device, dtype=dtype) for _ in range(4)]
        seconds = best(6, 8, lambda i: torch.nn.functional.linear(x, weights[i % 4]))
        flops, read = 2 * rows * k * n, n * k * x.element_size()
        print(f"{str(dtype):15} {rows} x {k} x {n}: {flops / seconds / 1e9:.1f} GFLOP/s, {read / seconds / 1e9:.1f} GB/s")

from transformers import AutoModelForCausalLM  # noqa: E402

folder = pathlib.Path(__file__).resolve().parents[2] / "internal/demomodel/files/main"
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
tokens = 64
with torch.inference_mode():
    for batch in (1, 16, 256):
        ids = torch.tensor([[3 + (b + 7 * t) % 29 for t in range(tokens)] for b in range(batch)], device=device)
        seconds = best(6, 1, lambda _: model(ids, use_cache=False).logits.cpu())
        print(f"forward, batch {batch:3}: {batch * tokens / seconds:12.0f} tokens/s")
