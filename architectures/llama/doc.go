// Package llama is the architecture of Llama causal language models: token
// embedding, decoder layers of RMSNorm, grouped-query attention with rotary
// positions and a gated MLP, a final RMSNorm and a linear head. It follows
// LlamaForCausalLM of Hugging Face transformers, with float32 weights.
//
// Importing the package registers the family as "llama":
//
//	import _ "github.com/hfcompress/compress/architectures/llama"
//
// # Inputs
//
// input_ids, attention_mask and position_ids are I64 tensors [batch, length].
// Without attention_mask every position is seen; without position_ids every
// sequence counts from 0, as in the reference, also where the mask hides the
// first positions. A query that may see nothing attends to all keys evenly.
//
// # Outputs
//
// "logits" is F32 [batch, length, vocabulary]. With the flag
// output_hidden_states there are "hidden_states.0", the raw embedding,
// "hidden_states.i", the sum that enters layer i, and as the last one the result
// of the final norm: [batch, length, hidden] each. With output_attentions there
// is "attentions.i" of layer i, [batch, heads, length, length].
//
// # The finite block
//
// One block is declared, "model.layers.0.qkv": the embedding, layer 0's input
// norm, and its query, key and value projections as branches, with the embedding
// row as live residual. Rotary positions are applied after it, so that it
// depends on token ids alone.
package llama
