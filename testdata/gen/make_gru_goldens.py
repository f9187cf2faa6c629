"""Golden vectors for architectures/gru.

    python make_gru_goldens.py WHEEL OUT

WHEEL is g2p_en-2.1.0-py3-none-any.whl (PyPI, Apache-2.0; `pip download --no-deps
g2p_en==2.1.0`). OUT becomes architectures/gru/testdata:

    g2p_en/             its trained model as safetensors, with a config.json
    g2p_en/words.tsv.gz 10,000 invented words with the token ids that g2p_en's own
                        arithmetic (float32, numpy) chooses for them
    g2p_en/golden.safetensors  encoder states, decoder states and logits of 4 words
    small/              a random model with other sizes, and outputs of torch.nn.GRUCell

The words are put together from syllables: what this model exists for are words
that no dictionary has. numpy and torch are as in requirements.txt.
"""

import gzip
import io
import json
import pathlib
import random
import sys
import zipfile

import numpy as np
import torch
from safetensors.numpy import save_file

GRAPHEMES = ["<pad>", "<unk>", "</s>"] + list("abcdefghijklmnopqrstuvwxyz")
START, END, PAD, MOST = 2, 3, 0, 20


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(v, side, x, h):
    """One step of the model in g2p_en: x [1, 256], h [1, 256], gates r, z, n."""
    i = x @ v[side + "_w_ih"].T + v[side + "_b_ih"]
    s = h @ v[side + "_w_hh"].T + v[side + "_b_hh"]
    w = h.shape[1]
    r = sigmoid(i[:, :w] + s[:, :w])
    z = sigmoid(i[:, w:2 * w] + s[:, w:2 * w])
    n = np.tanh(i[:, 2 * w:] + r * s[:, 2 * w:])
    return (1 - z) * n + z * h


def run(v, ids, end=END, most=MOST, start=START):
    h = np.zeros((1, v["enc_w_hh"].shape[1]), np.float32)
    encoder, decoder, logits, chosen = [], [], [], []
    for i in ids:
        h = cell(v, "enc", v["enc_emb"][i:i + 1], h)
        encoder.append(h[0])
    last = start
    for _ in range(most):
        h = cell(v, "dec", v["dec_emb"][last:last + 1], h)
        row = h @ v["fc_w"].T + v["fc_b"]
        last = int(row.argmax())
        decoder.append(h[0])
        logits.append(row[0])
        chosen.append(last)
        if last == end:
            break
    return [np.stack(a) for a in (encoder, decoder, logits)] + [chosen]


def words(count):
    rng = random.Random(20211129)
    onsets = ["", "b", "br", "c", "ch", "cl", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "kn", "l", "m", "n", "p", "ph", "pl", "pr",
              "qu", "r", "s", "sc", "sh", "sl", "sp", "st", "str", "t", "th", "tr", "v", "w", "wh", "y", "z"]
    nuclei = ["a", "ai", "au", "e", "ea", "ee", "i", "ie", "o", "oa", "oo", "ou", "u", "y"]
    codas = ["", "b", "ck", "ct", "d", "ff", "g", "ll", "lt", "m", "mp", "n", "nd", "ng", "nt", "p", "r", "rd", "rm", "s", "ss", "st", "t",
             "th", "x"]
    endings = ["", "", "", "ed", "er", "ing", "ism", "ist", "ize", "ly", "ness", "s", "tion"]
    seen = {}
    while len(seen) < count:
        word = "".join(rng.choice(onsets) + rng.choice(nuclei) + rng.choice(codas) for _ in range(rng.randint(1, 3))) + rng.choice(endings)
        seen[word] = None
    return list(seen)


def config(v, **more):
    return json.dumps({
        "model_type": "gru_seq2seq",
        "architectures": ["GRUForSeq2Seq"],
        "source_vocab_size": v["enc_emb"].shape[0],
        "target_vocab_size": v["dec_emb"].shape[0],
        "embedding_size": v["enc_emb"].shape[1],
        "hidden_size": v["enc_w_hh"].shape[1],
        "decoder_start_token_id": START,
        "eos_token_id": END,
        "pad_token_id": PAD,
        "max_new_tokens": MOST,
        "dtype": "float32",
        **more,
    }, indent=2) + "\n"


def trained(wheel, out):
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as z:
        v = dict(np.load(io.BytesIO(z.read("g2p_en/checkpoint20.npz"))))
        (out / "LICENSE").write_bytes(z.read("g2p_en-2.1.0.dist-info/LICENSE.txt"))
    save_file(v, out / "model.safetensors", {"format": "np"})
    (out / "config.json").write_text(config(v))
    lines, golden = [], {}
    for k, word in enumerate(words(10000)):
        ids = [GRAPHEMES.index(c) for c in word] + [2]
        encoder, decoder, logits, chosen = run(v, ids)
        lines.append(f"{word}\t{' '.join(map(str, chosen))}\n")
        if k < 4:
            golden |= {f"{k}.input_ids": np.array([ids], np.int64), f"{k}.sequences": np.array([chosen], np.int64),
                       f"{k}.encoder_hidden_states.0": encoder[None], f"{k}.decoder_hidden_states.0": decoder[None],
                       f"{k}.logits": logits[None]}
    (out / "words.tsv.gz").write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))
    save_file(golden, out / "golden.safetensors")


def small(out):
    """A random model of odd sizes; the reference is torch.nn.GRUCell."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    source, target, width, hidden = 11, 13, 24, 10
    v, cells = {}, {}
    for side, vocab in (("enc", source), ("dec", target)):
        c = cells[side] = torch.nn.GRUCell(width, hidden)
        v |= {f"{side}_emb": torch.randn(vocab, width), f"{side}_w_ih": c.weight_ih, f"{side}_w_hh": c.weight_hh,
              f"{side}_b_ih": c.bias_ih, f"{side}_b_hh": c.bias_hh}
    v |= {"fc_w": torch.randn(target, hidden), "fc_b": torch.randn(target)}
    plain = {k: t.detach().numpy() for k, t in v.items()}
    save_file(plain, out / "model.safetensors")
    (out / "config.json").write_text(config(plain))
    ids, given = torch.randint(source, (3, 5)), torch.randint(target, (3, 6))
    h, encoder, decoder = torch.zeros(3, hidden), [], []
    for t in range(ids.shape[1]):
        h = cells["enc"](v["enc_emb"][ids[:, t]], h)
        encoder.append(h)
    for t in range(given.shape[1]):
        h = cells["dec"](v["dec_emb"][given[:, t]], h)
        decoder.append(h)
    decoder = torch.stack(decoder, 1)
    logits = decoder @ v["fc_w"].T + v["fc_b"]
    golden = {"0.input_ids": ids, "0.decoder_input_ids": given, "0.encoder_hidden_states.0": torch.stack(encoder, 1),
              "0.decoder_hidden_states.0": decoder, "0.logits": logits}
    save_file({k: t.detach().numpy() for k, t in golden.items()}, out / "golden.safetensors")


if __name__ == "__main__":
    wheel, out = sys.argv[1], pathlib.Path(sys.argv[2])
    trained(wheel, out / "g2p_en")
    small(out / "small")
