"""Makes the golden files beside it with the format's own writer.

    pip install safetensors==0.6.2 numpy==2.4.6
    python make.py

Each case is written by safetensors.numpy.save or by the Rust serializer that it
calls. cases.json lists what the files must be read as.
"""

import hashlib
import json
import pathlib

import numpy
import safetensors
from safetensors.numpy import save

HERE = pathlib.Path(__file__).parent


def values(seed, dtype, shape):
    raw = numpy.random.default_rng(seed).bytes(numpy.dtype(dtype).itemsize * int(numpy.prod(shape)))
    return numpy.frombuffer(raw, dtype=dtype).reshape(shape)


NUMPY = {
    "F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2",
    "I8": "i1", "U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1",
}
cases = {
    "empty": (save({}), None),
    "dtypes": (save({n.lower(): values(i, d, (2, 3)) for i, (n, d) in enumerate(NUMPY.items())}), None),
    "bool": (save({"mask": numpy.array([[True, False], [False, True]])}), None),
    "shapes": (save({
        "scalar": values(1, "f4", ()),
        "nothing": values(2, "f4", (0,)),
        "no_rows": values(3, "f4", (0, 7)),
        "deep": values(4, "f4", (1, 2, 1, 2, 1, 2)),
    }), None),
    "names": (save({
        "<a href='x'>&amp;</a>": values(1, "u1", (3,)),
        "tab\tquote\"slash\\bell\x07": values(2, "u1", (2,)),
        "étoile ⭐ \U0001f917": values(3, "u1", (5,)),
    }), None),
    "metadata": (save({"x": values(1, "f2", (3,))}, {"format": "pt"}), {"format": "pt"}),
    # numpy has no types for these: the serializer itself is called.
    "narrow": (safetensors.serialize({
        name.lower(): {"dtype": rust, "shape": [2, size // (4 if name == "BF16" else 2)],
               "data": bytes(range(start, start + size))}
        for name, rust, start, size in [
            ("BF16", "bfloat16", 1, 16), ("F8_E4M3", "float8_e4m3fn", 50, 8), ("F8_E5M2", "float8_e5m2", 70, 8),
            ("F8_E8M0", "float8_e8m0fnu", 90, 8),
            ("F4", "float4_e2m1fn_x2", 110, 4),  # two values a byte: the last extent doubles
        ]
    }), None),
}

listing = {}
for name, (data, metadata) in cases.items():
    (HERE / f"{name}.safetensors").write_bytes(data)
    tensors = {}
    for key, info in safetensors.deserialize(data):
        tensors[key] = {
            "dtype": info["dtype"], "shape": info["shape"],
            "sha256": hashlib.sha256(bytes(info["data"])).hexdigest(),
        }
    listing[name] = {"metadata": metadata, "tensors": tensors}
(HERE / "cases.json").write_text(json.dumps(listing, indent=1, ensure_ascii=True) + "\n")
