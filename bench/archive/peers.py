"""Compares with other compressors for weights: peers.py ARCHIVE ROUNDS FILE...

ARCHIVE is the built program of this directory; the Python packages are those of peers-requirements.txt. Each file is
a safetensors file of one type. Every round measures each compressor once, in turn, with one thread; the table shows
medians, of speeds in MB of raw bytes per second of CPU time of the whole process. Everything is decompressed and
compared.

ZipNN, Blosc2, pcodec and OpenZL get all tensors as one buffer of their type; pcodec gets BF16 as 16-bit integers, which
it does not know otherwise. OpenZL takes floats apart with its own nodes, with entropy coding for the exponents and its
generic graph for the rest. lmzip compresses the file itself, from one file to another (on a file system in memory, to
be fair). Ours are whole archives of the file in memory, with SHA-256 of the file and of every tensor.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import blosc2
import lmz.api
import numpy as np
import openzl.ext as zl
import zipnn
from pcodec import ChunkConfig, standalone

TYPES = {"F32": ("float32", np.float32), "F16": ("float16", np.float16), "BF16": ("bfloat16", np.uint16)}


def load(file):
    with open(file, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(n))
        return next(v["dtype"] for k, v in header.items() if k != "__metadata__"), f.read()


def timed(f, *args, **named):
    start = time.process_time()
    out = f(*args, **named)
    return out, time.process_time() - start


def same(name, got, want):
    if bytes(got) != want:
        raise SystemExit(f"{name}: other bytes came back")


def run_zipnn(dtype, raw, _):
    z = zipnn.ZipNN(bytearray_dtype=TYPES[dtype][0], input_format="byte", threads=1)
    enc, te = timed(z.compress, bytearray(raw))  # it changes its input
    dec, td = timed(z.decompress, enc)
    same("ZipNN", dec, raw)
    return len(enc), te, td


def run_blosc2(filters):
    def run(dtype, raw, _):
        blosc2.set_nthreads(1)
        width = np.dtype(TYPES[dtype][1]).itemsize
        enc, te = timed(blosc2.compress2, raw, codec=blosc2.Codec.ZSTD, clevel=1, typesize=width, filters=[filters],
                        filters_meta=[0], nthreads=1)
        dec, td = timed(blosc2.decompress2, enc, nthreads=1)
        same("Blosc2", dec, raw)
        return len(enc), te, td

    return run


def run_pcodec(dtype, raw, _):
    values = np.frombuffer(raw, TYPES[dtype][1])
    enc, te = timed(standalone.simple_compress, values, ChunkConfig())
    dec, td = timed(standalone.simple_decompress, enc)
    same("pcodec", dec.tobytes(), raw)
    return len(enc), te, td


def run_openzl(dtype, raw, _):
    width = {"BF16": np.uint16, "F16": np.uint16, "F32": np.uint32}[dtype]
    node = {"BF16": zl.nodes.BFloat16Deconstruct, "F16": zl.nodes.Float16Deconstruct, "F32": zl.nodes.Float32Deconstruct}[dtype]
    values = np.frombuffer(raw, width)

    def compress():
        c = zl.Compressor()
        c.select_starting_graph(node()(c, sign_frac=zl.graphs.Compress()(c), exponent=zl.graphs.Entropy()(c)))
        context = zl.CCtx()
        context.ref_compressor(c)
        context.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
        return context.compress([zl.Input(zl.Type.Numeric, values)])

    enc, te = timed(compress)
    dec, td = timed(lambda: zl.DCtx().decompress(enc))
    same("OpenZL", dec[0].content.as_bytes(), raw)
    return len(enc), te, td


def run_lmzip(dtype, raw, file):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as d:
        _, te = timed(lmz.api.compress, str(file), f"{d}/x.lmz", workers=1)
        _, td = timed(lmz.api.decompress, f"{d}/x.lmz", f"{d}/x", workers=1)
        same("lmzip", pathlib.Path(f"{d}/x").read_bytes(), pathlib.Path(file).read_bytes())
        return os.path.getsize(f"{d}/x.lmz"), te, td


def run_ours(program, level):
    def run(dtype, raw, file):
        out = subprocess.run([program, "files", "-level", level, "-rounds", "3", file], check=True, capture_output=True, text=True)
        cells = [c.strip() for c in out.stdout.splitlines()[-1].split("|")[1:-1]]
        mb = int(cells[2]) / 1e6
        return int(cells[3]), mb / float(cells[6]), mb / float(cells[7])

    return run


def main():
    program, rounds, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    runs = {
        "ZipNN 0.5.4": run_zipnn,
        "lmzip 1.3.0": run_lmzip,
        "OpenZL 0.3.0": run_openzl,
        "pcodec 1.1.0": run_pcodec,
        "Blosc2 4.14.1, bytes shuffled, zstd 1": run_blosc2(blosc2.Filter.SHUFFLE),
        "Blosc2 4.14.1, bits shuffled, zstd 1": run_blosc2(blosc2.Filter.BITSHUFFLE),
        "archive, fast": run_ours(program, "fast"),
        "archive, dense": run_ours(program, "dense"),
        "archive, max": run_ours(program, "max"),
    }
    print("| file | compressor | bits per weight | encode MB/s | decode MB/s | size / fast | encode / fast | decode / fast |")
    print("|---|---|---|---|---|---|---|---|")
    for file in files:
        dtype, raw = load(file)
        weights = len(raw) / np.dtype(TYPES[dtype][1]).itemsize
        seen = {name: [] for name in runs}
        for i in range(rounds):
            for name, run in runs.items():
                if i == 0 or name not in ("archive, dense", "archive, max"):
                    seen[name].append(run(dtype, raw, file))
        rows = {}
        for name, results in seen.items():
            size, te, td = (statistics.median(x) for x in zip(*results))
            rows[name] = (size * 8 / weights, len(raw) / 1e6 / te, len(raw) / 1e6 / td)
        ours = rows["archive, fast"]
        for name, (bits, enc, dec) in rows.items():
            print(f"| {pathlib.Path(file).stem} | {name} | {bits:.3f} | {enc:.0f} | {dec:.0f} "
                  f"| {bits / ours[0]:.4f} | {enc / ours[1]:.2f} | {dec / ours[2]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
