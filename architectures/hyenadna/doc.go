// Package hyenadna is the architecture of HyenaDNA, a family of genomic language
// models over single nucleotides (Nguyen et al., 2023): layers that mix positions
// with convolutions as long as the sequence (Poli et al., 2023), then an MLP, with
// norms in front of both. It follows the published programs, standalone_hyenadna.py
// and the classes made from it, HyenaDNAForCausalLM, HyenaDNAModel and
// HyenaDNAForSequenceClassification, whose names and configuration it reads, with F32
// weights.
//
// Importing the package registers the family as "hyenadna":
//
//	import _ "github.com/hfcompress/compress/architectures/hyenadna"
//
// # Inputs and outputs
//
// input_ids is I64 [batch, length], at most max_seq_len long. There are as many ids
// as the embedding has rows: the vocabulary, padded to a multiple. There is neither a
// mask nor positions: the published models are padded on the left with the pad token,
// which they read like any other.
//
// Outputs are "logits" [batch, length, ids], of a HyenaDNAModel "last_hidden_state",
// or of a classifier "logits" [batch, classes] from the position in front of the first
// pad token, the last one if there is no such, and with the flag output_hidden_states "hidden_states.0" (the
// embedding), one behind every layer, and a last one behind the final norm. The flag
// output_attentions is allowed; there are none.
//
// # A layer
//
// The input projection gives order+1 streams. A depthwise convolution of three
// positions, its own and the two before, goes over all of them. Then the last stream
// is multiplied with the one before it and convolved, order−1 times, and multiplied
// with the first. The filters of these convolutions are as long as the sequence and
// are computed in every call: a small MLP with sines from stored position vectors
// (pos_emb.z), times a window that decays with stored times (pos_emb.t).
//
// Convolutions need a device whose sessions implement nn.Convolver and
// nn.LongConvolver, as those of the CPU do. The result of a position depends on the
// tokens up to its own alone, to the bit: not on the length of the call, on what is
// behind it, or on the other sequences.
//
// # What can be saved
//
// The block "hyena.backbone.layers.0.mixer.in_proj" is the embedding, layer 0's norm
// and its input projection, with the embedding row as live residual. And all layers
// of the published models hold the same position vectors and times, which is 77 % of
// the largest checkpoint: equal tensors are stored once. A model reads them through
// one table then, whatever the number of layers.
package hyenadna
