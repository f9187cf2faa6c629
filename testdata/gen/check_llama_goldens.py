"""A second opinion on the llama goldens: the same outputs in numpy, float64.

The forward pass here is written from the formulas alone and shares nothing with
transformers, so a mistake in how a golden was made (a mask that was not applied, a
RoPE setting that was not read) shows. It prints the largest error of each case and
run, relative to the largest value of the tensor, and fails above 5e-6.
"""

import argparse
import json
import pathlib

import numpy as np
from safetensors.numpy import load_file


def frequencies(config):
    rope = config.get("rope_parameters")
    if rope is None:
        rope = dict(config.get("rope_scaling") or {"rope_type": "default"}, rope_theta=config["rope_theta"])
    dim = config["head_dim"]
    freq = 1 / rope["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    if rope["rope_type"] == "linear":
        return freq / rope["factor"]
    if rope["rope_type"] == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = rope["original_max_position_embeddings"] * freq / (2 * np.pi)
        keep = np.clip((turns - low) / (high - low), 0, 1)
        return freq * (keep + (1 - keep) / rope["factor"])
    assert rope["rope_type"] == "default", rope
    return freq


class Llama:
    def __init__(self, folder):
        self.c = json.loads((folder / "config.json").read_text())
        self.w = {k: v.astype(np.float64) for k, v in load_file(folder / "model.safetensors").items()}
        self.freq = frequencies(self.c)

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"]) * self.w[name + ".weight"]

    def rotate(self, x, pos):
        angle = (pos[..., None] * self.freq)[:, None]
        a, b = np.split(x, 2, axis=-1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, ids, mask, pos):
        heads, groups = self.c["num_attention_heads"], self.c["num_key_value_heads"]
        rows, width = ids.shape
        if pos is None:
            pos = np.broadcast_to(np.arange(width), ids.shape)
        sees = np.tril(np.ones((width, width), bool))[None, None]
        if mask is not None:
            sees = sees & mask.astype(bool)[:, None, None]
        x = self.w["model.embed_tokens.weight"][ids]
        hidden, attentions = [x], []
        for i in range(self.c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            h = self.norm(x, layer + "input_layernorm")
            q, k, v = (
                self.linear(h, f"{layer}self_attn.{n}_proj")
                .reshape(rows, width, -1, self.c["head_dim"]).transpose(0, 2, 1, 3)
                for n in "qkv"
            )
            q, k = self.rotate(q, pos), self.rotate(k, pos)
            k, v = (np.repeat(t, heads // groups, axis=1) for t in (k, v))
            score = np.where(sees, q @ k.swapaxes(2, 3) / np.sqrt(self.c["head_dim"]), -1e300)
            e = np.exp(score - score.max(-1, keepdims=True))
            p = e / e.sum(-1, keepdims=True)
            attentions.append(p)
            x = x + self.linear((p @ v).transpose(0, 2, 1, 3).reshape(rows, width, -1), layer + "self_attn.o_proj")
            h = self.norm(x, layer + "post_attention_layernorm")
            gate = self.linear(h, layer + "mlp.gate_proj")
            x = x + self.linear(gate / (1 + np.exp(-gate)) * self.linear(h, layer + "mlp.up_proj"), layer + "mlp.down_proj")
            hidden.append(x)
        hidden[-1] = self.norm(x, "model.norm")
        head = self.w.get("lm_head.weight", self.w["model.embed_tokens.weight"])
        return hidden[-1] @ head.T, hidden, attentions


def generated(model, g, run):
    ids, mask, want = g[run + ".input_ids"], g[run + ".attention_mask"], g[run + ".output_ids"]
    eos = g[run + ".eos_token_id"][0] if run + ".eos_token_id" in g else -1
    prompt, ended = ids.shape[1], np.zeros(len(ids), bool)
    while ids.shape[1] < prompt + 12 and not ended.all():
        pos = np.maximum(mask.cumsum(1) - 1, 0)
        best = model.forward(ids, mask, pos)[0][:, -1].argmax(-1)
        best = np.where(ended, 0, best)
        ended |= best == eos
        ids = np.concatenate([ids, best[:, None]], 1)
        mask = np.concatenate([mask, np.ones_like(mask[:, :1])], 1)
    assert np.array_equal(ids, want), f"{run}: {ids.tolist()}, golden {want.tolist()}"


def compare(model, g, run):
    ids, mask = g[run + ".input_ids"], g.get(run + ".attention_mask")
    valid = g.get(run + ".valid", np.ones_like(ids)).astype(bool)
    logits, hidden, attentions = model.forward(ids, mask, g.get(run + ".position_ids"))
    pairs = [(g[run + ".logits"], logits)]
    pairs += [(g[f"{run}.hidden_states.{i}"], h) for i, h in enumerate(hidden) if f"{run}.hidden_states.{i}" in g]
    for i, p in enumerate(attentions):
        if f"{run}.attentions.{i}" in g:
            got = g[f"{run}.attentions.{i}"]
            # Rows first, as valid counts them.
            pairs.append((got.transpose(0, 2, 1, 3), p.transpose(0, 2, 1, 3)))
            assert not got.transpose(0, 2, 1, 3)[valid][p.transpose(0, 2, 1, 3)[valid] == 0].any(), f"{run}: a hidden key has weight"
    if run + ".prefill.logits" in g:
        steps = [g[f"{run}.step.{k}.logits"] for k in range(ids.shape[1] - 5)]
        pairs.append((np.concatenate([g[run + ".prefill.logits"], *steps], 1), logits))
    return max(np.abs(a[valid] - b[valid]).max() / np.abs(b[valid]).max() for a, b in pairs)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--golden", required=True, help="architectures/llama/testdata/golden")
    p.add_argument("--demo", help="folder of the trained model; checks the case demo")
    a = p.parse_args()
    root = pathlib.Path(a.golden)
    for case in sorted(d for d in root.iterdir() if d.is_dir()):
        folder = case
        if case.name == "demo":
            if not a.demo:
                continue
            folder = pathlib.Path(a.demo)
        model, g = Llama(folder), load_file(case / "golden.safetensors")
        worst = {}
        for run in sorted({name.split(".")[0] for name in g}):
            if run.startswith("generate"):
                generated(model, g, run)
            else:
                worst[run] = compare(model, g, run)
        print(f"{case.name}: " + ", ".join(f"{r} {e:.1e}" for r, e in worst.items()) + "; generated ids equal")
        assert max(worst.values()) < 5e-6, case.name


if __name__ == "__main__":
    main()
