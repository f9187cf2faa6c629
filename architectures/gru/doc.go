// Package gru is the architecture of small sequence-to-sequence models of gated
// recurrent units (Cho et al., 2014): an encoder that reads a sequence of source
// tokens, a decoder that starts from its last state, and a linear head. The
// grapheme-to-phoneme model of g2p_en is one.
//
// Importing the package registers the family as "gru_seq2seq":
//
//	import _ "github.com/hfcompress/compress/architectures/gru"
//
// # The cell
//
// With input x and state h, and the rows of each weight in the order r, z, n, as
// in PyTorch:
//
//	r  = sigmoid(Wir·x + bir + (Whr·h + bhr))
//	z  = sigmoid(Wiz·x + biz + (Whz·h + bhz))
//	n  = tanh(Win·x + bin + r ∘ (Whn·h + bhn))
//	h' = (1 − z) ∘ n + z ∘ h
//
// # Inputs
//
// input_ids is I64 [batch, length]; the sequences of a call are equally long, and
// the end token of the source vocabulary, where the model was trained with one,
// belongs to them. decoder_input_ids, I64 [batch, steps], are what the decoder
// reads. Without them it reads its start token and then its own most likely
// tokens, until every sequence has ended or max_new_tokens are made.
//
// # Outputs
//
// "logits" is F32 [batch, steps, target vocabulary]. Without decoder_input_ids
// there is also "sequences", I64 [batch, steps]: the chosen tokens, the end token
// included, and the pad token behind it. With the flag output_hidden_states there
// are "encoder_hidden_states.0" [batch, length, hidden] and
// "decoder_hidden_states.0" [batch, steps, hidden]. There are no attentions.
//
// # The finite blocks
//
// "encoder.input" and "decoder.input" are the embedding and the input projection
// of the two stacks: one row of 3·hidden columns for each token. Nothing else
// reads the embeddings, so a lookup replaces both tensors. It pays where the
// vocabulary is smaller than the embedding is wide, nearly.
package gru
