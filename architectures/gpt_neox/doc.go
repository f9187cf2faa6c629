// Package gpt_neox is the architecture of GPT-NeoX and Pythia: token embeddings
// and decoder layers in which attention and MLP read the same residual, or one
// after the other, with rotary positions on a part of each head (Black et al.,
// 2022). It follows GPTNeoXForCausalLM of Hugging Face transformers, with F32,
// BF16 or F16 weights.
//
// Importing the package registers the family as "gpt_neox".
//
// Inputs are input_ids, attention_mask and position_ids, I64 [batch, length].
// Outputs are "logits" [batch, length, vocabulary], with the flag
// output_hidden_states "hidden_states.0" (the embedding) to the last one (after
// the final norm), and with output_attentions "attentions.i" [batch, heads,
// length, length].
//
// # The finite block
//
// "gpt_neox.layers.0" is the embedding with layer 0's norm and fused projection
// as the branch "qkv", and where the layer is parallel, its other norm and whole
// MLP as the branch "mlp". The branches and the residual are not added up: the
// reference adds them from left to right with attention's result in the middle.
package gpt_neox
