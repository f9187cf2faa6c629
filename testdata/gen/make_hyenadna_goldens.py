"""Golden vectors for architectures/hyenadna, from the published program.

    python make_hyenadna_goldens.py STANDALONE OUT

STANDALONE is standalone_hyenadna.py of github.com/HazyResearch/hyena-dna, as its
commit 372625a797eb579e32c500f0ff9fa384fbd4b02f left it (the SHA-256 is checked). It
is run, and nothing is taken from it. OUT becomes
architectures/hyenadna/testdata/golden: small random models under the names and
configurations of the Hub's HyenaDNA repositories, with outputs for several lengths.
torch and transformers are as in requirements.txt, with einops==0.8.2 besides.
"""

import hashlib
import importlib.util
import json
import pathlib
import sys
import types

import torch
from safetensors.torch import save_file
from torch import nn
from transformers.tokenization_utils import PreTrainedTokenizer  # noqa: F401, looks for torchvision, so before published

SHA256 = "9121af5eb03ae68ed104d381046418453a8483d4cdbfe94a5ddb016d669a4c53"


def published(path):
    """The program as a module. Of torchvision it uses only StochasticDepth, with
    probability 0, where it returns its input."""
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SHA256, path
    vision, ops = types.ModuleType("torchvision"), types.ModuleType("torchvision.ops")
    ops.StochasticDepth = lambda p, mode: nn.Identity() if p == 0 else sys.exit("drop_path")
    sys.modules |= {"torchvision": vision, "torchvision.ops": ops}
    spec = importlib.util.spec_from_file_location("standalone_hyenadna", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Settings of a configuration; what is left out is as here.
DEFAULTS = {
    "vocab_size": 12, "pad_vocab_size_multiple": 8, "d_model": 24, "d_inner": 96, "n_layer": 3, "max_seq_len": 150, "hyena_order": 2,
    "short_filter_order": 3, "emb_dim": 5, "filter_order": 16, "num_inner_mlps": 2, "train_freq": True, "activation_freq": 10,
    "use_bias": True, "layer_norm_epsilon": 1e-05, "tie_word_embeddings": False,
}

# One case for each setting that changes a computation. "trained" gives each layer
# positions of its own, "once" stores a layer's frequencies under one name, "base" is
# a model without a head, "labels" one that classifies sequences.
CASES = {
    "plain": ({}, {"trained"}),
    "third_order": ({"hyena_order": 3, "d_model": 12, "d_inner": 20, "n_layer": 2, "emb_dim": 3, "num_inner_mlps": 1}, {"once"}),
    "tied": ({"tie_word_embeddings": True, "d_model": 17, "n_layer": 2, "num_inner_mlps": 0, "filter_order": 7}, {"once"}),
    "fixed_frequency": ({"train_freq": False, "activation_freq": 3, "n_layer": 2, "pad_vocab_size_multiple": 1}, set()),
    "base": ({"d_model": 8, "d_inner": 12, "n_layer": 2, "max_seq_len": 1300, "filter_order": 8}, {"base", "once"}),
    "classifier": ({"d_model": 16, "d_inner": 24, "n_layer": 1, "num_labels": 3}, {"labels", "once"}),
}

PAD = 4


def config(settings, kinds):
    name = "HyenaDNAModel" if "base" in kinds else "HyenaDNAForSequenceClassification" if "labels" in kinds else "HyenaDNAForCausalLM"
    return {
        "model_type": "hyenadna", "architectures": [name],
        "auto_map": {"AutoConfig": "configuration_hyena.HyenaConfig", "AutoModel": "modeling_hyena.HyenaDNAModel",
                     "AutoModelForCausalLM": "modeling_hyena.HyenaDNAForCausalLM",
                     "AutoModelForSequenceClassification": "modeling_hyena.HyenaDNAForSequenceClassification"},
        "pad_token_id": PAD, "torch_dtype": "float32", "embed_dropout": 0.1, "hyena_dropout": 0.0, "hyena_filter_dropout": 0.0,
        "initializer_range": 0.02, **settings,
    }


def build(module, s, kinds):
    layer = {"l_max": s["max_seq_len"], "order": s["hyena_order"], "filter_order": s["filter_order"], "emb_dim": s["emb_dim"],
             "num_inner_mlps": s["num_inner_mlps"], "w": s["activation_freq"], "lr_pos_emb": 1e-5 if "trained" in kinds else 0.0}
    m = module.HyenaDNAModel(
        d_model=s["d_model"], n_layer=s["n_layer"], d_inner=s["d_inner"], vocab_size=s["vocab_size"], layer=layer,
        pad_vocab_size_multiple=s["pad_vocab_size_multiple"], layer_norm_epsilon=s["layer_norm_epsilon"], residual_in_fp32=True,
    ).eval()
    with torch.no_grad():
        for name, p in m.named_parameters():
            if name.endswith("freq"):
                if s["train_freq"]:
                    p.mul_(1 + 0.2 * torch.randn_like(p))
            elif name.endswith("pos_emb.z"):
                p.add_(0.05 * torch.randn_like(p))
            elif "implicit_filter" in name:  # sines of large angles would only magnify rounding errors
                nn.init.normal_(p, 0, 0.1 if p.dim() == 1 else 0.3 / p.shape[-1] ** 0.5)
            else:  # norms that do something, and layers that differ
                nn.init.normal_(p, 0.3 if "norm" in name or "ln_f" in name else 0, 0.4 if p.dim() == 1 else 0.8 / p.shape[-1] ** 0.5)
    return m


def classified(last, ids):
    """The rows that the Hub's classifier chooses, which the standalone program does
    not have: in front of the first pad token, and the last one without any."""
    first = [row.index(PAD) if PAD in row else 0 for row in ids.tolist()]
    return torch.stack([rows[at - 1] for rows, at in zip(last, first)])


def run(m, head, ids, labels=False):
    with torch.no_grad():
        hidden = [m.backbone.embeddings(ids)]
        state, residual = hidden[0], None
        for layer in m.backbone.layers:
            state, residual = layer(state, residual)
            hidden.append(state + residual)
        last = m(ids)
        hidden.append(last)
        out = {"last_hidden_state": last} if head is None else {"logits": (classified(last, ids) if labels else last) @ head.T}
    return out | {f"hidden_states.{i}": h for i, h in enumerate(hidden)}


def inputs(rows, s):
    """Runs of several lengths; the padding is tokens, as the programs have it."""
    longest = s["max_seq_len"]
    sequence = lambda n: torch.randint(7, 12, (n,))  # nucleotides
    padded = lambda n, left: torch.cat([torch.full((n,), PAD), sequence(30 - n)] if left else [sequence(30 - n), torch.full((n,), PAD)])
    return {
        "one": torch.tensor([[7]]),
        "every_id": torch.arange(rows)[None],
        "padded_left": torch.stack([padded(n, True) for n in (0, 13, 29)]),
        "padded_right": torch.stack([padded(n, False) for n in (0, 13)]),
        "blocks": torch.stack([sequence(64) for _ in range(2)]),
        "longest": sequence(longest)[None],
        "odd": sequence(99)[None],
    }


def main(standalone, out):
    module = published(standalone)
    for name, (changes, kinds) in CASES.items():
        torch.manual_seed(sum(name.encode()))
        s = DEFAULTS | changes
        m = build(module, s, kinds)
        state = {k: v.contiguous().clone() for k, v in m.state_dict().items()}
        for key in list(state):
            if key.endswith("freq") and (not s["train_freq"] or "once" in kinds and not key.endswith("filter.1.freq")):
                del state[key]
        embedding = state["backbone.embeddings.word_embeddings.weight"]
        head = None
        if "base" not in kinds:
            head = embedding if s["tie_word_embeddings"] else torch.randn_like(embedding)
            if "labels" in kinds:
                head = torch.randn(s["num_labels"], s["d_model"])
            state = {"hyena." + k: v for k, v in state.items()}
            if not s["tie_word_embeddings"]:
                state["score.weight" if "labels" in kinds else "lm_head.weight"] = head
        case = out / name
        case.mkdir(parents=True, exist_ok=True)
        save_file(state, case / "model.safetensors")
        (case / "config.json").write_text(json.dumps(config(s, kinds), indent=2) + "\n")
        golden = {}
        for label, ids in inputs(len(embedding), s).items():
            golden[f"{label}.input_ids"] = ids
            golden |= {f"{label}.{k}": v for k, v in run(m, head, ids, "labels" in kinds).items()}
        save_file({k: v.contiguous().clone() for k, v in golden.items()}, case / "golden.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
