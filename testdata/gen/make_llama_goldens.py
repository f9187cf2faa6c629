"""Golden vectors for architectures/llama, computed by transformers.

Each case is a tiny random LlamaForCausalLM (config.json, model.safetensors) with
golden.safetensors: inputs and outputs of named runs, float32, eager attention, one
thread. The case "demo" holds the outputs of the trained model alone. The folder's
README.md says what each tensor is and which rows have a meaning.
"""

import argparse
import json
import pathlib

import safetensors.torch
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

BASE = dict(
    vocab_size=19, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=128,
    rms_norm_eps=1e-6, tie_word_embeddings=False, attention_bias=False, mlp_bias=False,
    pad_token_id=0, bos_token_id=1, eos_token_id=2,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
)
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}
CASES = {
    "mha": {},
    "gqa": dict(vocab_size=23, hidden_size=36, intermediate_size=32,
                num_attention_heads=6, num_key_value_heads=2, rms_norm_eps=1e-5),
    "mqa": dict(num_key_value_heads=1, num_hidden_layers=3, intermediate_size=32),
    "tied": dict(vocab_size=40, tie_word_embeddings=True),
    "theta": dict(vocab_size=17, hidden_size=24, intermediate_size=40, head_dim=24,
                  rope_parameters={"rope_type": "default", "rope_theta": 500000.0}),
    "bias": dict(attention_bias=True, mlp_bias=True),
    "llama3_rope": dict(num_attention_heads=2, num_key_value_heads=1, rope_parameters=LLAMA3),
    "linear_rope": dict(rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}),
}
# These two are written with the key names of transformers 4 (rope_theta and
# rope_scaling at the top, torch_dtype), which most checkpoints on the Hub have.
OLD_STYLE = {"theta", "linear_rope"}
MARGIN = 1e-3


