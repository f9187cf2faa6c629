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
        "rewrite", "config", "model", "base", "prepare", "finish", "left"}

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

GPT2 = dict(vocab_size=19, n_positions=24, n_embd=24, n_layer=2, n_head=3, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def edit_tensors(folder, change):
    """Rewrites model.safetensors; change maps a dict of tensors to another."""
    path = folder / "model.safetensors"
    tensors = change(safetensors.torch.load_file(path))
    safetensors.torch.save_file({k: v.clone().contiguous() for k, v in tensors.items()}, path, metadata={"format": "pt"})


def edit_config(folder, change):
    path = folder / "config.json"
    c = json.loads(path.read_text())
    change(c)
    path.write_text(json.dumps(c, indent=2, sort_keys=True) + "\n")


def old_gpt2(folder):
    """The names of the first GPT-2 checkpoints, with the masks that they carry."""
    def change(tensors):
        out = {k.removeprefix("transformer."): v for k, v in tensors.items()}
        for i in range(GPT2["n_layer"]):
            out[f"h.{i}.attn.bias"] = torch.tril(torch.ones(24, 24)).view(1, 1, 24, 24)
        return out
    edit_tensors(folder, change)
    edit_config(folder, lambda c: (c.pop("dtype"), c.pop("tie_word_embeddings", None), c.update(n_ctx=24)))


CASES["gpt2"] = family(tf.GPT2Config, tf.GPT2LMHeadModel, "causal", GPT2, {
    "plain": {},
    "old_names": {"n_inner": 40, "rewrite": old_gpt2},
    "untied": {"tie_word_embeddings": False, "activation_function": "relu"},
    "scales": {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False, "n_layer": 3},
    "bf16": {"dtype": BF16},
    "bf16_upcast": {"dtype": BF16, "reorder_and_upcast_attn": True, "activation_function": "gelu"},
    "f16": {"dtype": F16},
})

NEOX = dict(vocab_size=19, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
            max_position_embeddings=32, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def old_neox(folder):
    def change(c):
        p = c.pop("rope_parameters")
        c["rotary_pct"], c["rotary_emb_base"] = p["partial_rotary_factor"], p["rope_theta"]
        c["torch_dtype"] = c.pop("dtype")
        if p["rope_type"] != "default":
            c["rope_scaling"] = {"type": p["rope_type"], "factor": p["factor"]}
    edit_config(folder, change)
    def masks(t):
        for i in range(NEOX["num_hidden_layers"]):
            t[f"gpt_neox.layers.{i}.attention.bias"] = torch.tril(torch.ones(32, 32, dtype=torch.bool)).view(1, 1, 32, 32)
            t[f"gpt_neox.layers.{i}.attention.masked_bias"] = torch.tensor(-1e9)
        return t
    edit_tensors(folder, masks)


CASES["gpt_neox"] = family(tf.GPTNeoXConfig, tf.GPTNeoXForCausalLM, "causal", NEOX, {
    "plain": {},
    "serial": {"use_parallel_residual": False, "hidden_act": "gelu_new",
               "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 1.0}},
    "old_keys": {"rewrite": old_neox, "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0,
                                                           "partial_rotary_factor": 0.5}},
    "tied": {"tie_word_embeddings": True, "attention_bias": False},
    "bf16": {"dtype": BF16},
    "f16": {"dtype": F16},
})

PROGEN = dict(vocab_size=19, n_positions=32, n_ctx=32, n_embd=32, n_layer=2, n_head=8, rotary_dim=4, n_inner=None,
              bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)


def progen(variant):
    """CodeGen computes what ProGen does, with 4 groups in the fused projection where ProGen has 8."""
    def regroup(w, n=4, to=8):
        d = w.shape[1]
        parts = w.view(n, 3, d // n, d).transpose(0, 1).reshape(3, d, d)  # q, v, k, heads in order
        return parts.view(3, to, d // to, d).transpose(0, 1).reshape(3 * d, d)

    def rewrite(folder):
        def change(tensors):
            out = {k: regroup(v) if k.endswith("qkv_proj.weight") else v for k, v in tensors.items()}
            if variant == "stored_masks":
                for i in range(PROGEN["n_layer"]):
                    out[f"transformer.h.{i}.attn.bias"] = torch.tril(torch.ones(32, 32, dtype=torch.bool)).view(1, 1, 32, 32)
                    out[f"transformer.h.{i}.attn.masked_bias"] = torch.tensor(-1e9)
            return out
        edit_tensors(folder, change)
        def config(c):
            c["model_type"], c["architectures"] = "progen", ["ProGenForCausalLM"]
            if variant == "hub_keys":
                c["embed_dim"] = c.pop("n_embd")
                c["vocab_size_emb"] = c["vocab_size_lm_head"] = c.pop("vocab_size")
                c["auto_map"] = {"AutoConfig": "configuration_progen.ProGenConfig",
                                 "AutoModelForCausalLM": "modeling_progen.ProGenForCausalLM"}
        edit_config(folder, config)
    return rewrite


def unrounded_codegen():
    """ProGen's queries and keys stay in float32 after they rotated; CodeGen's are rounded."""
    import inspect

    from transformers.models.codegen import modeling_codegen as m

    source = inspect.getsource(m.CodeGenAttention.forward)
    for name in ("query", "key"):
        line = f"{name} = {name}.transpose(1, 2).to(value.dtype)"
        assert line in source
        source = source.replace(line, f"{name} = {name}.transpose(1, 2)")
    space = {}
    exec(inspect.cleandoc("class Holder:\n") + "\n" + source, m.__dict__, space)
    m.CodeGenAttention.forward = space["Holder"].forward


def wide_logits(out):
    """ProGen casts logits to float32."""
    return {k: v.float() if k.endswith("logits") else v for k, v in out.items()}


unrounded_codegen()
CASES["progen"] = family(tf.CodeGenConfig, tf.CodeGenForCausalLM, "causal", PROGEN, {
    "plain": {"rewrite": progen("plain")},
    "hub_keys": {"n_layer": 1, "rewrite": progen("hub_keys")},
    "stored_masks": {"n_inner": 40, "rewrite": progen("stored_masks")},
    "f16": {"dtype": F16, "rewrite": progen("plain")},
    "bf16": {"dtype": BF16, "rewrite": progen("plain")},
}, positions=False, finish=wide_logits)

BERT = dict(vocab_size=19, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
            max_position_embeddings=16, type_vocab_size=2, pad_token_id=0)
pooled = {"model": tf.BertModel, "first": "last_hidden_state", "also": ("pooler_output",)}


def old_bert(folder):
    """The names of the first BERT checkpoints, with the heads of pretraining."""
    def change(t):
        out = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in t.items()}
        d = BERT["hidden_size"]
        for name, shape in {"bert.pooler.dense.weight": (d, d), "bert.pooler.dense.bias": (d,),
                            "cls.seq_relationship.weight": (2, d), "cls.seq_relationship.bias": (2,)}.items():
            out[name] = torch.ones(shape)
        out["bert.embeddings.position_ids"] = torch.arange(16).view(1, 16)
        return out
    edit_tensors(folder, change)
    edit_config(folder, lambda c: (c.pop("dtype"), c.pop("tie_word_embeddings", None), c.update(position_embedding_type="absolute")))


CASES["bert"] = family(tf.BertConfig, tf.BertForMaskedLM, "encoder", BERT, {
    "model": {**pooled},
    "masked_lm": {},
    "old_names": {"hidden_act": "gelu_new", "rewrite": old_bert},
    "relu": {**pooled, "hidden_act": "relu", "layer_norm_eps": 1e-5, "type_vocab_size": 3, "hidden_size": 32, "num_attention_heads": 4},
    "bf16": {"dtype": BF16},
    "f16": {**pooled, "dtype": F16},
}, types=True)

ESM = dict(vocab_size=19, mask_token_id=18, pad_token_id=1, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
           intermediate_size=40, max_position_embeddings=20, layer_norm_eps=1e-5, position_embedding_type="rotary",
           token_dropout=True, emb_layer_norm_before=False)


def old_esm(folder):
    """The names of the published checkpoints: frequencies in every layer, once rounded to F16, positions that nothing reads."""
    def change(t):
        t = {k.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): v
             for k, v in t.items() if "inv_freq" not in k}
        freq = (1.0 / (10000.0 ** (torch.arange(0, 8, 2, dtype=torch.float) / 8)) + 1e-3).half().float()
        for i in range(ESM["num_hidden_layers"]):
            t[f"esm.encoder.layer.{i}.attention.self.rotary_embeddings.inv_freq"] = freq
        t["esm.embeddings.position_embeddings.weight"] = torch.ones(20, 24)
        t["esm.embeddings.position_ids"] = torch.arange(20).view(1, 20)
        return t
    edit_tensors(folder, change)


CASES["esm"] = family(tf.EsmConfig, tf.EsmForMaskedLM, "encoder", ESM, {
    "plain": {},
    "old_names": {"prepare": old_esm},
    "no_dropout": {"token_dropout": False},
    "untied": {"tie_word_embeddings": False, "hidden_size": 32, "num_attention_heads": 2},
    "classifier": {"model": tf.EsmForSequenceClassification, "num_labels": 3, "left": False},
    "two_labels": {"model": tf.EsmForSequenceClassification, "left": False, "prepare": old_esm},
    "bf16": {"dtype": BF16},
    "f16": {"dtype": F16},
}, mask_token=18, pad=1, ids=(2, 18))

def untie(folder):
    """A head of its own, as ByT5 and T5 1.1 have, with the configuration that says so."""
    g = torch.Generator().manual_seed(7)
    edit_tensors(folder, lambda t: {**t, "lm_head.weight": 0.3 * torch.randn(t["shared.weight"].shape, generator=g)})
    def config(c):
        c.pop("scale_decoder_outputs", None)
        c["tie_word_embeddings"] = False
    edit_config(folder, config)


T5 = dict(vocab_size=21, d_model=20, d_kv=6, d_ff=32, num_layers=2, num_decoder_layers=2, num_heads=3,
          relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=0,
          pad_token_id=0, eos_token_id=1)
GATED = {"feed_forward_proj": "gated-gelu"}


CASES["t5"] = family(tf.T5Config, tf.T5ForConditionalGeneration, "seq2seq", T5, {
    "plain": {},
    "byt5": {**GATED, "num_layers": 3, "num_decoder_layers": 1, "prepare": untie},
    "gated_silu": {"feed_forward_proj": "gated-silu", "layer_norm_epsilon": 1e-5, "relative_attention_num_buckets": 32,
                   "relative_attention_max_distance": 128},
    "bf16": {**GATED, "dtype": BF16},
    "f16": {**GATED, "dtype": F16},
    "f16_plain": {"dtype": F16, "num_layers": 3},
    "encoder": {**GATED, "model": tf.T5EncoderModel, "first": "last_hidden_state", "positions": False},
}, ids=(2, 21))
CASES["t5"]["encoder"]["runs"] = "encoder"
