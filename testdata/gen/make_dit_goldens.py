"""Golden vectors for architectures/dit, from diffusers' own class.

    python make_dit_goldens.py OUT

OUT becomes architectures/dit/testdata: two models of random weights with small
sizes, each with the outputs of calls with integer and fractional timesteps and
the null class, and what enters and leaves every block. diffusers is 0.42.1;
torch is as in requirements.txt.
"""

import json
import pathlib
import sys

import torch
from diffusers import DiTTransformer2DModel
from safetensors.torch import save_file

CASES = {
    # Every block has embedders of its own; the output has as many channels as the input.
    "plain": dict(num_attention_heads=2, attention_head_dim=4, in_channels=3, num_layers=2, sample_size=6, patch_size=2,
                  num_embeds_ada_norm=5, norm_type="ada_norm_zero", norm_elementwise_affine=False),
    # As the published checkpoints: equal embedders in all blocks, twice the channels.
    "published": dict(num_attention_heads=1, attention_head_dim=8, in_channels=2, out_channels=4, num_layers=2, sample_size=4,
                      patch_size=1, num_embeds_ada_norm=3, norm_type="ada_norm_zero", norm_elementwise_affine=False,
                      attention_bias=False, activation_fn="gelu", norm_eps=1e-3),
}


def main(out):
    for case, config in CASES.items():
        torch.manual_seed(5)
        m = DiTTransformer2DModel(**config).eval()
        for p in m.parameters():  # modulations that do something, and blocks that differ
            torch.nn.init.normal_(p, 0, 0.3)
        if case == "published":
            for b in m.transformer_blocks[1:]:
                b.norm1.emb.load_state_dict(m.transformer_blocks[0].norm1.emb.state_dict())
        folder = out / case
        folder.mkdir(parents=True, exist_ok=True)
        save_file({k: v.contiguous().clone() for k, v in m.state_dict().items()}, folder / "model.safetensors")
        kept = {"_class_name": "DiTTransformer2DModel", "_diffusers_version": "0.42.1"} | dict(m.config)
        (folder / "config.json").write_text(json.dumps({k: v for k, v in kept.items() if k != "_use_default_values"}, indent=2) + "\n")

        size, classes = config["sample_size"], config["num_embeds_ada_norm"]
        calls = {
            "one": (torch.tensor([999]), torch.tensor([1])),
            "batch": (torch.tensor([0, 17, 500]), torch.tensor([0, classes, 2])),
            "fractional": (torch.tensor([0.25, 751.5]), torch.tensor([classes, 0])),
        }
        golden = {}
        for name, (t, labels) in calls.items():
            x = torch.randn(len(t), config["in_channels"], size, size)
            trace = []
            hooks = [m.transformer_blocks[0].register_forward_pre_hook(lambda _, args: trace.append(args[0]))]
            hooks += [b.register_forward_hook(lambda _, __, y: trace.append(y)) for b in m.transformer_blocks]
            with torch.no_grad():
                y = m(x, timestep=t, class_labels=labels).sample
            for h in hooks:
                h.remove()
            golden |= {f"{name}.hidden_states": x, f"{name}.timestep": t, f"{name}.class_labels": labels, f"{name}.sample": y}
            golden |= {f"{name}.hidden_states.{i}": h for i, h in enumerate(trace)}
        save_file({k: v.contiguous().clone() for k, v in golden.items()}, folder / "golden.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
