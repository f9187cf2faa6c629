"""Golden vectors for architectures/f5dit, from the published code of F5-TTS.

    python make_f5dit_goldens.py SOURCE OUT

SOURCE is a checkout of github.com/SWivid/F5-TTS at COMMIT (MIT), which is imported
and not copied; OUT becomes architectures/f5dit/testdata. For each case: a model of
random weights under the names of published checkpoints, and for every run its
inputs, the flow, and what enters and leaves every layer. The runs of CFM.sample keep
the trajectory and the times at which the solver was. schedule.json holds the bits of
the times for every number of steps that there are pruned or whole 32nds for, and
frequencies.json those of the frequencies of the embedding of times.

torch is as in requirements.txt; x-transformers is 2.31.10, torchdiffeq 0.2.5. What
the code imports for waveforms and text (torchaudio, librosa, rjieba, pypinyin) is
not called and may be absent.
"""

import json
import math
import pathlib
import subprocess
import sys
import types

import torch
from safetensors.torch import save_file

COMMIT = "2ae2c9bd9b64dab2cb069c4b97e5e7673c521e01"

PUBLISHED = dict(dim=32, depth=2, heads=2, dim_head=8, ff_mult=2, mel_dim=5, text_dim=6, text_num_embeds=11, conv_layers=4)
CASES = {
    # The settings of F5-TTS v1 Base, and of F5-TTS Base.
    "v1": PUBLISHED | dict(text_mask_padding=True, qk_norm=None, pe_attn_head=None),
    "base": PUBLISHED | dict(text_mask_padding=False, pe_attn_head=1, depth=1, heads=3),
    # The defaults of the class, where the text has the width of the spectrogram.
    "defaults": dict(dim=16, depth=1, heads=1, dim_head=6, mel_dim=3, text_num_embeds=4, ff_mult=4),
    # Everything else that changes the computation.
    "switches": PUBLISHED | dict(heads=3, ff_mult=3, conv_layers=1, qk_norm="rms_norm", pe_attn_head=2, attn_mask_enabled=True, long_skip_connection=True),
}


def published(source):
    """Imports the published modules without their package's own imports."""
    head = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert head == COMMIT, f"{source} is at {head}, expected {COMMIT}"
    root = pathlib.Path(source) / "src" / "f5_tts"
    for name, at in {"f5_tts": root, "f5_tts.model": root / "model", "f5_tts.model.backbones": root / "model" / "backbones"}.items():
        package = types.ModuleType(name)
        package.__path__ = [str(at)]
        sys.modules[name] = package
    for name, fields in {"torchaudio": (), "librosa": (), "librosa.filters": ("mel",), "rjieba": (), "pypinyin": ("Style", "lazy_pinyin")}.items():
        stub = types.ModuleType(name)
        for f in fields:
            setattr(stub, f, None)
        sys.modules[name] = stub
    from f5_tts.model.backbones.dit import DiT
    from f5_tts.model.cfm import CFM
    from f5_tts.model.modules import SinusPositionEmbedding
    from f5_tts.model.utils import get_epss_timesteps

    return DiT, CFM, SinusPositionEmbedding, get_epss_timesteps


def texts(*lengths, embeds, width):
    out = torch.full((len(lengths), width), -1)
    for i, n in enumerate(lengths):
        out[i, :n] = torch.randint(embeds, (n,))
    return out


def lengths_to_mask(*lengths):
    return torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]


def forward_runs(m, config):
    mel, embeds = config["mel_dim"], config["text_num_embeds"]
    mask = lengths_to_mask(11, 9, 2)
    batch = dict(text=texts(4, 9, 6, embeds=embeds, width=9), time=torch.tensor([0.0, 0.25, 0.953125]))
    runs = {
        "one": (20, dict(text=texts(7, embeds=embeds, width=7), time=torch.tensor(0.5)), {}),
        "batch": (11, batch, {}),
        "long_text": (3, dict(text=texts(8, 2, embeds=embeds, width=8), time=torch.tensor([0.125, 0.75])), {}),
        "masked": (11, batch | dict(mask=mask), {}),
        "drop_audio_cond": (11, batch | dict(mask=mask), dict(drop_audio_cond=True)),
        "drop_text": (11, batch | dict(mask=mask), dict(drop_text=True)),
        "drop_both": (4, dict(text=texts(2, embeds=embeds, width=2), time=torch.tensor([0.3])), dict(drop_text=True, drop_audio_cond=True)),
        "cfg_infer": (6, dict(text=texts(4, 1, embeds=embeds, width=4), time=torch.tensor([0.1, 0.9])), dict(cfg_infer=True)),
        "cfg_infer_masked": (11, batch | dict(mask=mask), dict(cfg_infer=True)),
    }
    golden = {}
    for name, (length, inputs, flags) in runs.items():
        n = len(inputs["text"])
        inputs = dict(x=torch.randn(n, length, mel), cond=torch.randn(n, length, mel)) | inputs
        trace = []
        hooks = [m.transformer_blocks[0].register_forward_pre_hook(lambda _, args: trace.append(args[0]))]
        hooks += [b.register_forward_hook(lambda _, __, y: trace.append(y)) for b in m.transformer_blocks]
        with torch.no_grad():
            flow = m(**inputs, **flags)
        for h in hooks:
            h.remove()
        if "mask" in inputs:
            inputs["mask"] = inputs["mask"].long()
        golden |= {f"{name}.{k}": v for k, v in inputs.items()} | {f"{name}.flow": flow}
        golden |= {f"{name}.hidden_states.{i}": h for i, h in enumerate(trace)}
    return golden


