// Package bert is the architecture of BERT and of sentence encoders built on it,
// such as MiniLM: embeddings of tokens, token types and positions, and encoder
// layers with norms behind attention and MLP (Devlin et al., 2019). It follows
// BertModel and BertForMaskedLM of Hugging Face transformers, with F32, BF16 or
// F16 weights.
//
// Importing the package registers the family as "bert".
//
// Inputs are input_ids, attention_mask, position_ids and token_type_ids, I64
// [batch, length]. BertModel gives "last_hidden_state" [batch, length, hidden]
// and, where the checkpoint has a pooler, "pooler_output" [batch, hidden];
// BertForMaskedLM gives "logits" [batch, length, vocabulary]. With the flag
// output_hidden_states there are "hidden_states.0" (the normalised sum of
// embeddings) to the last layer's, and with output_attentions "attentions.i"
// [batch, heads, length, length]. [Model.Embed] pools as sentence-transformers
// does.
//
// # The refused block
//
// "encoder.layer.0.attention.self" is declared and refused: rows of positions and
// token types are added to the token's row before layer 0's projections. The
// refusal gives the numbers.
package bert
