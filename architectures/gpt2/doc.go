// Package gpt2 is the architecture of GPT-2: token and position embeddings, and
// decoder layers of layer norm, attention with a fused projection, and an MLP
// (Radford et al., 2019). It follows GPT2LMHeadModel of Hugging Face transformers,
// with F32, BF16 or F16 weights.
//
// Importing the package registers the family as "gpt2".
//
// Inputs are input_ids, attention_mask and position_ids, I64 [batch, length];
// there are as many positions as the configuration says. Outputs are "logits"
// [batch, length, vocabulary], with the flag output_hidden_states
// "hidden_states.0" (token plus position) to the last one (after the final norm),
// and with output_attentions "attentions.i" [batch, heads, length, length].
//
// # The refused block
//
// "h.0.attn.c_attn" is declared and refused: a position's row is added to the
// token's row before layer 0's projection, so that it is a function of both. The
// refusal gives the numbers.
package gpt2
