"""Golden vectors for the text models, computed by transformers.

Each case is a tiny random model (config.json, model.safetensors) with
golden.safetensors: inputs and outputs of named runs, eager attention, one thread,
in the case's own dtype. testdata/gen/README.md says what the tensors are called.

    python testdata/gen/make_goldens.py --out architectures [--family gpt2] [--case NAME]
"""

import argparse
import json
import pathlib

import safetensors.torch
import torch
import transformers as tf

import cases

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


class Unclear(Exception):
    """Two candidates for a greedy choice are too close: another seed is needed."""


def randomise(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = any(w in name.lower() for w in ("norm", "ln_")) and name.endswith("weight")
            p.copy_((1.0 if norm else 0.0) + 0.2 * torch.randn(p.shape, generator=g))


def keep(out, run, r, attentions, hidden, first="logits"):
    out[f"{run}.{first}"] = r[first]
    if hidden:
        for i, h in enumerate(r.hidden_states):
            out[f"{run}.hidden_states.{i}"] = h
    if attentions:
        for i, w in enumerate(r.attentions):
            out[f"{run}.attentions.{i}"] = w


def inputs(out, run, given):
    for name, t in given.items():
        if t is not None:
            out[f"{run}.{name}"] = t
    if given.get("attention_mask") is not None:
        out[f"{run}.valid"] = given["attention_mask"]


def fresh(model):
    """Dynamic rotary frequencies remember the longest call so far: forget it."""
    rotary = getattr(getattr(model, "model", None), "rotary_emb", None)
    if rotary is not None and "dynamic" in str(rotary.rope_type):
        rotary.__init__(model.config)
        return False
    return True


@torch.no_grad()
def forward(model, out, run, attentions=True, hidden=True, first="logits", also=(), **given):
    given = {k: v for k, v in given.items() if v is not None}
    fresh(model)
    extra = {} if model.config.is_encoder_decoder or not hasattr(model.config, "use_cache") else {"use_cache": False}
    r = model(**given, **extra, output_hidden_states=True, output_attentions=True)
    inputs(out, run, given)
    keep(out, run, r, attentions, hidden, first)
    for name in also:
        out[f"{run}.{name}"] = r[name]
    return r


@torch.no_grad()
def cached(model, out, run, ids, mask=None, pos=None, first=3):
    """A few tokens at once, then one at a time; beside it the same tokens in one pass."""
    def cut(t, lo, hi):
        return None if t is None else t[:, lo:hi]

    extra = (lambda lo, hi: {}) if pos is None else (lambda lo, hi: {"position_ids": cut(pos, lo, hi)})
    full = forward(model, out, run, attentions=False, hidden=False, input_ids=ids, attention_mask=mask, position_ids=pos)
    same = fresh(model)
    r = model(input_ids=ids[:, :first], attention_mask=cut(mask, 0, first), **extra(0, first), use_cache=True)
    out[f"{run}.prefill.logits"] = r.logits
    steps = [r.logits]
    for k in range(ids.shape[1] - first):
        at = first + k
        r = model(input_ids=ids[:, at : at + 1], attention_mask=cut(mask, 0, at + 1), **extra(at, at + 1),
                  cache=r.cache, use_cache=True)
        out[f"{run}.step.{k}.logits"] = r.logits
        steps.append(r.logits)
    seen = (torch.ones_like(ids) if mask is None else mask).bool()
    gap = (torch.cat(steps, 1) - full.logits)[seen].abs().max().item()
    limit = 1e-4 if full.logits.dtype == F32 else 0.1
    assert not same or gap < limit * full.logits.abs().max().item(), gap


@torch.no_grad()
def greedy(model, out, run, ids, mask, eos, new=8):
    r = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=new, num_beams=1,
                       eos_token_id=eos, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    logits = torch.stack(r.logits, 1)
    best = logits.float().topk(2, -1).values
    gaps = best[..., 0] - best[..., 1]
    tail = r.sequences[:, -logits.shape[1] :]
    if eos is not None:  # what follows a row's first eos is padding, not a choice
        live = (tail == eos).cumsum(1) - (tail == eos).long() == 0
        gaps = gaps[live]
    margin = 1e-3 if r.logits[0].dtype == F32 else 0.06
    if gaps.min() <= margin:
        raise Unclear(run)
    out[f"{run}.input_ids"] = ids
    out[f"{run}.attention_mask"] = mask
    out[f"{run}.output_ids"] = r.sequences
    if eos is not None:
        out[f"{run}.eos_token_id"] = torch.tensor([eos])
    return tail


def positions(mask):
    return (mask.cumsum(1) - 1).clamp(min=0)


def left_mask(width, *pads):
    return torch.tensor([[0] * p + [1] * (width - p) for p in pads])


RIGHT = torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]])


