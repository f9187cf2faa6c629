"""How far two summation orders of the reference itself are apart in 16-bit types.

Runs the 16-bit golden cases in torch twice: as they are, and with the sums of
matrix products (and, with --all, of norms and softmax) taken in float64 and
rounded once, at the same places. Prints for each case how many values differ and
how many by more than two units in the last place: what no implementation with
another order of summation can be expected to keep below.

    python testdata/gen/check_halves.py --golden architectures/llama/testdata/golden [--all] [--threads 2]
"""

import argparse
import json
import pathlib

import safetensors.torch
import torch
import transformers as tf
from torch.overrides import TorchFunctionMode

F = torch.nn.functional
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Exact(TorchFunctionMode):
    """Sums in float64, one rounding to the operands' type."""

    def __init__(self, everything):
        self.functions = {F.linear, torch.matmul, torch.Tensor.matmul, torch.bmm}
        if everything:
            self.functions |= {F.layer_norm, F.softmax}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        dtype = args[0].dtype if args and isinstance(args[0], torch.Tensor) else None
        if func in self.functions and dtype in HALVES.values() and kwargs.get("dtype") in (None, dtype):
            wide = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
            kwargs = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in kwargs.items() if k != "dtype"}
            return func(*wide, **kwargs).to(dtype)
        return func(*args, **kwargs)


def ulps(got, want):
    bits = 8 if want.dtype == torch.bfloat16 else 11
    least = -133 if bits == 8 else -24
    got, want = got.double(), want.double()
    unit = torch.pow(2.0, (torch.frexp(want).exponent - bits).clamp(min=least).double())
    return (got - want).abs() / unit


def outputs(r):
    out = {}
    for k, v in r.items():
        for i, t in enumerate(v if isinstance(v, (tuple, list)) else [v]):
            if isinstance(t, torch.Tensor) and t.dtype in HALVES.values():
                out[f"{k}.{i}"] = t
    return out


@torch.no_grad()
def check(folder, everything):
    config = json.loads((folder / "config.json").read_text())
    dtype = HALVES.get(config.get("dtype", config.get("torch_dtype")))
    if dtype is None or not (folder / "model.safetensors").exists():
        return
    model = getattr(tf, config["architectures"][0]).from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()
    golden = safetensors.torch.load_file(folder / "golden.safetensors")
    values = differ = off = 0
    for run in sorted({k.split(".")[0] for k in golden if k.endswith((".logits", ".last_hidden_state"))}):
        given = {k: golden[f"{run}.{k}"] for k in ("input_ids", "attention_mask", "position_ids", "decoder_input_ids",
                                                   "token_type_ids") if f"{run}.{k}" in golden}
        def go():
            return outputs(model(**given, output_hidden_states=True, output_attentions=True))
        want = go()
        with Exact(everything):
            got = go()
        for name, t in want.items():
            u = ulps(got[name], t)
            valid = golden.get(f"{run}.valid")
            if valid is not None:  # rows with a meaning
                shape = [valid.shape[0]] + [1] * (t.dim() - 3) + [valid.shape[1], 1]
                u = u[valid.view(shape).expand(t.shape).bool()] if t.shape[-2] == valid.shape[1] else u
            values, differ, off = values + u.numel(), differ + int((u > 0).sum()), off + int((u > 2).sum())
    print(f"{folder.name}: {values} values of {config.get('dtype')}, {100 * differ / values:.2f} % differ, "
          f"{off} ({100 * off / values:.2f} %) by more than 2 units")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--golden", required=True, type=pathlib.Path)
    p.add_argument("--all", action="store_true", help="norms and softmax too")
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    tf.logging.set_verbosity_error()
    tf.logging.disable_progress_bar()
    for folder in sorted(a.golden.iterdir()):
        if (folder / "golden.safetensors").exists() and (folder / "config.json").exists():
            check(folder, a.all)


if __name__ == "__main__":
    main()
