"""Train the demo model: a small Llama over atomwise SMILES tokens.

The result is what internal/demomodel ships. The data are the MOSES training
and test splits as the molsets wheel carries them; see README.md here for the
commands. Steps, seed and thread count are fixed, so a run on the same machine
and versions gives the same weights; other machines give close ones.
"""

import argparse
import collections
import gzip
import hashlib
import json
import math
import pathlib
import re
import time
import zipfile

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

WHEEL_SHA256 = "7f4450e3ebecebe79c3a2a55950c93daddee071120daf64a163d03481e811d34"
ATOM = r"\[[^\]]+\]|Br|Cl|%\d\d|."
PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
SPECIAL = [PAD, BOS, EOS, UNK]
# SMILES tokens that MOSES lacks. They keep the vocabulary usable for a later
# fine-tune on drug-like molecules. Their embedding rows are never trained; their
# head rows learn only that the token does not come.
RESERVED = ["I", "P", "[N+]", "[O-]"]
SEED = 20261129
VALIDATION = 4096
TEST = 4096


def read_wheel(path):
    blob = pathlib.Path(path).read_bytes()
    digest = hashlib.sha256(blob).hexdigest()
    if digest != WHEEL_SHA256:
        raise SystemExit(f"{path}: sha256 {digest}, expected {WHEEL_SHA256}")
    out = {}
    with zipfile.ZipFile(path) as z:
        for split in ("train", "test"):
            raw = gzip.decompress(z.read(f"moses/dataset/data/{split}.csv.gz"))
            rows = raw.decode("ascii").split("\n")[1:]
            out[split] = [r.split(",")[0] for r in rows if r]
    return out


def build_tokenizer(smiles):
    atom = re.compile(ATOM)
    seen = collections.Counter()
    for s in smiles:
        seen.update(atom.findall(s))
    vocab = {t: i for i, t in enumerate(SPECIAL + sorted(set(seen) | set(RESERVED)))}
    tok = Tokenizer(models.WordLevel(vocab, unk_token=UNK))
    tok.pre_tokenizer = pre_tokenizers.Split(Regex(ATOM), "isolated")
    tok.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, vocab[BOS])]
    )
    tok.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tok,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        pad_token=PAD,
        padding_side="left",
        model_max_length=128,
    )
    return fast, vocab, atom