def causal_runs(model, rows, case):
    out = {}
    forward(model, out, "batch", input_ids=rows(2, 6))
    forward(model, out, "right_pad", hidden=False, input_ids=rows(2, 6) * RIGHT, attention_mask=RIGHT)
    left = left_mask(6, 2, 0)
    pos = positions(left) if case.get("positions", True) else None
    forward(model, out, "left_pad", attentions=False, input_ids=rows(2, 6) * left, attention_mask=left, position_ids=pos)
    if pos is not None:
        jump = torch.tensor([[0, 1, 9, 10, 3, 3]])
        forward(model, out, "posids", attentions=False, hidden=False, input_ids=rows(1, 6),
                attention_mask=torch.ones(1, 6, dtype=torch.long), position_ids=jump)
    if case.get("long"):
        forward(model, out, "long", attentions=False, hidden=False, input_ids=rows(1, case["long"]))
    cached(model, out, "cache", rows(2, case.get("cache", 6)))
    left = left_mask(6, 0, 2)
    cached(model, out, "cache_pad", rows(2, 6) * left, left, positions(left) if pos is not None else None)
    if case.get("generate", True):
        prompt = rows(1, 3)
        greedy(model, out, "generate", prompt, torch.ones_like(prompt), None)
        if pos is not None:
            left = left_mask(4, 0, 2)
            prompts = rows(2, 4) * left
            new = greedy(model, out, "generate_pad", prompts, left, None)
            greedy(model, out, "generate_eos", prompts, left, int(new[0, 3]))
    return out


def encoder_runs(model, rows, case):
    """BERT and ESM: no cache, attention both ways."""
    out, first, also = {}, case.get("first", "logits"), case.get("also", ())
    def go(run, **given):
        forward(model, out, run, first=first, also=also, **given)
    go("single", input_ids=rows(1, 1))
    go("batch", input_ids=rows(2, 6))
    go("right_pad", input_ids=rows(2, 6) * RIGHT + case.get("pad", 0) * (1 - RIGHT), attention_mask=RIGHT)
    if case.get("left", True):  # a classifier reads the first position
        left = left_mask(6, 2, 0)
        go("left_pad", hidden=False, input_ids=rows(2, 6) * left + case.get("pad", 0) * (1 - left), attention_mask=left)
    if case.get("types"):
        go("types", token_type_ids=torch.tensor([[0, 0, 1, 1, 1, 0]]), input_ids=rows(1, 6))
    if case.get("positions", True):
        go("posids", attentions=False, position_ids=torch.tensor([[3, 1, 0, 7, 7, 2]]), input_ids=rows(1, 6))
    if "pooler_output" in also:  # mean pooling and normalisation of sentence-transformers
        with torch.no_grad():
            ids = rows(2, 6) * RIGHT
            last = model(input_ids=ids, attention_mask=RIGHT).last_hidden_state.float()
        shown = RIGHT.unsqueeze(-1).float()
        mean = (last * shown).sum(1) / shown.sum(1).clamp(min=1e-9)
        out.update({"pooled.input_ids": ids, "pooled.attention_mask": RIGHT, "pooled.mean": mean,
                    "pooled.sentence_embedding": torch.nn.functional.normalize(mean, p=2, dim=1)})
    if case.get("mask_token"):
        ids = rows(2, 6)
        ids[0, 2] = ids[1, 1] = ids[1, 4] = case["mask_token"]
        go("masked", input_ids=ids)
        ids = ids * RIGHT + case.get("pad", 0) * (1 - RIGHT)
        go("masked_pad", input_ids=ids, attention_mask=RIGHT)
    return out


