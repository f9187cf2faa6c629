// Package llama is the architecture of Llama causal language models and of
// Mistral, Qwen2 and Qwen3, which share it: token embedding, decoder layers of
// RMSNorm, grouped-query attention with rotary positions and a gated MLP, a final
// RMSNorm and a linear head. It follows LlamaForCausalLM, MistralForCausalLM,
// Qwen2ForCausalLM and Qwen3ForCausalLM of Hugging Face transformers, with F32,
// BF16 or F16 weights, in whose type the model computes.
//
// Sliding windows, biases, Qwen3's norms of heads and all scalings of rotary
// positions that these models' configurations use are computed: linear, dynamic,
// yarn, llama3 and longrope. With dynamic scaling, a call beyond the trained length
// has its own frequencies, so that cached steps differ from one pass, as in the
// reference.
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
// "logits" is [batch, length, vocabulary], of the model's type. With the flag
// output_hidden_states there are "hidden_states.0", the raw embedding,
// "hidden_states.i", the sum that enters layer i, and as the last one the result
// of the final norm: [batch, length, hidden] each. With output_attentions there
// is "attentions.i" of layer i, [batch, heads, length, length].
//
// # The finite block
//
// One block is declared, "model.layers.0.qkv": the embedding, layer 0's input
// norm, and its query, key and value projections as branches (with Qwen3's norms
// of heads), with the embedding row as live residual. Rotary positions are applied after it, so that it
// depends on token ids alone.
package llama
