"""Writes the headers of published models as text, one file per model.

Two sources. Where diffusers or transformers has the class, it is built without
memory (device "meta") with the published settings, and its state dict gives
names and shapes. Families that live outside those libraries are listed by hand
below, from their own code. No weights are read or downloaded.

    pip install torch==2.15.0 transformers==5.24.0 diffusers==0.42.1
    python models.py ../models

The format is read by internal/headers: a line "config PATH JSON" or "none",
"file PATH", and for each group of tensors "DTYPE [SHAPE] NAME", where {a-b}
stands for the numbers from a to b.
"""

import json
import math
import pathlib
import re
import sys

import diffusers
import torch
import transformers

OUT = pathlib.Path(sys.argv[1])
DTYPES = {torch.float32: "F32", torch.bool: "BOOL", torch.uint8: "U8", torch.int64: "I64"}


def ranges(numbers):
    numbers, out = sorted(numbers), []
    while numbers:
        n = 1
        while n < len(numbers) and numbers[n] == numbers[0] + n:
            n += 1
        out.append(str(numbers[0]) if n == 1 else f"{numbers[0]}-{numbers[n - 1]}")
        numbers = numbers[n:]
    return ",".join(out)


def write(name, tensors, config, config_path="config.json", file="model.safetensors"):
    """tensors is a list of (name, dtype, shape)."""
    groups = {}
    for tensor, dtype, shape in tensors:
        m = re.search(r"(?<=\.)\d+(?=\.|$)", tensor)
        if m is None:
            groups[(tensor, "", dtype, tuple(shape))] = None
            continue
        key = (tensor[: m.start()], tensor[m.end() :], dtype, tuple(shape))
        groups.setdefault(key, []).append(int(m.group()))
    lines = ["config none" if config is None else f"config {config_path} {json.dumps(config, separators=(',', ':'))}", f"file {file}"]
    for (before, after, dtype, shape), numbers in groups.items():
        if numbers is None:
            n = before
        elif len(numbers) == 1:
            n = f"{before}{numbers[0]}{after}"
        else:
            n = f"{before}{{{ranges(numbers)}}}{after}"
        lines.append(f"{dtype} [{','.join(map(str, shape))}] {n}")
    (OUT / f"{name}.txt").write_text("\n".join(lines) + "\n")
    total = sum(math.prod(s) for _, _, s in tensors)
    print(f"{name}: {len(tensors)} tensors, {total:,} values")


def state(module, dtype, skip=()):
    """Names and shapes of a module; floats are stored as dtype. A tensor of two
    names is listed once, as safetensors does."""
    out, seen = [], set()
    rename = {"lm_head.weight": "embed_out.weight"} if type(module).__name__ == "GPTNeoXForCausalLM" else {}  # as files have it
    names = dict(module.named_parameters(remove_duplicate=True)).keys() | dict(module.named_buffers()).keys()
    for name, t in module.state_dict().items():
        if name not in names or name in skip or id(t) in seen:
            continue
        seen.add(id(t))
        out.append((rename.get(name, name), dtype if t.dtype.is_floating_point else DTYPES[t.dtype], list(t.shape)))
    return out


def diffuser(name, cls, dtype="BF16", folder="transformer", drop=(), **settings):
    with torch.device("meta"):
        module = getattr(diffusers, cls)(**settings)
    config = {"_class_name": cls} | {k: v for k, v in dict(module.config).items() if not k.startswith("_") and isinstance(v, (int, float, str, bool, type(None)))}
    sep = f"{folder}/" if folder else ""
    write(name, state(module, dtype), config, f"{sep}config.json", f"{sep}diffusion_pytorch_model.safetensors")