def seq2seq_runs(model, rows, case):
    out = {}
    names = ("encoder_last_hidden_state",)
    @torch.no_grad()
    def go(run, **given):
        r = model(**given, use_cache=False, output_hidden_states=True, output_attentions=True)
        inputs(out, run, given)
        out.pop(f"{run}.valid", None)
        out[f"{run}.logits"] = r.logits
        for i, h in enumerate(r.encoder_hidden_states):
            out[f"{run}.encoder_hidden_states.{i}"] = h
        for i, h in enumerate(r.decoder_hidden_states):
            out[f"{run}.decoder_hidden_states.{i}"] = h
        for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
            for i, w in enumerate(r[name]):
                out[f"{run}.{name}.{i}"] = w
    go("batch", input_ids=rows(2, 6), decoder_input_ids=rows(2, 4))
    go("right_pad", input_ids=rows(2, 6) * RIGHT, attention_mask=RIGHT, decoder_input_ids=rows(2, 3),
       decoder_attention_mask=torch.tensor([[1, 1, 1], [1, 1, 0]]))
    ids = rows(1, 40)
    go("long", input_ids=ids, decoder_input_ids=rows(1, 30))
    for name in list(out):
        if name.startswith("long.") and ("attentions" in name or "hidden" in name):
            del out[name]
    prompt = rows(1, 5)
    greedy(model, out, "generate", prompt, torch.ones_like(prompt), None)
    right = torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    prompts = rows(2, 5) * right
    new = greedy(model, out, "generate_pad", prompts, right, None)
    greedy(model, out, "generate_eos", prompts, right, int(new[0, 3]))
    return out


RUNS = {"causal": causal_runs, "encoder": encoder_runs, "seq2seq": seq2seq_runs}


def save(out, path, dtype):
    meta = {"made_by": "testdata/gen/make_goldens.py", "torch": torch.__version__.split("+")[0],
            "transformers": tf.__version__}
    out = {k: v.detach().clone().contiguous() for k, v in out.items()}
    for k, v in out.items():
        assert v.dtype in (torch.int64, dtype, F32), (k, v.dtype)
        assert v.dtype == torch.int64 or torch.isfinite(v).all(), k
    safetensors.torch.save_file(out, path, metadata=meta)


def make(family, name, number, root):
    case = cases.CASES[family][name]
    dtype = case.get("dtype", F32)
    config = case["config"](**case["settings"])
    folder = root / family / "testdata" / "golden" / name
    seed = 1000 + 10 * number
    while True:
        model = case["model"](config).eval()
        randomise(model, seed)
        model.tie_weights()
        model = model.to(dtype)
        folder.mkdir(parents=True, exist_ok=True)
        if model.can_generate():
            model.generation_config = tf.GenerationConfig(decoder_start_token_id=getattr(config, "decoder_start_token_id", None))
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        if "prepare" in case:
            case["prepare"](folder)
        # What is on disk is what is run.
        model = case["model"].from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()
        if model.can_generate():
            model.generation_config = tf.GenerationConfig(decoder_start_token_id=getattr(config, "decoder_start_token_id", None))
        g = torch.Generator().manual_seed(seed + 1)
        low, high = case.get("ids", (1, config.vocab_size))
        try:  # Id 0 is the padding: real tokens are 1 and up.
            out = RUNS[case["runs"]](model, lambda n, w: torch.randint(low, high, (n, w), generator=g), case)
        except Unclear:
            seed += 1
            continue
        break
    save(case.get("finish", dict)(out), folder / "golden.safetensors", dtype)
    if "rewrite" in case:
        case["rewrite"](folder)
    print(f"{family}/{name}: seed {seed}, {sum(f.stat().st_size for f in folder.iterdir())} bytes, {len(out)} tensors")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True, help="the folder architectures")
    p.add_argument("--family", action="append")
    p.add_argument("--case", action="append", help="only this case; may be repeated")
    a = p.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    tf.logging.set_verbosity_error()
    tf.logging.disable_progress_bar()
    for family in a.family or cases.CASES:
        for number, name in enumerate(cases.CASES[family]):
            if not a.case or name in a.case:
                make(family, name, number, pathlib.Path(a.out))


if __name__ == "__main__":
    main()
