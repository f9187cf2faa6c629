// Package esm is the architecture of ESM-2, a family of protein language models
// (Lin et al., 2023): encoder layers with norms in front of attention and MLP and
// with rotary positions. It follows EsmForMaskedLM and EsmForSequenceClassification
// of Hugging Face transformers, with F32, BF16 or F16 weights; in 16-bit types it
// rounds where they round.
//
// Importing the package registers the family as "esm".
//
// Inputs are input_ids, attention_mask and position_ids, I64 [batch, length].
// Outputs are "logits" [batch, length, vocabulary], of a classifier [batch, labels]
// from the first position, which is <cls>; with the flag
// output_hidden_states "hidden_states.0" (the scaled embedding) to the last one
// (after the final norm), and with output_attentions "attentions.i" [batch,
// heads, length, length]. Rows of positions that the mask hides have no meaning:
// they are computed from their own tokens, while the reference sets them to zero.
// Nothing that is shown depends on them. Neither has the class of a sequence whose
// first position is hidden. The contact head is not computed. Rotary frequencies
// are those that the checkpoint holds, where it does, as the reference takes them:
// the published ones were rounded to F16 once.
//
// # Token dropout and the finite block
//
// The models are trained with token_dropout: rows of <mask> tokens are zero, and
// all rows are scaled by 0.88 and divided by the part of the sequence that is not
// masked. Without <mask> that divisor is 1, and the row is 0.88·E[id].
//
// The block "esm.encoder.layer.0" is the embedding with this scale, layer 0's norm
// and the projections to queries (multiplied with their factor), keys and values
// as branches, with the unscaled embedding row as live residual, which the model
// scales afterwards, as the source does. It stands for batches without <mask>
// only: a model whose block was replaced refuses the others.
package esm