def transformer(name, cls, config, dtype="F32", extra=(), **more):
    with torch.device("meta"):
        module = getattr(transformers, cls)(config)
    text = json.loads(config.to_json_string(use_diff=False))
    keep = {k: v for k, v in text.items() if isinstance(v, (int, float, str, bool)) and not isinstance(v, bool) or k in ("tie_word_embeddings", "emb_layer_norm_before", "gated", "is_gated_act", "use_parallel_residual", "parallel_attn", "new_decoder_architecture", "alibi", "attention_bias", "mlp_bias", "multi_query")}
    keep = {k: v for k, v in keep.items() if k not in ("transformers_version", "_name_or_path", "dtype")} | {"architectures": [cls], "torch_dtype": {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[dtype]}
    write(name, state(module, dtype) + list(extra), keep | more)


class Hand:
    """Lists tensors by hand."""

    def __init__(self, dtype="F32"):
        self.dtype, self.tensors = dtype, []

    def t(self, name, *shape, dtype=None):
        self.tensors.append((name, dtype or self.dtype, list(shape)))

    def linear(self, name, i, o, bias=True):
        self.t(name + ".weight", o, i)
        if bias:
            self.t(name + ".bias", o)

    def norm(self, name, d, bias=True):
        self.t(name + ".weight", d)
        if bias:
            self.t(name + ".bias", d)


# ---------------------------------------------------------------- timesteps

def diffusion():
    diffuser("qwen-image", "QwenImageTransformer2DModel")
    diffuser("auraflow-v0.3", "AuraFlowTransformer2DModel")
    diffuser("hunyuanvideo-1.5", "HunyuanVideo15Transformer3DModel")
    diffuser("longcat-image", "LongCatImageTransformer2DModel", num_layers=10, num_single_layers=20)
    diffuser("hunyuanimage-2.1", "HunyuanImageTransformer2DModel")
    diffuser("bria-fibo", "BriaFiboTransformer2DModel", num_layers=8, num_single_layers=38)
    diffuser("prx", "PRXTransformer2DModel")
    diffuser("ovis-image", "OvisImageTransformer2DModel")
    diffuser("cogvideox-2b", "CogVideoXTransformer3DModel", dtype="F16")
    diffuser("cogvideox-5b", "CogVideoXTransformer3DModel", num_attention_heads=48, num_layers=42, use_rotary_positional_embeddings=True)
    diffuser("lumina-image-2", "Lumina2Transformer2DModel", cap_feat_dim=2304)
    for name, heads, layers in (("2b", 16, 28), ("14b", 40, 36)):
        diffuser(f"cosmos-predict2-{name}", "CosmosTransformer3DModel", num_attention_heads=heads, num_layers=layers, extra_pos_embed_type=None)
    diffuser("cogview4-defaults", "CogView4Transformer2DModel")
    diffuser("cogview4-6b", "CogView4Transformer2DModel", num_attention_heads=32, attention_head_dim=128, num_layers=28)
    diffuser("glm-image", "GlmImageTransformer2DModel")
    diffuser("chroma1-hd", "ChromaTransformer2DModel")
    diffuser("z-image-turbo", "ZImageTransformer2DModel")
    diffuser("pixart-sigma", "PixArtTransformer2DModel", caption_channels=4096, use_additional_conditions=False)
    diffuser("wan2.1-1.3b", "WanTransformer3DModel", num_attention_heads=12, num_layers=30, ffn_dim=8960)
    diffuser("wan2.1-14b", "WanTransformer3DModel")
    diffuser("sd1.5-unet", "UNet2DConditionModel", dtype="F16", folder="unet", sample_size=64, cross_attention_dim=768)
    diffuser("ddpm-cifar10-32", "UNet2DModel", dtype="F32", folder="", sample_size=32, block_out_channels=(128, 256, 256, 256),
             down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"),
             up_block_types=("UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
             attention_head_dim=None, downsample_padding=0, flip_sin_to_cos=False, freq_shift=1, norm_eps=1e-6)
    diffuser("dit-xl-2", "DiTTransformer2DModel", dtype="F32", out_channels=8)
    diffuser("flux1-dev", "FluxTransformer2DModel", guidance_embeds=True)
    diffuser("sd3-medium", "SD3Transformer2DModel", num_layers=24, num_attention_heads=24, joint_attention_dim=4096, caption_projection_dim=1536, pooled_projection_dim=2048, out_channels=16, pos_embed_max_size=192)
    diffuser("sdxl-unet", "UNet2DConditionModel", dtype="F16", folder="unet", sample_size=128, block_out_channels=(320, 640, 1280),
             down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
             up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
             transformer_layers_per_block=(1, 2, 10), attention_head_dim=(5, 10, 20), cross_attention_dim=2048,
             addition_embed_type="text_time", addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816, use_linear_projection=True)
    f5()
    pi05()
    mdlm()


def f5():
    h, d = Hand(), 1024
    p = "ema_model.transformer."
    h.t("ema_model.mel_spec.mel_stft.mel_scale.fb", 513, 100)
    h.t("ema_model.mel_spec.mel_stft.spectrogram.window", 1024)
    h.t("initted", dtype="F32")
    h.t("step", dtype="F32")
    h.linear(p + "time_embed.time_mlp.0", 256, d)
    h.linear(p + "time_embed.time_mlp.2", d, d)
    h.t(p + "text_embed.text_embed.weight", 2546, 512)
    for i in range(4):
        b = f"{p}text_embed.text_blocks.{i}."
        h.t(b + "dwconv.weight", 512, 1, 7)
        h.t(b + "dwconv.bias", 512)
        h.norm(b + "norm", 512)
        h.linear(b + "pwconv1", 512, 1024)
        h.t(b + "grn.gamma", 1, 1, 1024)
        h.t(b + "grn.beta", 1, 1, 1024)
        h.linear(b + "pwconv2", 1024, 512)
    h.linear(p + "input_embed.proj", 100 * 2 + 512, d)
    for i in (0, 2):
        h.t(f"{p}input_embed.conv_pos_embed.conv1d.{i}.weight", d, d // 16, 31)
        h.t(f"{p}input_embed.conv_pos_embed.conv1d.{i}.bias", d)
    h.t(p + "rotary_embed.inv_freq", 32)
    for i in range(22):
        b = f"{p}transformer_blocks.{i}."
        h.linear(b + "attn_norm.linear", d, 6 * d)
        for n in ("to_q", "to_k", "to_v", "to_out.0"):
            h.linear(b + "attn." + n, d, d)
        h.linear(b + "ff.ff.0.0", d, 2 * d)
        h.linear(b + "ff.ff.2", 2 * d, d)
    h.linear(p + "norm_out.linear", d, 2 * d)
    h.linear(p + "proj_out", d, 100)
    write("f5-tts-v1-base", h.tensors, None, file="F5TTS_v1_Base/model_1250000.safetensors")


def pi05():
    h = Hand("BF16")
    p = "paligemma_with_expert."
    # PaliGemma: SigLIP So400m and Gemma 2B, and the action expert beside it.
    v = p + "paligemma.model.vision_tower.vision_model."
    h.t(v + "embeddings.patch_embedding.weight", 1152, 3, 14, 14)
    h.t(v + "embeddings.patch_embedding.bias", 1152)
    h.t(v + "embeddings.position_embedding.weight", 256, 1152)
    for i in range(27):
        b = f"{v}encoder.layers.{i}."
        for n in ("q_proj", "k_proj", "v_proj", "out_proj"):
            h.linear(b + "self_attn." + n, 1152, 1152)
        h.linear(b + "mlp.fc1", 1152, 4304)
        h.linear(b + "mlp.fc2", 4304, 1152)
        h.norm(b + "layer_norm1", 1152)
        h.norm(b + "layer_norm2", 1152)
    h.norm(v + "post_layernorm", 1152)
    h.linear(p + "paligemma.model.multi_modal_projector.linear", 1152, 2048)
    gemma(h, p + "paligemma.model.language_model.", 2048, 16384, 18, 257152)
    gemma(h, p + "gemma_expert.model.", 1024, 4096, 18, 0, cond=1024)
    h.linear("action_in_proj", 32, 1024)
    h.linear("action_out_proj", 1024, 32)
    h.linear("time_mlp_in", 1024, 1024)
    h.linear("time_mlp_out", 1024, 1024)
    write("pi05-base", h.tensors, {"type": "pi05"})


def gemma(h, p, d, ff, layers, vocabulary, cond=0):
    if vocabulary:
        h.t(p + "embed_tokens.weight", vocabulary, d)

    def norm(name):
        if cond:
            h.linear(name + ".dense", cond, 3 * d)
        else:
            h.t(name + ".weight", d)

    for i in range(layers):
        b = f"{p}layers.{i}."
        h.linear(b + "self_attn.q_proj", d, 2048, False)
        h.linear(b + "self_attn.k_proj", d, 256, False)
        h.linear(b + "self_attn.v_proj", d, 256, False)
        h.linear(b + "self_attn.o_proj", 2048, d, False)
        h.linear(b + "mlp.gate_proj", d, ff, False)
        h.linear(b + "mlp.up_proj", d, ff, False)
        h.linear(b + "mlp.down_proj", ff, d, False)
        norm(b + "input_layernorm")
        norm(b + "post_attention_layernorm")
    norm(p + "norm")


def mdlm():
    h, d, v, c = Hand(), 768, 50258, 128
    h.t("backbone.vocab_embed.embedding", v, d)
    h.linear("backbone.sigma_map.mlp.0", 256, c)
    h.linear("backbone.sigma_map.mlp.2", c, c)
    h.t("backbone.rotary_emb.inv_freq", 32)
    for i in range(12):
        b = f"backbone.blocks.{i}."
        h.t(b + "norm1.weight", d)
        h.linear(b + "attn_qkv", d, 3 * d, False)
        h.linear(b + "attn_out", d, d, False)
        h.t(b + "norm2.weight", d)
        h.linear(b + "mlp.0", d, 4 * d)
        h.linear(b + "mlp.2", 4 * d, d)
        h.linear(b + "adaLN_modulation", c, 6 * d)
    h.t("backbone.output_layer.norm_final.weight", d)
    h.linear("backbone.output_layer.linear", d, v)
    h.linear("backbone.output_layer.adaLN_modulation", c, 2 * d)
    write("mdlm-owt", h.tensors, {"model_type": "mdlm", "architectures": ["MDLM"], "time_conditioning": False, "hidden_dim": d, "cond_dim": c, "n_blocks": 12, "vocab_size": v})


# ------------------------------------------------------------------- tokens

def llama_config(v, d, layers, heads, kv, ff, **more):
    return transformers.LlamaConfig(vocab_size=v, hidden_size=d, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv, intermediate_size=ff, rms_norm_eps=1e-6, **more)


def tokens():
    transformer("novomolgen-32m-atomwise", "LlamaForCausalLM", llama_config(84, 512, 12, 8, 8, 1024))
    transformer("novomolgen-32m-bpe", "LlamaForCausalLM", llama_config(500, 512, 12, 8, 8, 1024))
    transformer("llama-3.2-1b", "LlamaForCausalLM", llama_config(128256, 2048, 16, 32, 8, 8192, tie_word_embeddings=True), "BF16")
    transformer("metagene-1", "LlamaForCausalLM", llama_config(1024, 4096, 32, 32, 32, 11008), "BF16")
    transformer("twist-7b", "LlamaForCausalLM", llama_config(502, 4096, 32, 32, 32, 11008), "BF16")
    transformer("slam-0.36b", "Qwen2ForCausalLM", transformers.Qwen2Config(vocab_size=501, hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864, tie_word_embeddings=True), "BF16")
    for name, d, layers, heads in (("8m", 320, 6, 20), ("35m", 480, 12, 20), ("150m", 640, 30, 20), ("650m", 1280, 33, 20), ("3b", 2560, 36, 40), ("15b", 5120, 48, 40)):
        config = transformers.EsmConfig(vocab_size=33, mask_token_id=32, pad_token_id=1, hidden_size=d, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * d, max_position_embeddings=1026, position_embedding_type="rotary", token_dropout=True, emb_layer_norm_before=False)
        extra = [] if "esm.embeddings.position_embeddings.weight" in names_of("EsmForMaskedLM", config) else [("esm.embeddings.position_embeddings.weight", "F32", [1026, d])]
        transformer(f"esm2-{name}", "EsmForMaskedLM", config, extra=extra, position_embedding_type="rotary")
    transformer("generator-1.2b", "LlamaForCausalLM", llama_config(4128, 2048, 26, 32, 32, 5632), "BF16")
    transformer("mambabyte-972m", "MambaForCausalLM", transformers.MambaConfig(vocab_size=256, hidden_size=1792, num_hidden_layers=48, expand=2))
    for name, d, layers in (("50m", 512, 12), ("500m", 1024, 29)):
        nt_v2(name, d, layers)
    for name, d, heads, enc, dec, ff in (("small", 1472, 6, 12, 4, 3584), ("base", 1536, 12, 18, 6, 3968), ("xl", 2560, 32, 36, 12, 6720), ("xxl", 4672, 64, 36, 12, 12352)):
        config = transformers.T5Config(vocab_size=384, d_model=d, d_kv=64, d_ff=ff, num_layers=enc, num_decoder_layers=dec, num_heads=heads, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
        transformer(f"byt5-{name}", "T5ForConditionalGeneration", config)
    transformer("prot-t5-xl-encoder", "T5EncoderModel", transformers.T5Config(vocab_size=128, d_model=1024, d_kv=128, d_ff=16384, num_layers=24, num_heads=32, feed_forward_proj="relu"))
    transformer("ankh-base-encoder", "T5EncoderModel", transformers.T5Config(vocab_size=144, d_model=768, d_kv=64, d_ff=3072, num_layers=48, num_heads=12, feed_forward_proj="gated-gelu"))
    transformer("ankh-large-encoder", "T5EncoderModel", transformers.T5Config(vocab_size=144, d_model=1536, d_kv=64, d_ff=3840, num_layers=48, num_heads=16, feed_forward_proj="gated-gelu"))
    gpt2 = transformers.GPT2Config()
    transformer("gpt2", "GPT2LMHeadModel", gpt2, extra=[(f"transformer.h.{i}.attn.bias", "F32", [1, 1, 1024, 1024]) for i in range(12)])
    for name, d, layers, heads in (("70m", 512, 6, 8), ("410m", 1024, 24, 16)):
        config = transformers.GPTNeoXConfig(vocab_size=50304, hidden_size=d, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * d)
        masks = [(f"gpt_neox.layers.{i}.attention.bias", "U8", [1, 1, 2048, 2048]) for i in range(layers)]
        freqs = [(f"gpt_neox.layers.{i}.attention.rotary_emb.inv_freq", "F16", [d // heads // 8]) for i in range(layers)]
        scalars = [(f"gpt_neox.layers.{i}.attention.masked_bias", "F16", []) for i in range(layers)]
        transformer(f"pythia-{name}", "GPTNeoXForCausalLM", config, "F16", extra=masks + freqs + scalars, use_parallel_residual=True)
    transformer("gpt-j-6b", "GPTJForCausalLM", transformers.GPTJConfig(), "F16")
    transformer("phi-2", "PhiForCausalLM", transformers.PhiConfig(hidden_size=2560, intermediate_size=10240, num_hidden_layers=32, num_attention_heads=32), "F16")
    transformer("falcon-7b", "FalconForCausalLM", transformers.FalconConfig(vocab_size=65024, hidden_size=4544, num_hidden_layers=32, num_attention_heads=71, multi_query=True, parallel_attn=True, bias=False, alibi=False), "BF16")
    transformer("minilm-l6-v2", "BertModel", transformers.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536))
    hand_tokens()


def names_of(cls, config):
    with torch.device("meta"):
        return getattr(transformers, cls)(config).state_dict().keys()


def nt_v2(name, d, layers):
    h, v, ff = Hand(), 4107, 4 * d
    h.t("esm.embeddings.word_embeddings.weight", v, d)
    for i in range(layers):
        b = f"esm.encoder.layer.{i}."
        h.norm(b + "attention.LayerNorm", d)
        for n in ("query", "key", "value"):
            h.linear(b + "attention.self." + n, d, d)
        h.t(b + "attention.self.rotary_embeddings.inv_freq", d // 16 // 2)
        h.linear(b + "attention.output.dense", d, d)
        h.norm(b + "LayerNorm", d)
        h.linear(b + "intermediate.dense", d, 2 * ff, False)
        h.linear(b + "output.dense", ff, d, False)
    h.norm("esm.encoder.emb_layer_norm_after", d)
    h.t("lm_head.bias", v)
    h.linear("lm_head.dense", d, d)
    h.norm("lm_head.layer_norm", d)
    write(f"nt-v2-{name}", h.tensors, {"model_type": "esm", "architectures": ["EsmForMaskedLM"], "vocab_size": v, "hidden_size": d, "position_embedding_type": "rotary", "emb_layer_norm_before": False, "token_dropout": False, "mask_token_id": 2})


def hand_tokens():
    for name, d, layers, v, dtype, masks in (("small", 1024, 12, 32, "F32", False), ("small-old", 1024, 12, 32, "F32", True), ("medium", 1536, 27, 32, "F32", False), ("large", 2560, 32, 51200, "F16", False), ("xlarge", 4096, 32, 51200, "F16", False)):
        h = Hand(dtype)
        h.t("transformer.wte.weight", v, d)
        for i in range(layers):
            b = f"transformer.h.{i}."
            h.norm(b + "ln_1", d)
            h.linear(b + "attn.qkv_proj", d, 3 * d, False)
            h.linear(b + "attn.out_proj", d, d, False)
            if masks:
                h.t(b + "attn.bias", 1, 1, 1024, 1024, dtype="BOOL")
                h.t(b + "attn.masked_bias")
            h.linear(b + "mlp.fc_in", d, 4 * d)
            h.linear(b + "mlp.fc_out", 4 * d, d)
        h.norm("transformer.ln_f", d)
        h.linear("lm_head", d, v)
        write(f"progen2-{name}", h.tensors, {"model_type": "progen", "architectures": ["ProGenForCausalLM"], "vocab_size": v, "n_embd": d, "embed_dim": d, "n_layer": layers, "n_head": 32 if name == "large" else 16, "rotary_dim": {"small": 32, "small-old": 32, "medium": 48}.get(name, 64), "torch_dtype": "float16" if dtype == "F16" else "float32"})
    for name, d, layers in (("s", 768, 12), ("m", 1024, 24), ("l", 1536, 24), ("xl", 2048, 24)):
        h = Hand("F16" if name == "s" else "F32")
        h.t("transformer.embedding.weight", 26, d)
        for i in range(layers):
            b = f"transformer.layers.{i}."
            for n in ("query", "key", "value", "proj"):
                h.linear(b + "self_attention." + n, d, d)
            h.t(b + "self_attention.rotary_embedding.inv_freq", 32)
            h.norm(b + "attn_norm", d)
            h.norm(b + "mlp_norm", d)
            h.linear(b + "mlp.0", d, 4 * d)
            h.linear(b + "mlp.2", 4 * d, d)
        h.norm("transformer.final_norm", d)
        h.linear("lm_head", d, 26, False)
        write(f"rita-{name}", h.tensors, {"model_type": "rita", "architectures": ["RITAModelForCausalLM"], "vocab_size": 26, "d_model": d, "num_layers": layers})
    for name, d, layers in (("120m", 640, 24), ("350m", 960, 32)):
        h, ff = Hand(), 8 * math.ceil(2 / 3 * 4 * d / 8)
        h.t("encoder.weight", 27, d)
        for i in range(layers):
            b = f"transformer_encoder.{i}."
            for n in ("q", "k", "v", "wo"):
                h.linear(b + n, d, d, False)
            h.linear(b + "ffn.w12", d, 2 * ff, False)
            h.linear(b + "ffn.w3", ff, d, False)
            h.t(b + "attention_norm.weight", d)
            h.t(b + "ffn_norm.weight", d)
        h.t("layer_norm_2.weight", d)
        h.linear("decoder", d, 27)
        write(f"amplify-{name}", h.tensors, {"model_type": "AMPLIFY", "architectures": ["AMPLIFY"], "vocab_size": 27, "hidden_size": d, "num_hidden_layers": layers})
    for name, d, layers in (("300m", 960, 30), ("600m", 1152, 36)):
        h, ff = Hand(), int((8 / 3 * d + 255) // 256 * 256)
        h.t("embed.weight", 64, d)
        for i in range(layers):
            b = f"transformer.blocks.{i}."
            h.norm(b + "attn.layernorm_qkv.0", d)
            h.linear(b + "attn.layernorm_qkv.1", d, 3 * d, False)
            h.t(b + "attn.q_ln.weight", d)
            h.t(b + "attn.k_ln.weight", d)
            h.linear(b + "attn.out_proj", d, d, False)
            h.norm(b + "ffn.0", d)
            h.linear(b + "ffn.1", d, 2 * ff, False)
            h.linear(b + "ffn.3", ff, d, False)
        h.t("transformer.norm.weight", d)
        h.linear("sequence_head.0", d, d)
        h.norm("sequence_head.2", d)
        h.linear("sequence_head.3", d, 64)
        write(f"esmc-{name}", h.tensors, {"model_type": "ESMplusplus", "vocab_size": 64, "hidden_size": d, "num_hidden_layers": layers})
    esm3()
    for name, d, layers in (("150m", 640, 30), ("650m", 1280, 33)):
        h, ff = Hand(), 256 * math.ceil(8 * d / 3 / 256)
        h.t("tok_embeddings.weight", 37, d)
        for i in range(layers):
            b = f"encoder.layers.{i}."
            h.linear(b + "attn.wqkv", d, 3 * d, False)
            h.linear(b + "attn.wo", d, d, False)
            h.linear(b + "feed_forward.w1", d, ff, False)
            h.linear(b + "feed_forward.w3", d, ff, False)
            h.linear(b + "feed_forward.w2", ff, d, False)
            h.t(b + "attention_norm.weight", d)
            h.t(b + "ffn_norm.weight", d)
        h.linear("lm_head.dense", d, d)
        h.norm("lm_head.layer_norm", d)
        h.linear("lm_head.decoder", d, 37)
        write(f"glm2-{name}", h.tensors, {"model_type": "gLM2", "architectures": ["gLM2ForMaskedLM"], "vocab_size": 37, "dim": d, "depth": layers})
    for name, d, layers in (("150m", 768, 20), ("300m", 1024, 20), ("600m", 1280, 30)):
        e1(name, d, layers)
    aido("aido-rna-1m", 128, 6, 320)
    aido("aido-rna-1.6b", 2048, 32, 5440)
    aido("aido-dna-7b", 4352, 32, 11520)
    for name, length in (("tiny-1k", 1026), ("medium-160k", 160002), ("medium-450k", 450002), ("large-1m", 1000002)):
        hyena(name, 128 if name == "tiny-1k" else 256, 2 if name == "tiny-1k" else 8, length)
    caduceus("ps-1k-4l", 4)
    caduceus("ps-131k-16l", 16)
    evo("evo-1-131k", 4096, 32, True)
    evo("evo-2-7b", 4096, 32, False)
    evo("evo-2-40b", 8192, 50, False)
    evabyte()
    molformer()
    dnabert2()
    wide()
    g2p()
    gemma3n("e2b", 30)
    gemma3n("e4b", 35)
    state_st()


def esm3():
    h, d, ff = Hand(), 1536, 4096
    h.t("encoder.sequence_embed.weight", 64, d)
    h.t("encoder.structure_tokens_embed.weight", 4101, d)
    h.t("encoder.ss8_embed.weight", 11, d)
    h.t("encoder.sasa_embed.weight", 19, d)
    h.linear("encoder.plddt_projection", 16, d)
    for i in range(48):
        b = f"transformer.blocks.{i}."
        h.norm(b + "attn.layernorm_qkv.0", d)
        h.linear(b + "attn.layernorm_qkv.1", d, 3 * d, False)
        h.t(b + "attn.q_ln.weight", d)
        h.t(b + "attn.k_ln.weight", d)
        h.linear(b + "attn.out_proj", d, d, False)
        h.norm(b + "ffn.0", d)
        h.linear(b + "ffn.1", d, 2 * ff, False)
        h.linear(b + "ffn.3", ff, d, False)
    h.t("transformer.norm.weight", d)
    write("esm3-open", h.tensors, {"model_type": "esm3"})


def e1(name, d, layers):
    h, ff = Hand("BF16"), 4 * d
    h.t("model.embed_tokens.weight", 34, d)
    h.t("model.embed_seq_id.weight", 512, d)
    for i in range(layers):
        b = f"model.layers.{i}."
        for n in ("q_proj", "k_proj", "v_proj", "o_proj"):
            h.linear(b + "self_attn." + n, d, d, False)
        h.linear(b + "ffn.mlp.w1", d, ff, False)
        h.linear(b + "ffn.mlp.w2", ff, d, False)
        h.t(b + "input_layernorm.weight", d)
        h.t(b + "post_attention_layernorm.weight", d)
    h.t("model.norm.weight", d)
    h.linear("mlm_head.0", d, d)
    h.norm("mlm_head.2", d)
    h.linear("mlm_head.3", d, 34)
    write(f"e1-{name}", h.tensors, {"model_type": "E1", "vocab_size": 34, "hidden_size": d, "num_hidden_layers": layers, "max_num_sequences": 512, "clip_qkv": 8})


def aido(name, d, layers, ff):
    h = Hand()
    h.t("bert.embeddings.word_embeddings.weight", 16, d)
    for i in range(layers):
        b = f"bert.encoder.layer.{i}."
        h.t(b + "attention.ln.weight", d)
        for n in ("query", "key", "value"):
            h.linear(b + "attention.self." + n, d, d, False)
        h.linear(b + "attention.output.dense", d, d, False)
        h.t(b + "ln.weight", d)
        h.linear(b + "mlp.up_proj", d, ff, False)
        h.linear(b + "mlp.gate_proj", d, ff, False)
        h.linear(b + "mlp.down_proj", ff, d, False)
    h.t("bert.encoder.ln.weight", d)
    h.linear("cls.predictions.transform.dense", d, d)
    h.t("cls.predictions.bias", 16)
    write(name, h.tensors, {"model_type": "rnabert", "architectures": ["RNABertForMaskedLM"], "vocab_size": 16, "hidden_size": d, "num_hidden_layers": layers, "intermediate_size": ff, "position_embedding_type": "rope", "norm_type": "RMSNorm", "add_linear_bias": False})


def hyena(name, d, layers, length):
    h = Hand()
    h.t("hyena.backbone.embeddings.word_embeddings.weight", 16, d)
    for i in range(layers):
        b = f"hyena.backbone.layers.{i}."
        h.linear(b + "mixer.in_proj", d, 3 * d)
        h.linear(b + "mixer.out_proj", d, d)
        h.t(b + "mixer.short_filter.weight", 3 * d, 1, 3)
        h.t(b + "mixer.short_filter.bias", 3 * d)
        f = b + "mixer.filter_fn."
        h.t(f + "bias", d)
        h.t(f + "pos_emb.z", 1, length, 5)
        h.t(f + "pos_emb.t", 1, length, 1)
        h.linear(f + "implicit_filter.0", 5, 64)
        for j in (2, 4):
            h.linear(f"{f}implicit_filter.{j}", 64, 64)
        for j in (1, 3, 5):
            h.t(f"{f}implicit_filter.{j}.freq", 1, 64)
        h.linear(f + "implicit_filter.6", 64, d, False)
        h.t(f + "modulation.deltas", 1, 1, d)
        h.norm(b + "norm1", d)
        h.linear(b + "mlp.fc1", d, 4 * d)
        h.linear(b + "mlp.fc2", 4 * d, d)
        h.norm(b + "norm2", d)
    h.norm("hyena.backbone.ln_f", d)
    write(f"hyenadna-{name}", h.tensors, {"model_type": "hyenadna", "architectures": ["HyenaDNAForCausalLM"], "vocab_size": 12, "pad_vocab_size_multiple": 8, "d_model": d, "n_layer": layers, "max_seq_len": length, "emb_dim": 5, "filter_order": 64, "lr_pos_emb": 0.0})


def caduceus(name, layers):
    h, d, e, s, r = Hand(), 256, 512, 16, 16
    h.t("caduceus.backbone.embeddings.embedding.weight", 16, d)
    for i in range(layers):
        m = f"caduceus.backbone.layers.{i}.mixer.submodule."
        for way in ("mamba_fwd.", "mamba_rev."):
            h.t(m + way + "A_log", e, s)
            h.t(m + way + "D", e)
            h.t(m + way + "conv1d.weight", e, 1, 4)
            h.t(m + way + "conv1d.bias", e)
            h.linear(m + way + "x_proj", e, r + 2 * s, False)
            h.linear(m + way + "dt_proj", r, e)
            if way == "mamba_fwd.":  # tied to the other direction
                h.linear(m + way + "in_proj", d, 2 * e, False)
                h.linear(m + way + "out_proj", e, d, False)
        h.t(f"caduceus.backbone.layers.{i}.norm.submodule.weight", d)
    h.t("caduceus.backbone.norm_f.submodule.weight", d)
    write(f"caduceus-{name}", h.tensors, {"model_type": "caduceus", "architectures": ["CaduceusForMaskedLM"], "vocab_size": 16, "d_model": d, "n_layer": layers, "rcps": True})


def evo(name, d, layers, bias):
    h, ff = Hand("BF16"), 256 * math.ceil(8 * d / 3 / 256)
    h.t("backbone.embedding_layer.weight", 512, d)
    for i in range(layers):
        b = f"backbone.blocks.{i}."
        h.t(b + "pre_norm.scale", d)
        h.t(b + "post_norm.scale", d)
        h.linear(b + "projections", d, 3 * d, bias)
        h.linear(b + "out_filter_dense", d, d)
        h.t(b + "filter.short_filter_weight", 3 * d, 1, 3)
        h.t(b + "filter.D", d)
        h.linear(b + "mlp.l1", d, ff, False)
        h.linear(b + "mlp.l2", d, ff, False)
        h.linear(b + "mlp.l3", ff, d, False)
    h.t("backbone.norm.scale", d)
    write(name, h.tensors, {"model_type": "stripedhyena", "architectures": ["StripedHyenaModelForCausalLM"], "vocab_size": 512, "hidden_size": d, "num_layers": layers, "qkv_proj_bias": bias})


def evabyte():
    h, d, ff = Hand("BF16"), 4096, 11008
    h.t("model.embed_tokens.weight", 320, d)
    for i in range(32):
        b = f"model.layers.{i}."
        h.t(b + "input_layernorm.weight", d)
        for n in ("q_proj", "k_proj", "v_proj", "o_proj"):
            h.linear(b + "self_attn." + n, d, d, False)
        h.t(b + "self_attn.adaptive_phi", 1, 32, 1, 1, 128)
        h.t(b + "self_attn.adaptive_mu_k", 1, 32, 1, 1, 128)
        h.t(b + "post_attention_layernorm.weight", d)
        h.linear(b + "mlp.gate_proj", d, ff, False)
        h.linear(b + "mlp.up_proj", d, ff, False)
        h.linear(b + "mlp.down_proj", ff, d, False)
    h.t("model.norm.weight", d)
    h.linear("lm_head", d, 320 * 8, False)
    write("evabyte", h.tensors, {"model_type": "evabyte", "architectures": ["EvaByteForCausalLM"], "vocab_size": 320, "hidden_size": d, "num_hidden_layers": 32, "norm_add_unit_offset": True})


def molformer():
    h, d, v = Hand(), 768, 2362
    h.t("molformer.embeddings.word_embeddings.weight", v, d)
    for i in range(12):
        b = f"molformer.encoder.layer.{i}."
        for n in ("query", "key", "value"):
            h.linear(b + "attention.self." + n, d, d)
        h.t(b + "attention.self.feature_map.weight", 64, 32)
        h.linear(b + "attention.output.dense", d, d)
        h.norm(b + "attention.output.LayerNorm", d)
        h.linear(b + "intermediate.dense", d, d)
        h.linear(b + "output.dense", d, d)
        h.norm(b + "output.LayerNorm", d)
    h.norm("molformer.LayerNorm", d)
    h.linear("lm_head.transform.dense", d, d)
    h.norm("lm_head.transform.LayerNorm", d)
    h.linear("lm_head.decoder", d, v)
    write("molformer-xl", h.tensors, {"model_type": "molformer", "architectures": ["MolformerForMaskedLM"], "vocab_size": v, "hidden_size": d, "num_hidden_layers": 12})


def dnabert2():
    h, d, v = Hand(), 768, 4096
    h.t("bert.embeddings.word_embeddings.weight", v, d)
    h.t("bert.embeddings.token_type_embeddings.weight", 2, d)
    h.norm("bert.embeddings.LayerNorm", d)
    for i in range(12):
        b = f"bert.encoder.layer.{i}."
        h.linear(b + "attention.self.Wqkv", d, 3 * d)
        h.linear(b + "attention.output.dense", d, d)
        h.norm(b + "attention.output.LayerNorm", d)
        h.linear(b + "mlp.gated_layers", d, 8 * d, False)
        h.linear(b + "mlp.wo", 4 * d, d)
        h.norm(b + "mlp.layernorm", d)
    h.linear("bert.pooler.dense", d, d)
    write("dnabert-2", h.tensors, {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": v, "hidden_size": d, "alibi_starting_size": 512})


def wide():
    for name, layers in (("100m", 4), ("650m", 33)):
        h, d = Hand(), 1280
        h.t("pe_embedding.weight", 145469, 5120)
        h.linear("encoder.0", 5120, d)
        h.norm("encoder.2", d)
        h.linear("gene_embedding_layer.0", 5120, d)
        h.norm("gene_embedding_layer.2", d)
        h.t("pos_encoder.pe", 1536, 1, d)
        for i in range(layers):
            b = f"transformer_encoder.layers.{i}."
            h.t(b + "self_attn.in_proj_weight", 3 * d, d)
            h.t(b + "self_attn.in_proj_bias", 3 * d)
            h.linear(b + "self_attn.out_proj", d, d)
            h.linear(b + "linear1", d, 4 * d)
            h.linear(b + "linear2", 4 * d, d)
            h.norm(b + "norm1", d)
            h.norm(b + "norm2", d)
        for i, (a, o) in enumerate(((d, 1024), (1024, d), (d, d))):
            h.linear(f"decoder.{i}.0", a, o)
            h.norm(f"decoder.{i}.1", o)
        h.linear("decoder.3", d, d)
        for i, (a, o) in enumerate(((2 * d, 2048), (2048, 512), (512, 128))):
            h.linear(f"binary_decoder.{i}.0", a, o)
            h.norm(f"binary_decoder.{i}.1", o)
        h.linear("binary_decoder.3", 128, 1)
        write(f"uce-modern-{name}", h.tensors, {"model_type": "uce", "vocab_size": 145469, "token_dim": 5120, "hidden_size": d, "intermediate_size": 4 * d, "output_dim": d, "num_hidden_layers": layers, "num_attention_heads": 20})
    for name, d, layers in (("100m", 1024, 8), ("600m", 2048, 16)):
        h = Hand()
        h.t("pe_embedding.weight", 19790, 5120)
        h.linear("encoder.0", 5120, d)
        h.norm("encoder.1", d)
        h.linear("gene_embedding_layer.0", 5120, d)
        h.norm("gene_embedding_layer.1", d)
        h.t("cls_token", 1, 5120)
        for i in range(layers):
            b = f"transformer_encoder.layers.{i}."
            h.t(b + "self_attn.in_proj_weight", 3 * d, d)
            h.t(b + "self_attn.in_proj_bias", 3 * d)
            h.linear(b + "self_attn.out_proj", d, d)
            h.linear(b + "linear1", d, 2 * d)
            h.linear(b + "linear2", 2 * d, d)
            h.norm(b + "norm1", d)
            h.norm(b + "norm2", d)
        write(f"state-se-{name}", h.tensors, {"model_type": "state-se", "emb_dim": 5120, "output_dim": d})
    for name, v in (("metazoa", 247388), ("exemplar", 110290), ("sapiens", 23829)):
        h, d = Hand(), 2048
        h.t("gene_embeddings.embedding_layer.0.weight", v, 2560)
        h.linear("gene_embeddings.embedding_layer.1", 2560, d, False)
        for i in range(12):
            b = f"transformer_encoder.encoder_layers.{i}."
            for n in ("linear_query", "linear_key", "linear_value", "linear_out"):
                h.linear(b + "attn_module." + n, d, d)
            h.linear(b + "fc1", d, d)
            h.linear(b + "fc2", d, d)
            h.norm(b + "ln1", d)
            h.norm(b + "ln2", d)
        write(f"transcriptformer-{name}", h.tensors, {"model_type": "transcriptformer", "embed_dim": d})


def g2p():
    h = Hand()
    for side, v in (("enc", 29), ("dec", 74)):
        h.t(f"{side}_emb", v, 256)
        h.t(f"{side}_w_ih", 768, 256)
        h.t(f"{side}_w_hh", 768, 256)
        h.t(f"{side}_b_ih", 768)
        h.t(f"{side}_b_hh", 768)
    h.t("fc_w", 74, 256)
    h.t("fc_b", 74)
    write("g2p-en", h.tensors, None)


def gemma3n(name, layers):
    h, d, ple = Hand("BF16"), 2048, 256
    p = "model.language_model."
    h.t(p + "embed_tokens.weight", 262400, d)
    h.t(p + "embed_tokens_per_layer.weight", 262144, layers * ple)
    h.linear(p + "per_layer_model_projection", d, layers * ple, False)
    h.t(p + "per_layer_projection_norm.weight", ple)
    h.t(p + "norm.weight", d)
    for i in range(layers):
        b = f"{p}layers.{i}."
        h.linear(b + "self_attn.q_proj", d, 2048, False)
        h.linear(b + "self_attn.k_proj", d, 512, False)
        h.linear(b + "self_attn.v_proj", d, 512, False)
        h.linear(b + "self_attn.o_proj", 2048, d, False)
        h.linear(b + "mlp.gate_proj", d, 8192 if name == "e2b" else 16384, False)
        h.linear(b + "mlp.up_proj", d, 8192 if name == "e2b" else 16384, False)
        h.linear(b + "mlp.down_proj", 8192 if name == "e2b" else 16384, d, False)
        h.linear(b + "per_layer_input_gate", d, ple, False)
        h.linear(b + "per_layer_projection", ple, d, False)
        for n in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm", "post_per_layer_input_norm"):
            h.t(f"{b}{n}.weight", d)
    write(f"gemma-3n-{name}", h.tensors, {"model_type": "gemma3n", "architectures": ["Gemma3nForConditionalGeneration"], "text_config": {"hidden_size": d, "num_hidden_layers": layers, "hidden_size_per_layer_input": ple}})


def state_st():
    h, d = Hand(), 328
    h.t("transformer_backbone.embed_tokens.weight", 32000, d)
    for i in range(8):
        b = f"transformer_backbone.layers.{i}."
        h.linear(b + "self_attn.q_proj", d, 768, False)
        h.linear(b + "self_attn.k_proj", d, 768, False)
        h.linear(b + "self_attn.v_proj", d, 768, False)
        h.linear(b + "self_attn.o_proj", 768, d, False)
        h.linear(b + "mlp.gate_proj", d, 3072, False)
        h.linear(b + "mlp.up_proj", d, 3072, False)
        h.linear(b + "mlp.down_proj", 3072, d, False)
        h.t(b + "input_layernorm.weight", d)
        h.t(b + "post_attention_layernorm.weight", d)
    h.t("transformer_backbone.norm.weight", d)
    write("state-st-hvg-replogle", h.tensors, {"model_type": "state-st", "hidden_dim": d})


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    diffusion()
    tokens()