def sample_runs(CFM, m, config):
    """Trajectories of the published sampler in four steps, with guidance and without."""
    cfm = CFM(m, num_channels=config["mel_dim"]).eval()
    golden = {}
    for name, durations, strength in (("one", [9], 2.0), ("batch", [10, 7], 2.0), ("unguided", [8], 0.0)):
        n = len(durations)
        cond = torch.randn(n, 4, config["mel_dim"])
        text = texts(*[d - 3 for d in durations], embeds=config["text_num_embeds"], width=max(durations) - 3)
        times = []
        hook = m.register_forward_pre_hook(lambda _, __, kw: times.append(kw["time"]), with_kwargs=True)
        _, trajectory = cfm.sample(cond, text, torch.tensor(durations), lens=torch.full((n,), 4), steps=4, cfg_strength=strength, sway_sampling_coef=-1.0, seed=3)
        hook.remove()
        step_cond = torch.zeros(n, max(durations), config["mel_dim"])
        step_cond[:, :4] = cond
        golden |= {f"{name}.cond": step_cond, f"{name}.text": text, f"{name}.time": torch.stack(times), f"{name}.trajectory": trajectory}
        golden[f"{name}.strength"] = torch.tensor([strength])
        if n > 1:
            golden[f"{name}.mask"] = lengths_to_mask(*durations).long()
    return golden


def keep(path, tensors):
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, path)


def main(source, out):
    DiT, CFM, SinusPositionEmbedding, get_epss_timesteps = published(source)
    for case, config in CASES.items():
        torch.manual_seed(9)
        m = DiT(**config, dropout=0.0).eval()
        for name, p in m.named_parameters():  # modulations that do something, and layers that differ
            torch.nn.init.normal_(p, 1 if name.endswith("norm.weight") else 0, 0.2)
        folder = out / case
        folder.mkdir(parents=True, exist_ok=True)
        prefix = "transformer." if case == "defaults" else "ema_model.transformer."
        weights = {prefix + k: v for k, v in m.state_dict().items()}
        if case == "v1":  # what published files hold besides
            weights |= {
                "initted": torch.tensor(True), "step": torch.tensor(7),
                "ema_model.mel_spec.mel_stft.mel_scale.fb": torch.randn(3, 5), "ema_model.mel_spec.mel_stft.spectrogram.window": torch.randn(4),
            }
        keep(folder / "model.safetensors", weights)
        (folder / "config.json").write_text(json.dumps({"model_type": "f5_dit", "dtype": "float32"} | config, indent=2) + "\n")
        keep(folder / "golden.safetensors", forward_runs(m, config))
        if case in ("v1", "base"):
            keep(folder / "sample.safetensors", sample_runs(CFM, m, config))
    bits = {}
    for steps in (1, 2, 4, 5, 6, 7, 8, 10, 12, 16, 32):
        t = get_epss_timesteps(steps, device="cpu", dtype=torch.float32)
        t = t + -1.0 * (torch.cos(torch.pi / 2 * t) - 1 + t)
        bits[steps] = ["%08x" % b for b in t.view(torch.int32)[:-1].tolist()]  # Euler does not evaluate the end
    (out / "schedule.json").write_text(json.dumps(bits, indent=1) + "\n")
    # The angles of time 1 are 1000 times the frequencies; the frequencies are those of the class itself.
    half = 128
    frequencies = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
    assert torch.equal(SinusPositionEmbedding(2 * half)(torch.tensor([0.001]), scale=1000)[0, :half], (1000 * torch.tensor([0.001]) * frequencies).sin())
    (out / "frequencies.json").write_text(json.dumps(["%08x" % b for b in frequencies.view(torch.int32).tolist()]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
