"""Makes pairs of related checkpoints by real training, to measure differences.

    pairs.py CACHE/sets/minilm-f32.safetensors OUT

trains all-MiniLM-L6-v2 (the set that ../codec/fetch.sh makes) on with torch's AdamW (learning rate 2e-5, weight
decay 0.01, batches of 16 sequences of 64 tokens, contrastive loss between two passes with dropout, as SimCSE) and
writes its weights after 1, 10 and 100 steps; and merged LoRA adapters (rank 8, query and value projections, learning
rate 1e-4, 100 steps). Each is written as F32 and, from the same master copy, as F16 and BF16:
OUT/base-TYPE.safetensors and OUT/NAME-TYPE.safetensors. Tokens are drawn from a Zipf distribution, since no text is
needed for steps of the right size. Needs torch, transformers and safetensors; takes a few minutes on two cores.
"""

import copy
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

SEED = 20261129
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def model(weights):
    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    m = BertModel(config, add_pooling_layer=any(k.startswith("pooler") for k in weights))
    missing, unexpected = m.load_state_dict(weights, strict=False)
    if [k for k in missing if "position_ids" not in k] or [k for k in unexpected if "position_ids" not in k]:
        raise SystemExit(f"the weights do not fit: missing {missing}, unexpected {unexpected}")
    return m.train()


def batch(generator):
    weights = 1 / torch.arange(1, 30000, dtype=torch.float64)
    return 1 + torch.multinomial(weights, 16 * 64, replacement=True, generator=generator).reshape(16, 64)


def loss(m, tokens):
    def embed():
        return torch.nn.functional.normalize(m(tokens).last_hidden_state.mean(1), dim=1)

    return torch.nn.functional.cross_entropy(embed() @ embed().T / 0.05, torch.arange(len(tokens)))


def train(m, params, rate, steps, after):
    generator = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.AdamW(params, lr=rate, weight_decay=0.01)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        value = loss(m, batch(generator))
        value.backward()
        optimizer.step()
        after(step, value.item())


class Lora(torch.nn.Module):
    """A linear layer with an adapter of rank 8, alpha 16."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.a = torch.nn.Parameter(torch.randn(8, inner.in_features) / inner.in_features**0.5)
        self.b = torch.nn.Parameter(torch.zeros(inner.out_features, 8))

    def forward(self, x):
        return self.inner(x) + 2 * (x @ self.a.T @ self.b.T)

    def merged(self):
        return self.inner.weight + 2 * self.b @ self.a


def main():
    source, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    weights = load_file(source)

    def write(name, state):
        for suffix, dtype in TYPES.items():
            # In the order of the source, other tensors as they are.
            tensors = {k: state.get(k, v).detach().to(dtype).contiguous() for k, v in weights.items() if v.is_floating_point()}
            save_file(tensors, out / f"{name}-{suffix}.safetensors", metadata={"format": "pt"})

    write("base", weights)
    torch.manual_seed(SEED)
    m = model(weights)

    def after(step, value):
        if step in (1, 10, 100):
            print(f"adamw {step}: loss {value:.4f}", flush=True)
            write(f"adamw{step}", m.state_dict())

    train(m, m.parameters(), 2e-5, 100, after)

    torch.manual_seed(SEED)
    m = model(copy.deepcopy(weights)).requires_grad_(False)
    adapters = {}
    for i, layer in enumerate(m.encoder.layer):
        attention = layer.attention.self
        for which in ("query", "value"):
            adapter = Lora(getattr(attention, which))
            setattr(attention, which, adapter)
            adapters[f"encoder.layer.{i}.attention.self.{which}.weight"] = adapter
    train(m, [p for a in adapters.values() for p in (a.a, a.b)], 1e-4, 100, lambda step, value: None)
    write("lora100", weights | {k: a.merged() for k, a in adapters.items()})


main()
