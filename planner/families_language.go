package planner

var (
	llamaRemoves = []string{"{model.,}layers.0.input_layernorm.{weight,bias}", "{model.,}layers.0.self_attn.{q_proj,k_proj,v_proj}.{weight,bias}"}
	llamaColumns = []string{"{model.,}layers.0.self_attn.{q_proj,k_proj,v_proj}.weight"}
)

// languageFamilies are transformers over text and bytes.
var languageFamilies = []family{
	{
		name: "Llama and its like", modelTypes: []string{"llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "smollm3", "evabyte"},
		architectures: []string{"LlamaForCausalLM", "LlamaModel"},
		passes:        []pass{serial("layer 0 q, k, v", "{model.,}embed_tokens.weight", llamaRemoves, llamaColumns)},
	},
	{
		name: "T5, ByT5", modelTypes: []string{"t5", "mt5", "umt5"}, tensors: []string{"encoder.block.0.layer.0.SelfAttention.q.weight"},
		passes: []pass{t5Stack("encoder"), t5Stack("decoder").with(func(p *pass) { p.optional = true })},
	},
	{
		name: "GPT-2", modelTypes: []string{"gpt2"},
		passes: []pass{
			{
				kind: kindPairs, block: "block 0 c_attn", contract: pairsOnly,
				rows:    product("{transformer.,}wte.weight", "{transformer.,}wpe.weight", 1),
				removes: []string{"{transformer.,}h.0.ln_1.{weight,bias}", "{transformer.,}h.0.attn.c_attn.{weight,bias}"},
				columns: []string{"{transformer.,}h.0.attn.c_attn.bias"}, // its matrix lies the other way round
				needs:   []string{"learned positions are added before the first norm, so the domain is token × position"},
			},
			{
				kind: kindShared, block: "causal masks", optional: true, removes: []string{"{transformer.,}h.#.attn.bias"},
				bytes: "that all layers hold the same mask",
			},
			{
				kind: kindComputed, block: "causal masks", optional: true, removes: []string{"{transformer.,}h.#.attn.bias"},
				bytes: "that they are the causal mask, which the model can make itself",
			},
		},
	},
	{
		name: "GPT-NeoX, Pythia", modelTypes: []string{"gpt_neox"},
		passes: []pass{
			serial("layer 0 query_key_value and MLP", "{gpt_neox.,}embed_in.weight",
				[]string{"{gpt_neox.,}layers.0.{input_layernorm,post_attention_layernorm}.{weight,bias}", "{gpt_neox.,}layers.0.attention.query_key_value.{weight,bias}", "{gpt_neox.,}layers.0.mlp.{dense_h_to_4h,dense_4h_to_h}.{weight,bias}"},
				[]string{"{gpt_neox.,}layers.0.attention.query_key_value.weight", "{gpt_neox.,}layers.0.mlp.dense_4h_to_h.weight"},
			).with(func(p *pass) {
				p.refuse = unless(func(m *model) bool { return m.config.truth("use_parallel_residual", true) }, "the MLP follows attention: its input is no function of the token alone")
			}),
			{
				kind: kindShared, block: "causal masks", optional: true, removes: []string{"{gpt_neox.,}layers.#.attention.bias"},
				bytes: "that all layers hold the same mask",
			},
			{
				kind: kindComputed, block: "causal masks", optional: true, removes: []string{"{gpt_neox.,}layers.#.attention.bias"},
				bytes: "that they are the causal mask, which the model can make itself",
			},
		},
	},
	{
		name: "GPT-J", modelTypes: []string{"gptj"},
		passes: []pass{serial("block 0 q, k, v and MLP", "transformer.wte.weight",
			[]string{"transformer.h.0.ln_1.{weight,bias}", "transformer.h.0.attn.{q_proj,k_proj,v_proj}.{weight,bias}", "transformer.h.0.mlp.{fc_in,fc_out}.{weight,bias}"},
			[]string{"transformer.h.0.attn.{q_proj,k_proj,v_proj}.weight", "transformer.h.0.mlp.fc_out.weight"})},
	},
	{
		name: "Phi", modelTypes: []string{"phi"},
		passes: []pass{serial("layer 0 q, k, v and MLP", "model.embed_tokens.weight",
			append([]string{"model.layers.0.mlp.{fc1,fc2}.{weight,bias}"}, llamaRemoves...),
			append([]string{"model.layers.0.mlp.fc2.weight"}, llamaColumns...))},
	},
	{
		name: "Falcon", modelTypes: []string{"falcon", "RefinedWebModel"},
		passes: []pass{serial("block 0 query_key_value and MLP", "transformer.word_embeddings.weight",
			[]string{"transformer.h.0.{input_layernorm,ln_attn,ln_mlp}.{weight,bias}", "transformer.h.0.self_attention.query_key_value.{weight,bias}", "transformer.h.0.mlp.{dense_h_to_4h,dense_4h_to_h}.{weight,bias}"},
			[]string{"transformer.h.0.self_attention.query_key_value.weight", "transformer.h.0.mlp.dense_4h_to_h.weight"},
		).with(func(p *pass) {
			p.refuse = unless(func(m *model) bool { return m.config.truth("parallel_attn", true) }, "the MLP follows attention: its input is no function of the token alone")
		})},
	},
	{
		name: "BERT, MiniLM", modelTypes: []string{"bert"}, tensors: []string{"{bert.,}embeddings.position_embeddings.weight", "{bert.,}encoder.layer.0.attention.self.query.weight"},
		passes: []pass{{
			kind: kindPairs, block: "layer 0 query, key, value", contract: pairsOnly,
			rows:    bertRows,
			removes: []string{"{bert.,}encoder.layer.0.attention.self.{query,key,value}.{weight,bias}"},
			columns: []string{"{bert.,}encoder.layer.0.attention.self.{query,key,value}.weight"},
			needs:   []string{"positions and segments are added before the first norm, so the domain is token × position × segment; embedding and norm stay for the residual"},
		}},
	},
	{
		name: "DNABERT-2, MosaicBERT", modelTypes: []string{"bert"}, tensors: []string{"{bert.,}encoder.layer.0.attention.self.Wqkv.weight"},
		passes: []pass{serial("layer 0 Wqkv", "{bert.,}embeddings.word_embeddings.weight",
			[]string{"{bert.,}encoder.layer.0.attention.self.Wqkv.{weight,bias}"},
			[]string{"{bert.,}encoder.layer.0.attention.self.Wqkv.weight"},
		).with(func(p *pass) {
			p.needs = []string{"one segment only; embedding and norm stay for the residual"}
		})},
	},
	{
		name: "Gemma 3n", modelTypes: []string{"gemma3n", "gemma3n_text"},
		passes: []pass{{
			kind: kindFold, block: "per_layer_model_projection into the per-layer embedding table", contract: tokensOnly,
			removes: []string{"{model.,}{language_model.,}per_layer_model_projection.weight"},
			needs:   []string{"text only: an image or a sound has no row in the table", "the table holds what the expression gives for each token, rounded as the model rounds it; it keeps its size"},
		}},
	},
}

// bertRows is the number of triples of token, position and segment.
func bertRows(m *model) int64 {
	return product("{bert.,}embeddings.word_embeddings.weight", "{bert.,}embeddings.position_embeddings.weight",
		max(1, m.rowsOf("{bert.,}embeddings.token_type_embeddings.weight")))(m)
}

// t5Stack declares the first self-attention of a stack. Relative positions are
// added to scores, never to the embedding.
func t5Stack(stack string) pass {
	at := stack + ".block.0.layer.0."
	return serial(stack+" block 0 q, k, v", "shared.weight",
		[]string{at + "layer_norm.weight", at + "SelfAttention.{q,k,v}.weight"},
		[]string{at + "SelfAttention.{q,k,v}.weight"})
}
