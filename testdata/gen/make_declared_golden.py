"""Write architectures/declared/testdata/uce.safetensors: random weights in the
names of a UCE-like tower, two calls, and what PyTorch's modules compute for them.
The tower is the one of uce.json beside it.

    python testdata/gen/make_declared_golden.py

Versions: requirements.txt. The seed is fixed, so the same versions give the same
file.
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

V, WIDE, D, HEADS, FF, OUT, LAYERS = 40, 64, 16, 4, 32, 24, 2
torch.manual_seed(5)

pe = nn.Embedding(V, WIDE)
encoder = nn.Sequential(nn.Linear(WIDE, D), nn.GELU(), nn.LayerNorm(D))
layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, HEADS, FF, dropout=0.0), LAYERS, enable_nested_tensor=False)
decoder = nn.Sequential(nn.Sequential(nn.Linear(D, OUT), nn.LayerNorm(OUT), nn.GELU()))
for m in (encoder, layers, decoder):
    m.eval()
    for p in m.parameters():  # norm weights and biases that are not 1 and 0, biases that are not small
        if p.dim() == 1:
            p.data.add_(torch.randn_like(p) * 0.2)


def tower(ids, hidden_keys):
    with torch.no_grad():
        x = encoder(nn.functional.normalize(pe(ids), dim=-1)) * 4.0
        x = layers(x.transpose(0, 1), src_key_padding_mask=hidden_keys).transpose(0, 1)
        genes = decoder(x)
        return nn.functional.normalize(genes[:, 0], dim=-1), genes


tensors = {"pe_embedding.weight": pe.weight}
for prefix, module in (("encoder", encoder), ("transformer_encoder", layers), ("decoder", decoder)):
    tensors.update({f"{prefix}.{k}": v for k, v in module.state_dict().items()})
tensors["binary_decoder.0.weight"] = torch.randn(3, 3)
tensors["pos_encoder.pe"] = torch.randn(8, 1, D)

plain = torch.randint(0, V, (2, 9))
padded = torch.randint(0, V, (3, 7))
mask = torch.ones(3, 7, dtype=torch.int64)
mask[1, 5:] = 0
mask[2, 2:] = 0
for name, ids, hide in (("plain", plain, None), ("padded", padded, mask == 0)):
    cell, genes = tower(ids, hide)
    tensors[f"{name}/input_ids"] = ids
    tensors[f"{name}/cell_embedding"] = cell
    tensors[f"{name}/gene_embeddings"] = genes
tensors["padded/attention_mask"] = mask

path = pathlib.Path(__file__).parents[2] / "architectures/declared/testdata/uce.safetensors"
save_file({k: v.detach().contiguous() for k, v in tensors.items()}, path)
print(path, path.stat().st_size)
