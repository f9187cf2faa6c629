"""A GGUF file of the shape "llama" of ../main.go with random weights, for bench.cpp.

    pip install gguf
    python convert.py llama.gguf [--type BF16] [--checkpoint model.safetensors]

With --checkpoint, the tensors of a Llama checkpoint of that shape instead.
"""

import argparse

import gguf
import numpy as np

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("out")
p.add_argument("--type", choices=["F32", "BF16"], default="F32")
p.add_argument("--checkpoint")
a = p.parse_args()
VOCAB, HIDDEN, MLP, LAYERS, HEADS = 84, 512, 1024, 12, 8

w = gguf.GGUFWriter(a.out, "llama")
w.add_block_count(LAYERS)
w.add_context_length(2048)
w.add_embedding_length(HIDDEN)
w.add_feed_forward_length(MLP)
w.add_head_count(HEADS)
w.add_head_count_kv(HEADS)
w.add_layer_norm_rms_eps(1e-6)
w.add_rope_dimension_count(HIDDEN // HEADS)
w.add_rope_freq_base(10000.0)
w.add_vocab_size(VOCAB)
w.add_tokenizer_model("no_vocab")

stored = None
if a.checkpoint:
    from safetensors.numpy import load_file

    stored = load_file(a.checkpoint)
rng = np.random.default_rng(0)


def turned(m):
    """llama.cpp rotates neighbouring elements of a head, checkpoints its halves."""
    return m.reshape(HEADS, 2, HIDDEN // HEADS // 2, HIDDEN).swapaxes(1, 2).reshape(m.shape)


def add(name, source, *shape):
    if stored is not None:
        v = stored[source].astype(np.float32)
        assert v.shape == shape, (source, v.shape, shape)
        v = turned(v) if source.endswith(("q_proj.weight", "k_proj.weight")) else v
    else:
        v = np.ones(shape, np.float32) if len(shape) == 1 else rng.normal(0, 0.02, shape).astype(np.float32)
    if a.type == "BF16" and len(shape) == 2:
        t = gguf.GGMLQuantizationType.BF16
        w.add_tensor(name, gguf.quants.quantize(v, t), raw_dtype=t)
    else:
        w.add_tensor(name, v)


add("token_embd.weight", "model.embed_tokens.weight", VOCAB, HIDDEN)
for i in range(LAYERS):
    at, to = f"model.layers.{i}.", f"blk.{i}."
    add(to + "attn_norm.weight", at + "input_layernorm.weight", HIDDEN)
    for x in "qkv":
        add(f"{to}attn_{x}.weight", f"{at}self_attn.{x}_proj.weight", HIDDEN, HIDDEN)
    add(to + "attn_output.weight", at + "self_attn.o_proj.weight", HIDDEN, HIDDEN)
    add(to + "ffn_norm.weight", at + "post_attention_layernorm.weight", HIDDEN)
    add(to + "ffn_gate.weight", at + "mlp.gate_proj.weight", MLP, HIDDEN)
    add(to + "ffn_up.weight", at + "mlp.up_proj.weight", MLP, HIDDEN)
    add(to + "ffn_down.weight", at + "mlp.down_proj.weight", HIDDEN, MLP)
add("output_norm.weight", "model.norm.weight", HIDDEN)
add("output.weight", "lm_head.weight", VOCAB, HIDDEN)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
