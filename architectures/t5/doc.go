// Package t5 is the architecture of T5 and ByT5: an encoder and a decoder whose
// layers have RMS norms in front of attention and MLP and a relative position bias
// in the scores (Raffel et al., 2020). It follows T5ForConditionalGeneration and
// T5EncoderModel of Hugging Face transformers, with F32, BF16 or F16 weights. As
// there, F16 models compute behind the MLP, and their residual stream from then on,
// in F32. The reference also bounds a stream that overflowed; that is not done.
//
// Importing the package registers the family as "t5".
//
// Inputs of the two stacks are input_ids, attention_mask, decoder_input_ids and
// decoder_attention_mask, I64 [batch, length]. Without decoder_input_ids the
// decoder reads input_ids moved to the right behind the start token, as it does in
// training. Outputs are "logits" [batch, decoder length, vocabulary], with the flag
// output_hidden_states "encoder_hidden_states.i" and "decoder_hidden_states.i",
// the last one of each after the final norm, and with output_attentions
// "encoder_attentions.i", "decoder_attentions.i" and "cross_attentions.i" [batch,
// heads, length, keys]. An encoder alone takes input_ids and attention_mask and
// gives "last_hidden_state", "hidden_states.i" and "attentions.i".
//
// # The finite blocks
//
// "encoder.block.0" and "decoder.block.0" are the shared embedding with the norm
// and the projections to queries, keys and values of the stack's first
// self-attention, with the embedding row as live residual. The relative position
// bias enters in the scores, behind them.
package t5
