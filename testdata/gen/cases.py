"""The cases of make_goldens.py: one entry for each setting that changes a computation."""

import json

import safetensors.torch
import torch
import transformers as tf

BF16, F16 = torch.bfloat16, torch.float16


def family(config, model, runs, base, cases, **common):
    out = {}
    for name, case in cases.items():
        case = dict(case)
        extra = {k: case.pop(k) for k in list(case) if k in KEYS}
        extra = {**common, **extra}
        out[name] = {"config": extra.pop("config", config), "model": extra.pop("model", model), "runs": runs,
                     "settings": {**extra.pop("base", base), **case}, **extra}
    return out


KEYS = {"dtype", "positions", "long", "cache", "generate", "first", "also", "types", "mask_token", "pad", "ids",
        "rewrite", "config", "model", "base"}

LLAMA = dict(
    vocab_size=19, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-6,
    tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
)


def rope(**settings):
    return {"rope_parameters": {"rope_theta": 10000.0, **settings}}


llama = {"config": tf.LlamaConfig, "model": tf.LlamaForCausalLM}
mistral = {"config": tf.MistralConfig, "model": tf.MistralForCausalLM}
qwen2 = {"config": tf.Qwen2Config, "model": tf.Qwen2ForCausalLM}
qwen3 = {"config": tf.Qwen3Config, "model": tf.Qwen3ForCausalLM, "head_dim": 12}

CASES = {
    "llama": family(None, None, "causal", LLAMA, {
        "bf16": {**llama, "dtype": BF16},
        "f16": {**llama, "dtype": F16},
        "bf16_bias": {**llama, "dtype": BF16, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True,
                      "hidden_act": "gelu_new"},
        "mistral": {**mistral, "sliding_window": 4, "long": 20},
        "mistral_full": {**mistral, "sliding_window": None, "head_dim": 6},
        "qwen2": {**qwen2},
        "qwen2_window": {**qwen2, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1, "long": 12},
        "qwen2_bf16": {**qwen2, "dtype": BF16, "tie_word_embeddings": True},
        "qwen3": {**qwen3},
        "qwen3_bias": {**qwen3, "attention_bias": True, "use_sliding_window": True, "sliding_window": 3,
                       "layer_types": ["sliding_attention", "full_attention"], "long": 12},
        "qwen3_bf16": {**qwen3, "dtype": BF16},
        "dynamic_rope": {**llama, **rope(rope_type="dynamic", factor=4.0), "max_position_embeddings": 12, "long": 30,
                         "cache": 16, "generate": False},
        "yarn_rope": {**qwen2, **rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=8), "long": 30},
        "yarn_set": {**llama, **rope(rope_type="yarn", factor=8.0, original_max_position_embeddings=64, beta_fast=4.0,
                                     beta_slow=0.5, mscale=0.7, mscale_all_dim=1.0, truncate=False), "head_dim": 16, "long": 30},
        "long_rope": {**llama, **rope(rope_type="longrope", factor=2.0, original_max_position_embeddings=16,
                                      short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[1.0, 3.0, 5.0, 9.0]), "long": 30},
        "bf16_yarn": {**llama, **rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=8), "dtype": BF16},
    }),
}
