package planner

const (
	noMask     = "no <mask> id in a batch: with one, the embedding is scaled by a number of the whole sequence"
	rotaryOnly = "positions are added to the embedding before the first norm: the input of the first layer is no function of the token alone"
)

func isRotary(m *model) bool {
	return m.config.text("position_embedding_type") == "rotary"
}

// tokenFamilies are encoders and generators of biological and chemical sequences
// with attention.
var tokenFamilies = []family{
	{
		name: "ESM-2", modelTypes: []string{"esm"}, architectures: []string{"EsmModel", "EsmForMaskedLM"},
		tensors: []string{"{esm.,}embeddings.word_embeddings.weight"},
		passes: []pass{
			serial("layer 0 query, key, value", "{esm.,}embeddings.word_embeddings.weight",
				[]string{"{esm.,}encoder.layer.0.attention.LayerNorm.{weight,bias}", "{esm.,}encoder.layer.0.attention.self.{query,key,value}.{weight,bias}"},
				[]string{"{esm.,}encoder.layer.0.attention.self.{query,key,value}.weight"},
			).with(func(p *pass) {
				p.extra = 1 // the row of a hidden position, which is zero
				p.needs = []string{noMask}
				p.refuse = unless(isRotary, rotaryOnly)
			}),
			{
				kind: kindUnread, block: "position table", optional: true,
				removes: []string{"{esm.,}embeddings.position_embeddings.weight"},
				refuse:  unless(isRotary, "the model reads it"),
			},
		},
	},
	{
		name: "ProGen2", modelTypes: []string{"progen"},
		passes: []pass{
			progen,
			progen.with(func(p *pass) {
				p.listed, p.contract = 32, reachable
				p.needs = []string{"only the 32 ids of the tokenizer are given"}
			}),
			{
				kind: kindTrim, block: "input embedding", embedding: "transformer.wte.weight", listed: 32, contract: reachable,
				needs: []string{"only the 32 ids of the tokenizer are given; the head keeps its rows"},
			},
			{
				kind: kindComputed, block: "causal masks", optional: true, removes: []string{"transformer.h.#.attn.bias"},
				bytes: "that they are the causal mask, which the model can make itself",
			},
		},
	},
	{
		name: "RITA", modelTypes: []string{"rita"}, tensors: []string{"transformer.layers.0.self_attention.query.weight"},
		passes: []pass{serial("layer 0 query, key, value", "transformer.embedding.weight",
			[]string{"transformer.layers.0.attn_norm.{weight,bias}", "transformer.layers.0.self_attention.{query,key,value}.{weight,bias}"},
			[]string{"transformer.layers.0.self_attention.{query,key,value}.weight"})},
	},
	{
		name: "AMPLIFY", modelTypes: []string{"AMPLIFY"}, tensors: []string{"transformer_encoder.0.q.weight", "transformer_encoder.0.attention_norm.weight"},
		passes: []pass{serial("layer 0 q, k, v", "encoder.weight",
			[]string{"transformer_encoder.0.attention_norm.weight", "transformer_encoder.0.{q,k,v}.{weight,bias}"},
			[]string{"transformer_encoder.0.{q,k,v}.weight"})},
	},
	{
		name: "ESM C", tensors: []string{"embed.weight", "transformer.blocks.0.attn.layernorm_qkv.1.weight"},
		passes: []pass{serial("block 0 layernorm_qkv with the norms of q and k", "embed.weight",
			[]string{"transformer.blocks.0.attn.layernorm_qkv.{0,1}.{weight,bias}", "transformer.blocks.0.attn.{q_ln,k_ln}.{weight,bias}"},
			[]string{"transformer.blocks.0.attn.layernorm_qkv.1.weight"},
		)},
	},
	{
		name: "ESM3", tensors: []string{"encoder.sequence_embed.weight", "transformer.blocks.0.attn.layernorm_qkv.1.weight"},
		passes: []pass{serial("block 0 layernorm_qkv with the norms of q and k", "encoder.sequence_embed.weight",
			[]string{"transformer.blocks.0.attn.layernorm_qkv.{0,1}.{weight,bias}", "transformer.blocks.0.attn.{q_ln,k_ln}.{weight,bias}"},
			[]string{"transformer.blocks.0.attn.layernorm_qkv.1.weight"},
		).with(func(p *pass) {
			p.needs = []string{"the sequence alone: all other tracks, which are added to the embedding, are constant"}
		})},
	},
	{
		name: "gLM2", modelTypes: []string{"gLM2"}, tensors: []string{"tok_embeddings.weight"},
		passes: []pass{serial("layer 0 wqkv", "tok_embeddings.weight",
			[]string{"encoder.layers.0.attention_norm.weight", "encoder.layers.0.attn.wqkv.{weight,bias}"},
			[]string{"encoder.layers.0.attn.wqkv.weight"})},
	},
	{
		name: "Profluent E1", modelTypes: []string{"E1"},
		passes: []pass{serial("layer 0 q, k, v, clipped", "model.embed_tokens.weight", llamaRemoves, llamaColumns).with(func(p *pass) {
			p.needs = []string{"a single sequence in a row: the table of sequence numbers is added to the embedding otherwise"}
		})},
	},
	{
		name: "AIDO.RNA, AIDO.DNA", modelTypes: []string{"rnabert"},
		passes: []pass{serial("layer 0 query, key, value", "bert.embeddings.word_embeddings.weight",
			[]string{"bert.encoder.layer.0.attention.ln.{weight,bias}", "bert.encoder.layer.0.attention.self.{query,key,value}.{weight,bias}"},
			[]string{"bert.encoder.layer.0.attention.self.{query,key,value}.weight"},
		).with(func(p *pass) {
			p.refuse = unless(func(m *model) bool { return m.config.text("position_embedding_type") == "rope" }, rotaryOnly)
		})},
	},
	{
		name: "MoLFormer", modelTypes: []string{"molformer"},
		passes: []pass{serial("layer 0 query, key, value", "{molformer.,}embeddings.word_embeddings.weight",
			[]string{"{molformer.,}encoder.layer.0.attention.self.{query,key,value}.{weight,bias}"},
			[]string{"{molformer.,}encoder.layer.0.attention.self.{query,key,value}.weight"})},
	},
}

// progen has its MLP beside attention, so that both are functions of the token.
var progen = serial("block 0 attention projection and MLP", "transformer.wte.weight",
	[]string{"transformer.h.0.ln_1.{weight,bias}", "transformer.h.0.attn.qkv_proj.{weight,bias}", "transformer.h.0.mlp.{fc_in,fc_out}.{weight,bias}"},
	[]string{"transformer.h.0.attn.qkv_proj.weight", "transformer.h.0.mlp.fc_out.weight"})