def save_tokenizer(tokenizer, folder):
    """The library's files, and the two that older readers of the Hub layout look for."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    # The name that transformers 4 knows as well as 5.
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    special = {"bos_token": BOS, "eos_token": EOS, "pad_token": PAD, "unk_token": UNK}
    (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2) + "\n")


def encode(smiles, vocab, atom):
    return [
        np.array([vocab[BOS], *(vocab[t] for t in atom.findall(s)), vocab[EOS]], np.int64)
        for s in smiles
    ]


def collate(rows, pad):
    width = max(len(r) for r in rows)
    ids = torch.full((len(rows), width), pad)
    for i, r in enumerate(rows):
        ids[i, : len(r)] = torch.from_numpy(r)
    return ids


def batches(rows, size, rng):
    """Endless batches of similar length: sort pools of 64 batches, then shuffle them."""
    while True:
        order = rng.permutation(len(rows))
        for lo in range(0, len(order) - 64 * size + 1, 64 * size):
            pool = sorted(order[lo : lo + 64 * size], key=lambda i: len(rows[i]))
            for k in rng.permutation(64):
                yield [rows[i] for i in pool[k * size : (k + 1) * size]]


def losses(model, ids, pad):
    """Summed next-token loss and the number of predicted tokens."""
    mask = (ids != pad).long()
    logits = model(input_ids=ids[:, :-1], attention_mask=mask[:, :-1], use_cache=False).logits
    target = ids[:, 1:].masked_fill(ids[:, 1:] == pad, -100)
    total = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), target.reshape(-1), reduction="sum"
    )
    return total, int((target != -100).sum())


@torch.no_grad()
def evaluate(model, rows, pad):
    total, count = 0.0, 0
    rows = sorted(rows, key=len)
    for lo in range(0, len(rows), 256):
        t, n = losses(model, collate(rows[lo : lo + 256], pad), pad)
        total, count = total + t.item(), count + n
    return total / count


def unigram(train, held):
    """Loss of the best single distribution over next tokens, from the training set."""
    c = collections.Counter()
    for r in train:
        c.update(r[1:].tolist())
    n = sum(c.values())
    seen = [-math.log(c[t] / n) for r in held for t in r[1:].tolist()]
    return sum(seen) / len(seen)


@torch.no_grad()
def ablate(model, rows, pad, log):
    """Loss with one decoder layer taken out: an untrained layer would cost nothing."""
    layers = model.model.layers
    for i in range(len(layers)):
        model.model.layers = torch.nn.ModuleList(l for j, l in enumerate(layers) if j != i)
        model.model.config.num_hidden_layers = len(layers) - 1
        log(f"layer {i} removed: validation loss {evaluate(model, rows, pad):.4f}")
        model.model.config.num_hidden_layers = len(layers)
    model.model.layers = layers


@torch.no_grad()
def sample(model, vocab, count, log, train):
    torch.manual_seed(SEED)
    start = torch.full((count, 1), vocab[BOS])
    out = model.generate(
        start, attention_mask=torch.ones_like(start), do_sample=True, top_k=0,
        max_new_tokens=80, pad_token_id=vocab[PAD], eos_token_id=vocab[EOS],
    )
    names = {i: t for t, i in vocab.items()}
    texts, ended = [], 0
    for row in out.tolist():
        body = row[1:]
        if vocab[EOS] in body:
            ended += 1
            body = body[: body.index(vocab[EOS])]
        texts.append("".join(names[i] for i in body))
    line = f"sampled {count}: ended {ended}, unique {len(set(texts))}"
    try:
        from rdkit import Chem, RDLogger

        RDLogger.DisableLog("rdApp.*")
        good = [t for t in texts if t and Chem.MolFromSmiles(t) is not None]
        line += f", valid by RDKit {len(good)}, not in the training set {len(set(good) - train)}"
    except ImportError:
        line += ", RDKit is not installed: validity was not counted"
    log(line)
    for t in texts[:8]:
        log(f"  {t}")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--wheel", required=True, help="molsets-0.3.1-py3-none-any.whl")
    p.add_argument("--out", required=True, help="new folder for main/, sharded/ and training.log")
    p.add_argument("--steps", type=int, default=5500)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--dry-run", action="store_true", help="train, but write no weights")
    a = p.parse_args()

    torch.set_num_threads(a.threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(SEED)
    out = pathlib.Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    kept = []

    def log(line):
        print(line, flush=True)
        kept.append(line)
        (out / "training.log").write_text("\n".join(kept) + "\n")

    data = read_wheel(a.wheel)
    tokenizer, vocab, atom = build_tokenizer(data["train"])
    pad = vocab[PAD]
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(data["train"]))
    held = [data["train"][i] for i in order[:VALIDATION]]
    kept_smiles = [data["train"][i] for i in order[VALIDATION:]]
    test = [data["test"][i] for i in rng.permutation(len(data["test"]))[:TEST]]
    train_rows = encode(kept_smiles, vocab, atom)
    val_rows, test_rows = encode(held, vocab, atom), encode(test, vocab, atom)

    config = LlamaConfig(
        vocab_size=len(vocab), hidden_size=128, intermediate_size=384,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4, head_dim=32,
        max_position_embeddings=256, rms_norm_eps=1e-6, hidden_act="silu",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False, attention_bias=False, mlp_bias=False,
        bos_token_id=vocab[BOS], eos_token_id=vocab[EOS], pad_token_id=pad,
    )
    model = LlamaForCausalLM(config).float()
    first = {k: v.clone() for k, v in model.state_dict().items()}
    uni = unigram(train_rows[:200000], val_rows)
    log(f"torch {torch.__version__.split('+')[0]}, seed {SEED}, threads {a.threads}, steps {a.steps}, "
        f"batch {a.batch} molecules, lr {a.lr}")
    log(f"vocabulary {len(vocab)}: {json.dumps(vocab)}")
    log(f"parameters {sum(t.numel() for t in model.parameters())}, "
        f"train {len(train_rows)} molecules, validation {len(val_rows)}, test {len(test_rows)}")
    log(f"baselines in nats per token: uniform {math.log(len(vocab)):.4f}, unigram {uni:.4f}")

    decay = [t for t in model.parameters() if t.ndim == 2]
    plain = [t for t in model.parameters() if t.ndim != 2]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
        lr=a.lr, betas=(0.9, 0.98), fused=True,
    )
    warm = max(1, a.steps // 25)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt,
        lambda s: (s + 1) / warm if s < warm
        else 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (s - warm) / (a.steps - warm))),
    )
    source = batches(train_rows, a.batch, rng)
    begun, run_total, run_count, tokens = time.monotonic(), 0.0, 0, 0
    model.train()
    for step in range(1, a.steps + 1):
        total, count = losses(model, collate(next(source), pad), pad)
        opt.zero_grad(set_to_none=True)
        (total / count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        run_total, run_count, tokens = run_total + total.item(), run_count + count, tokens + count
        if step % 250 == 0 or step == a.steps:
            model.eval()
            val = evaluate(model, val_rows[:1024], pad)
            model.train()
            log(f"step {step:5d} tokens {tokens:9d} train {run_total / run_count:.4f} "
                f"validation(1024) {val:.4f} seconds {time.monotonic() - begun:.0f}")
            run_total, run_count = 0.0, 0

    model.eval()
    log(f"validation loss {evaluate(model, val_rows, pad):.4f}, test loss {evaluate(model, test_rows, pad):.4f}")
    ablate(model, val_rows[:1024], pad, log)
    for k, v in model.state_dict().items():
        if v.ndim == 2:
            log(f"moved {k}: {(v - first[k]).norm() / first[k].norm():.2f} of its first norm")
    sample(model, vocab, 100, log, set(data["train"]))
    sample(model, vocab, 1000, log, set(data["train"]))
    if a.dry_run:
        return

    model.generation_config = GenerationConfig(
        bos_token_id=vocab[BOS], eos_token_id=vocab[EOS], pad_token_id=pad, max_new_tokens=80
    )
    for name, limit in (("main", "1GB"), ("sharded", "1300KB")):
        model.save_pretrained(out / name, max_shard_size=limit)
        save_tokenizer(tokenizer, out / name)


if __name__ == "__main__":
    main()
