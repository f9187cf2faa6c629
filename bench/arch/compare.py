"""Tokens per second of this project's CPU device and of PyTorch, in turns.

    go build -o bench/arch/arch ./bench/arch
    python bench/arch/compare.py --models llama esm --threads 1 [--llamacpp DIR]

DIR holds llama.cpp's program and models for the shape llama; see llamacpp/.

Shapes are those of main.go, weights random, attention PyTorch's default
(scaled_dot_product_attention). Each side's best of all turns is kept.
"""

import argparse
import os
import pathlib
import subprocess
import time

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("--binary", default=str(pathlib.Path(__file__).parent / "arch"))
p.add_argument("--models", nargs="+", default=["llama", "esm", "minilm", "byt5"])
p.add_argument("--threads", type=int, default=1)
p.add_argument("--turns", type=int, default=2)
p.add_argument("--seconds", type=float, default=2)
p.add_argument("--llamacpp", help="folder with bench, llama-F32.gguf and llama-BF16.gguf")
a = p.parse_args()
os.environ["OMP_NUM_THREADS"] = str(a.threads)

import torch
import transformers as tf

torch.set_num_threads(a.threads)
tf.logging.set_verbosity_error()
LENGTH, BEHIND, STEPS = 128, 64, 32

LLAMA = dict(vocab_size=84, hidden_size=512, intermediate_size=1024, num_hidden_layers=12, num_attention_heads=8)
MODELS = {
    "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**LLAMA)),
    "llama-bf16": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**LLAMA)).to(torch.bfloat16),
    "esm": lambda: tf.EsmForMaskedLM(tf.EsmConfig(
        vocab_size=33, hidden_size=320, intermediate_size=1280, num_hidden_layers=6, num_attention_heads=20,
        token_dropout=True, mask_token_id=32, pad_token_id=1, position_embedding_type="rotary")),
    "minilm": lambda: tf.BertModel(tf.BertConfig(
        vocab_size=30522, hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12)),
    "byt5": lambda: tf.T5ForConditionalGeneration(tf.T5Config(
        vocab_size=384, d_model=1472, d_kv=64, d_ff=3584, num_layers=12, num_decoder_layers=4, num_heads=6,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0)),
}


def best(tokens, f):
    times, end = [], time.perf_counter() + a.seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return tokens / min(times)


@torch.inference_mode()
def reference(name, model):
    ids = torch.tensor([[2 + 7 * i % 30 for i in range(LENGTH)]])
    if name == "byt5":
        start = torch.zeros(1, 1, dtype=torch.long)
        out = {"prefill": best(LENGTH, lambda: model(input_ids=ids, decoder_input_ids=start, use_cache=False))}
        encoded = model.encoder(input_ids=ids[:, :BEHIND])

        def write():
            cache = None
            for _ in range(STEPS):
                cache = model(encoder_outputs=encoded, decoder_input_ids=start, cache=cache, use_cache=True).cache

        out["decode"] = best(STEPS, write)
        return out
    extra = {"use_cache": False} if "llama" in name else {}
    out = {"prefill": best(LENGTH, lambda: model(ids, **extra))}
    if "llama" in name:
        def write():
            cache = model(ids[:, :BEHIND], use_cache=True).cache
            start = time.perf_counter()
            for _ in range(STEPS):
                model(ids[:, :1], cache=cache, use_cache=True)
            return time.perf_counter() - start

        out["decode"] = STEPS / min(write() for _ in range(max(5, int(a.seconds * 5))))
    return out


def figures(*command):
    r = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "GOMAXPROCS": str(a.threads)})
    return {k: float(v) for k, v in (line.split() for line in r.stdout.splitlines())}


def ours(name):
    return figures(a.binary, "-model", name, "-threads", str(a.threads), "-seconds", str(a.seconds))


def llamacpp(name):
    if not a.llamacpp or name not in ("llama", "llama-bf16"):
        return {}
    gguf = f"{a.llamacpp}/llama-{'BF16' if name == 'llama-bf16' else 'F32'}.gguf"
    return figures(f"{a.llamacpp}/bench", gguf, str(a.threads), str(a.seconds))


for name in a.models:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    mine, theirs, third = {}, {}, {}
    for _ in range(a.turns):
        for got, all_ in ((ours(name), mine), (reference(name, model), theirs), (llamacpp(name), third)):
            for k, v in got.items():
                all_[k] = max(all_.get(k, 0), v)
    for k in mine:
        print(f"{name} {a.threads} thread{'s' * (a.threads > 1)} {k}: {mine[k]:.0f} tokens/s, PyTorch {theirs[k]:.0f}, ratio {mine[k] / theirs[k]:.2f}"
              + (f", llama.cpp {third[k]:.0f}, ratio {mine[k] / third[k]:.2f}" if third else ""), flush=True)
