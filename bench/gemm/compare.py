"""Compares the matrix product of this project with OpenBLAS on one core.

Both are timed in turns in the same run, pinned to the same core, so that a busy
machine slows both. OpenBLAS is the one inside numpy. Run compare.sh, which
installs what this needs.
"""

import os
import statistics
import subprocess
import sys
import time

import numpy as np
from threadpoolctl import threadpool_info

ROUNDS, MILLISECONDS = 15, 60
SIZES = [(512, 512, 512), (128, 512, 512), (16, 512, 512), (4, 512, 512), (1, 512, 512), (1, 4096, 4096), (512, 1024, 2048)]


def main(program):
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    blas = [i for i in threadpool_info() if i["user_api"] == "blas"]
    for i in blas:
        print(f"OpenBLAS {i['version']}, kernel {i['architecture']}, {i['num_threads']} thread")
    failed = False
    for rows, n, k in SIZES:
        rng = np.random.default_rng(1)
        x = rng.standard_normal((rows, k), dtype=np.float32)
        w = rng.standard_normal((n, k), dtype=np.float32)
        y = np.empty((rows, n), dtype=np.float32)
        ours = subprocess.Popen([program, str(rows), str(n), str(k)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        kernel = ours.stdout.readline().strip()
        a, b = [], []
        for _ in range(ROUNDS):
            best, end = float("inf"), time.perf_counter() + MILLISECONDS / 1000
            while time.perf_counter() < end:
                start = time.perf_counter()
                np.matmul(x, w.T, out=y)
                best = min(best, time.perf_counter() - start)
            a.append(best)
            ours.stdin.write(f"{MILLISECONDS}\n")
            ours.stdin.flush()
            b.append(float(ours.stdout.readline()))
        ours.stdin.close()
        ours.wait()
        flop = 2 * rows * n * k / 1e9
        ratio = statistics.median(p / q for p, q in zip(a, b))
        print(
            f"{rows:4d} x {k} x {n}: OpenBLAS {flop / min(a):6.1f} GFLOP/s, {kernel} {flop / min(b):6.1f} GFLOP/s, "
            f"ratio of the best {min(a) / min(b):.2f}, median ratio {ratio:.2f}"
        )
        if (rows, n, k) == (512, 512, 512):
            failed = min(a) / min(b) < 0.7
    if failed:
        sys.exit("below 0.7 of OpenBLAS at 512 x 512 x 512")


main(sys.argv[1])
