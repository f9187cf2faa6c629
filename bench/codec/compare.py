"""Compares the float codec with ZipNN and Zstandard: compare.py CODEC NOASM ROUNDS FILE...

CODEC is the built program of this directory, NOASM the same built with the tag
noasm. Every round measures each codec once
on a file, in turn, so that all meet the same disturbances; the table shows
medians. The slow ones (SLOW) take part in the first round only.
Speeds are MB of raw bytes per second of CPU time. ZipNN and
Zstandard get all tensors as one buffer; Zstandard gets it with the bytes of the
elements shuffled into planes, and the shuffling is not counted.
"""

import json
import statistics
import subprocess
import sys
import time

import numpy as np
import zipnn
import zstandard

SLOW = {"zstd -9 shuffled", "dense", "max"}
WIDTH = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1}


def load(file):
    with open(file, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        dtype = next(iter(json.loads(f.read(n)).values()))["dtype"]
        return dtype, f.read()


def timed(f, *args):
    start = time.process_time()
    out = f(*args)
    return out, time.process_time() - start


def run_zipnn(dtype, raw):
    kind = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn"}[dtype]
    z = zipnn.ZipNN(bytearray_dtype=kind, input_format="byte", threads=1)
    enc, te = timed(z.compress, bytearray(raw))  # it changes its input
    dec, td = timed(z.decompress, enc)
    if bytes(dec) != raw:
        raise SystemExit("ZipNN: other bytes came back")
    return len(enc), te, td


def run_zstd(level, dtype, raw):
    planes = np.frombuffer(raw, np.uint8).reshape(-1, WIDTH[dtype]).T.tobytes()
    enc, te = timed(zstandard.ZstdCompressor(level=level).compress, planes)
    dec, td = timed(zstandard.ZstdDecompressor().decompress, enc)
    if dec != planes:
        raise SystemExit("zstd: other bytes came back")
    return len(enc), te, td


def run_ours(codec, level, file):
    # The first round warms buffers up; the slowest level does not need it.
    rounds = "1" if level == "max" else "2"
    out = subprocess.run([codec, "-level", level, "-rounds", rounds, file], check=True, capture_output=True).stdout
    r = json.loads(out)
    return r["encoded"], r["raw"] / 1e6 / r["encode_mb_s"], r["raw"] / 1e6 / r["decode_mb_s"]


def main():
    codec, noasm, rounds, files = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    print("| file | codec | bits per weight | encode MB/s | decode MB/s | size / ZipNN | encode / ZipNN | decode / ZipNN |")
    print("|---|---|---|---|---|---|---|---|")
    for file in files:
        dtype, raw = load(file)
        runs = {
            "ZipNN": lambda: run_zipnn(dtype, raw),
            "zstd -1 shuffled": lambda: run_zstd(1, dtype, raw),
            "zstd -9 shuffled": lambda: run_zstd(9, dtype, raw),
            "fast": lambda: run_ours(codec, "fast", file),
            "fast, noasm": lambda: run_ours(noasm, "fast", file),
            "dense": lambda: run_ours(codec, "dense", file),
            "max": lambda: run_ours(codec, "max", file),
        }
        seen = {name: [] for name in runs}
        for i in range(rounds):
            for name, run in runs.items():
                if i == 0 or name not in SLOW:
                    seen[name].append(run())
        mb = len(raw) / 1e6
        rows = {}
        for name, results in seen.items():
            size, te, td = (statistics.median(x) for x in zip(*results))
            rows[name] = (size * 8 / (len(raw) / WIDTH[dtype]), mb / te, mb / td)
        base = rows["ZipNN"]
        for name, (bits, enc, dec) in rows.items():
            print(f"| {file.rsplit('/', 1)[-1].removesuffix('.safetensors')} | {name} | {bits:.3f} | {enc:.0f} | {dec:.0f} "
                  f"| {bits / base[0]:.4f} | {enc / base[1]:.2f} | {dec / base[2]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
