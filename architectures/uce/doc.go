// Package uce is the architecture of Universal Cell Embeddings (Rosen et al.,
// 2023): a sequence of gene and chromosome tokens, each with a frozen vector of a
// protein language model, projected into a transformer encoder with norms after
// the residual sums; the first position's output is the cell's embedding.
//
// Importing the package registers the family as "uce":
//
//	import _ "github.com/hfcompress/compress/architectures/uce"
//
// The published checkpoints have no config.json; docs/models.md gives the one that
// this package reads, and names are those of the published code.
//
// # Inputs
//
// input_ids and attention_mask are I64 [batch, length]; the cell token comes
// first. Without attention_mask every position counts. Where it is 0, the
// published code adds 1 to the scores of the key and hides nothing, since its
// mask holds floats; with "padding": "hidden" such keys are hidden.
//
// # Outputs
//
// "embedding" is F32 [batch, output], a row of length 1; "gene_output" [batch,
// length, output] what the decoder gives for each position. With the flag
// output_hidden_states there are "hidden_states.0", which enters the first layer,
// and "hidden_states.i", the result of layer i, [batch, length, hidden]; with
// output_attentions "attentions.i", [batch, heads, length, length].
//
// # The finite block
//
// "encoder" is everything from the token's vector to the sum with its position:
// division by its length, projection, GELU, layer norm, and the factor √hidden.
// The vectors are frozen inputs of the published model, 5,120 columns wide, and
// nothing else reads them, so a table of 1,280 columns takes the place of both.
// Raw vectors cannot be given then, and the training objective (gene_embedding_layer
// and binary_decoder) is not computed: its tensors are allowed and not read.
package uce