def randomise(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("norm.weight"):
                p.copy_(1 + 0.2 * torch.randn(p.shape, generator=g))
            else:
                p.copy_(0.2 * torch.randn(p.shape, generator=g))


def old_style(path):
    c = json.loads(path.read_text())
    rope = c.pop("rope_parameters")
    c["rope_theta"] = rope.pop("rope_theta")
    c["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    c["torch_dtype"] = c.pop("dtype")
    c["transformers_version"] = "4.46.0"
    path.write_text(json.dumps(c, indent=2, sort_keys=True) + "\n")


@torch.no_grad()
def forward(model, out, run, ids, mask=None, pos=None, attentions=True, hidden=True):
    r = model(input_ids=ids, attention_mask=mask, position_ids=pos, use_cache=False,
              output_hidden_states=True, output_attentions=attentions)
    last = model.model(input_ids=ids, attention_mask=mask, position_ids=pos, use_cache=False)
    assert torch.equal(last.last_hidden_state, r.hidden_states[-1])
    assert torch.equal(r.hidden_states[0], model.model.embed_tokens(ids))
    out[f"{run}.input_ids"] = ids
    if mask is not None:
        out[f"{run}.attention_mask"] = mask
        out[f"{run}.valid"] = mask
    if pos is not None:
        out[f"{run}.position_ids"] = pos
    out[f"{run}.logits"] = r.logits
    if hidden:
        for i, h in enumerate(r.hidden_states):
            out[f"{run}.hidden_states.{i}"] = h
    if attentions:
        for i, w in enumerate(r.attentions):
            out[f"{run}.attentions.{i}"] = w
    return r


@torch.no_grad()
def cached(model, out, run, ids, mask=None, pos=None):
    """Five tokens at once, then one at a time; beside it the same tokens in one pass."""
    def cut(t, lo, hi):
        return None if t is None else t[:, lo:hi]

    full = forward(model, out, run, ids, mask, pos, attentions=False, hidden=False)
    r = model(input_ids=ids[:, :5], attention_mask=cut(mask, 0, 5), position_ids=cut(pos, 0, 5), use_cache=True)
    out[f"{run}.prefill.logits"] = r.logits
    steps = [r.logits]
    for k in range(ids.shape[1] - 5):
        r = model(input_ids=ids[:, 5 + k : 6 + k], attention_mask=cut(mask, 0, 6 + k),
                  position_ids=cut(pos, 5 + k, 6 + k), cache=r.cache, use_cache=True)
        out[f"{run}.step.{k}.logits"] = r.logits
        steps.append(r.logits)
    keep = (torch.ones_like(ids) if mask is None else mask).bool()
    gap = (torch.cat(steps, 1) - full.logits)[keep].abs().max().item()
    assert gap < 1e-4 * full.logits.abs().max().item(), gap


@torch.no_grad()
def greedy(model, out, run, ids, mask, eos):
    r = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=12,
                       eos_token_id=eos, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    best = torch.stack(r.logits, 1).topk(2, -1).values
    gaps = best[..., 0] - best[..., 1]
    new = r.sequences[:, ids.shape[1] :]
    if eos is not None:  # what follows a row's first eos is padding, not a choice
        live = (new == eos).cumsum(1) - (new == eos).long() == 0
        gaps = gaps[live]
    assert gaps.min() > MARGIN, f"{run}: two tokens are {gaps.min():.2e} apart: change the seed"
    out[f"{run}.input_ids"] = ids
    out[f"{run}.attention_mask"] = mask
    out[f"{run}.output_ids"] = r.sequences
    if eos is not None:
        out[f"{run}.eos_token_id"] = torch.tensor([eos])
        out[f"{run}.pad_token_id"] = torch.tensor([0])
    return new


def positions(mask):
    return (mask.cumsum(1) - 1).clamp(min=0)


def left_mask(width, *pads):
    return torch.tensor([[0] * p + [1] * (width - p) for p in pads])


def runs(model, rows, eos):
    """rows(n, width) gives token ids; eos None makes a run's own eos (tiny models never learnt one)."""
    out = {}
    forward(model, out, "single", rows(1, 1))
    forward(model, out, "batch", rows(2, 7))
    right = torch.tensor([[1] * 7, [1, 1, 1, 1, 0, 0, 0]])
    forward(model, out, "right_pad", rows(2, 7) * right, right)
    left = left_mask(7, 3, 0)
    ids = rows(2, 7) * left
    forward(model, out, "left_pad", ids, left, positions(left))
    forward(model, out, "left_pad_nopos", ids, left)
    # The mask of ones keeps transformers from reading a jump in the positions as
    # the border of two packed sequences.
    jump = torch.tensor([[0, 1, 2, 10, 11, 40, 41], [5, 3, 3, 90, 17, 0, 64]])
    forward(model, out, "posids", rows(2, 7), torch.ones(2, 7, dtype=torch.long), jump)
    forward(model, out, "long", rows(1, 64), attentions=False)
    cached(model, out, "cache", rows(2, 9))
    left = left_mask(9, 0, 3)
    cached(model, out, "cache_pad", rows(2, 9) * left, left, positions(left))

    prompt = rows(1, 4)
    greedy(model, out, "generate", prompt, torch.ones_like(prompt), eos)
    left = left_mask(6, 0, 3)
    prompts = rows(2, 6) * left
    new = greedy(model, out, "generate_pad", prompts, left, eos)
    if eos is None:
        greedy(model, out, "generate_eos", prompts, left, int(new[0, 4]))
    return out


def save(out, path):
    meta = {
        "made_by": "testdata/gen/make_llama_goldens.py",
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
    }
    out = {k: v.detach().clone().contiguous() for k, v in out.items()}
    for k, v in out.items():
        assert v.dtype in (torch.int64, torch.float32), k
        assert v.dtype == torch.int64 or torch.isfinite(v).all(), k
    safetensors.torch.save_file(out, path, metadata=meta)


def tiny(name, number, root):
    config = LlamaConfig(**{**BASE, **CASES[name]})
    seed = 1000 + 10 * number
    while True:  # the first seed whose greedy choices are all clear
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config).float().eval()
        randomise(model, seed)
        if config.tie_word_embeddings:
            model.tie_weights()
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        # Without the generation config the file's own eos plays no part.
        model.generation_config.eos_token_id = None
        model.config.save_pretrained(folder)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        if name in OLD_STYLE:
            old_style(folder / "config.json")
        # What is on disk is what is run.
        model = LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        model.generation_config.eos_token_id = None
        for key in ("rope_theta", "rope_type"):
            assert model.config.rope_parameters[key] == config.rope_parameters[key], key
        g = torch.Generator().manual_seed(seed + 1)
        try:
            # Id 0 is the padding: real tokens are 1 and up.
            out = runs(model, lambda n, w: torch.randint(1, config.vocab_size, (n, w), generator=g), None)
        except AssertionError as e:
            if "change the seed" not in str(e):
                raise
            seed += 1
            continue
        break
    save(out, folder / "golden.safetensors")
    print(f"{name}: seed {seed}, {sum(f.stat().st_size for f in folder.iterdir())} bytes, "
          f"largest logit {out['batch.logits'].abs().max():.2f}, {len(out)} tensors")


DEMO_SMILES = [
    "CC(C)(C)C(=O)C(Oc1ccc(Cl)cc1)n1ccnc1",
    "Cc1c(Cl)cccc1Nc1ncccc1C(=O)OCC(O)CO",
    "COc1ccc(-c2cc(=O)c3c(O)c(OC)c(OC)cc3o2)cc1O",
]


def demo(folder, root):
    from tokenizers import Tokenizer

    tok = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    stream = [t for s in DEMO_SMILES for t in tok.encode(s).ids + [2]] * 4
    at = 0

    def rows(n, width):
        """Windows of real molecules: every second one begins at a <bos>, the others anywhere."""
        nonlocal at
        got = []
        for _ in range(n):
            got.append(stream[at : at + width])
            at = (at + width) % (len(stream) - 64)
            if len(got) % 2 == 0 or n == 1:
                while stream[at] != 1:
                    at = (at + 1) % (len(stream) - 64)
        return torch.tensor(got)

    model = LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    out = runs(model, rows, 2)
    (root / "demo").mkdir(parents=True, exist_ok=True)
    save(out, root / "demo" / "golden.safetensors")
    print(f"demo: {(root / 'demo' / 'golden.safetensors').stat().st_size} bytes, {len(out)} tensors")
    for run in ("generate", "generate_pad"):
        for row in out[f"{run}.output_ids"].tolist():
            print(" ", row, tok.decode(row))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True, help="architectures/llama/testdata/golden")
    p.add_argument("--case", action="append", help="only this case; may be repeated")
    p.add_argument("--demo", help="folder of the trained model; makes the case demo")
    a = p.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    root = pathlib.Path(a.out)
    for number, name in enumerate(CASES):
        if not a.case or name in a.case:
            tiny(name, number, root)
    if a.demo:
        demo(a.demo, root)


if __name__ == "__main__":
    main()
