"""Writes golden.json: sets of XOR tables packed by a second, plain encoder.

It follows docs/xortable.md and shares nothing with the Go code, so that the
layout is what the page says and not what one program happens to do. Run it by
hand with any Python 3: python3 golden.py > golden.json
"""

import json
import random

WIDTH_OF = {"F16": 16, "BF16": 16, "F32": 32, "F64": 64}
GROUP = 64


def pack_codes(codes, k, w):
    """Every bit is placed by itself: lane, then position in the lane's string."""
    lanes = 64 // w
    steps = -(-len(codes) // lanes)
    words = [0] * -(-steps * k // w)
    for i, code in enumerate(codes):
        for bit in range(k):
            position = (i // lanes) * k + bit
            lane_bit = (i % lanes) * w + position % w
            words[position // w] |= (code >> bit & 1) << lane_bit
    return b"".join(x.to_bytes(8, "little") for x in words)


def pack_row(base, target, w, widths):
    """widths gives (k, difference) for each group in turn."""
    if base == target:
        return b""
    heads, words, entries = b"", b"", b""
    column = -1
    full = (1 << w) - 1
    for g, (k, difference) in enumerate(widths):
        heads += bytes([k | (0x80 if difference else 0)])
        codes = []
        for i in range(g * GROUP, min((g + 1) * GROUP, len(base))):
            b, t = base[i], target[i]
            if difference:
                code = (t - b + (1 << (k - 1))) & ((1 << k) - 1)
                reached = b + code - (1 << (k - 1))
                assert 0 <= reached <= full, "choose an XOR group here"
            else:
                code = (b ^ t) & ((1 << k) - 1)
                reached = b ^ code
            codes.append(code)
            high = (t ^ reached) >> k
            if high:
                gap = i - column
                while gap > 255:
                    entries += bytes([255, 0])
                    gap -= 255
                column = i
                while high:
                    entries += bytes([gap, high & 255])
                    gap, high = 0, high >> 8
        words += pack_codes(codes, k, w)
    return heads + words + entries


def case(name, dtype, rows, width, widths, change, rng):
    w = WIDTH_OF[dtype]
    # Away from both ends of the range, so that difference groups are possible.
    base = [[rng.randrange(1 << (w - 2), 3 << (w - 2)) for _ in range(width)] for _ in range(rows)]
    target = [[change(r, c, v, w) & ((1 << w) - 1) for c, v in enumerate(row)] for r, row in enumerate(base)]
    packed = [pack_row(b, t, w, widths) for b, t in zip(base, target)]
    offsets = [0]
    for p in packed:
        offsets.append(offsets[-1] + len(p))
    store = lambda table: b"".join(v.to_bytes(w // 8, "little") for row in table for v in row).hex()
    return {
        "name": name,
        "recipe": {
            "kind": "xor_tables", "version": 1, "dtype": dtype, "shape": [rows, width], "base": 0,
            "routes": [{"mode": "same"}, {"mode": "packed", "tensors": {
                "codes": {"dtype": "U8", "shape": [offsets[-1]]},
                "offsets": {"dtype": "U32", "shape": [rows + 1]}}}],
        },
        "tensors": {
            "base": store(base),
            "routes.1.codes": b"".join(packed).hex(),
            "routes.1.offsets": b"".join(x.to_bytes(4, "little") for x in offsets).hex(),
        },
        "tables": [store(base), store(target)],
    }


def main():
    rng = random.Random(2026)
    near = lambda bits: lambda r, c, v, w: v ^ rng.randrange(1 << bits)
    step = lambda size: lambda r, c, v, w: v + rng.randrange(-size, size)

    def rare(r, c, v, w):  # far apart, so that gaps are bridged; row 1 is equal
        return v ^ (1 << (w - 1) | 5) if r != 1 and c in (0, 300, 555) else v

    cases = [
        case("xor across lane words", "F32", 3, 64, [(5, False)], near(5), rng),
        case("difference across lane words", "F32", 3, 64, [(11, True)], step(1000), rng),
        case("general width", "F32", 2, 128, [(19, False), (23, True)], step(4000), rng),
        case("exceptions of two bytes", "F32", 3, 70, [(3, False), (2, True)], near(14), rng),
        case("bridged gaps and an equal row", "F32", 3, 600, [(0, False)] * 10, rare, rng),
        case("half precision", "F16", 3, 101, [(3, True), (7, False)], step(4), rng),
        case("half precision, wide", "BF16", 2, 64, [(13, False)], near(13), rng),
        case("double precision", "F64", 2, 67, [(6, True), (40, False)], step(40), rng),
    ]
    print(json.dumps(cases, separators=(",", ":")))


main()
