// Package progen is the architecture of ProGen2, a family of protein language
// models (Nijkamp et al., 2022): decoder layers in which attention and MLP read
// the same norm of the residual, with rotary positions on neighbouring pairs of a
// part of each head. It follows the published modeling_progen.py, which is a
// variant of transformers' CodeGen, with F32, BF16 or F16 weights.
//
// Importing the package registers the family as "progen".
//
// Inputs are input_ids and attention_mask, I64 [batch, length]. Positions are
// columns: the published model ignores position_ids, so that padding on the left
// shifts a sequence; here they are not an input, and [Model.Generate] takes
// prompts of one length. Outputs are "logits" [batch, length, vocabulary], F32 in
// every type of weights as in the reference, with the flag output_hidden_states
// "hidden_states.0" (the embedding) to the last one (after the final norm), and
// with output_attentions "attentions.i" [batch, heads, length, length].
//
// # The finite block
//
// "transformer.h.0" is the embedding with layer 0's norm, its fused projection
// (branch "qkv", eight groups of queries, values, keys in that order) and its MLP
// (branch "mlp"). Branches and residual are not added up: the reference computes
// attention + MLP + residual from left to right.
//
// Some checkpoints store 51,200 rows of embedding where the tokenizer has 32
// tokens. Nothing but the block reads them, so that a caller who lists the ids in
// use can have the others dropped.
package progen
