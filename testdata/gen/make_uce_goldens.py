"""Golden vectors for architectures/uce, from torch's own layers.

    python make_uce_goldens.py OUT

OUT becomes architectures/uce/testdata: a model of random weights with odd sizes,
and its outputs without a mask, with the published code's float mask (which adds 1
to the scores of masked keys), and with a boolean mask (which hides them). torch is as in requirements.txt.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn

VOCAB, TOKEN, HIDDEN, HEADS, INNER, DECODER, OUT, LAYERS, POSITIONS = 19, 40, 12, 3, 16, 10, 6, 2, 9


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.pe_embedding = nn.Embedding(VOCAB, TOKEN)
        self.encoder = nn.Sequential(nn.Linear(TOKEN, HIDDEN), nn.GELU(), nn.LayerNorm(HIDDEN))
        self.pos_encoder = nn.Module()
        self.pos_encoder.register_buffer("pe", torch.randn(POSITIONS, 1, HIDDEN))
        layer = nn.TransformerEncoderLayer(HIDDEN, HEADS, INNER, 0.0)
        self.transformer_encoder = nn.TransformerEncoder(layer, LAYERS)
        widths = [HIDDEN, DECODER, OUT, OUT]
        blocks = [nn.Sequential(nn.Linear(a, b), nn.LayerNorm(b), nn.GELU()) for a, b in zip(widths, widths[1:])]
        self.decoder = nn.Sequential(*blocks, nn.Linear(OUT, OUT))

    def forward(self, ids, mask):
        """ids [length, batch]; mask is what src_key_padding_mask takes."""
        x = nn.functional.normalize(self.pe_embedding(ids), dim=2)
        x = self.encoder(x) * HIDDEN**0.5
        x = x + self.pos_encoder.pe[: len(ids)]
        whole = self.transformer_encoder(x, src_key_padding_mask=mask)
        hidden, attentions = [x], []
        for layer in self.transformer_encoder.layers:
            _, w = layer.self_attn(x, x, x, key_padding_mask=mask, need_weights=True, average_attn_weights=False)
            attentions.append(w)
            x = layer(x, src_key_padding_mask=mask)
            hidden.append(x)
        assert torch.allclose(x, whole, atol=1e-6)
        genes = self.decoder(whole)
        return genes, nn.functional.normalize(genes[0], dim=1), hidden, attentions


def main(out):
    torch.manual_seed(11)
    m = Cell().eval()
    for p in m.parameters():  # norms that do something, and layers that differ
        nn.init.normal_(p, 0.3 if p.dim() == 1 else 0, 0.4)
    ids = torch.randint(VOCAB, (3, 7))
    visible = torch.ones(3, 7, dtype=torch.int64)
    visible[1, 5:] = 0
    visible[2, 2:] = 0
    for padding, mask in {"adds_one": 1 - visible.float(), "hidden": visible == 0}.items():
        case = out / padding
        case.mkdir(parents=True, exist_ok=True)
        save_file({k: v.contiguous() for k, v in m.state_dict().items()}, case / "model.safetensors")
        (case / "config.json").write_text(json.dumps({
            "model_type": "uce", "architectures": ["UCEModel"], "vocab_size": VOCAB, "token_dim": TOKEN, "hidden_size": HIDDEN,
            "num_attention_heads": HEADS, "intermediate_size": INNER, "decoder_size": DECODER, "output_dim": OUT,
            "num_hidden_layers": LAYERS, "max_position_embeddings": POSITIONS, "pad_token_id": 0, "padding": padding,
            "dtype": "float32",
        }, indent=2) + "\n")
        golden = {}
        for name, given in {"plain": None, "padded": mask}.items():
            with torch.no_grad():
                genes, cell, hidden, attentions = m(ids.T, given)
            golden |= {f"{name}.input_ids": ids, f"{name}.embedding": cell, f"{name}.gene_output": genes.transpose(0, 1)}
            if given is not None:
                golden[f"{name}.attention_mask"] = visible
            golden |= {f"{name}.hidden_states.{i}": h.transpose(0, 1) for i, h in enumerate(hidden)}
            golden |= {f"{name}.attentions.{i}": a for i, a in enumerate(attentions)}
        save_file({k: v.contiguous().clone() for k, v in golden.items()}, case / "golden.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
