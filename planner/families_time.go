package planner

import "github.com/hfcompress/compress/internal/thousands"

// What the timestep layers of diffusers are called.
var (
	timeEmbed     = []string{"time_embed.timestep_embedder.linear_{1,2}"}
	jointSingle   = []string{"transformer_blocks.#.{norm1,norm1_context}.linear", "single_transformer_blocks.#.norm.linear", "norm_out.linear"}
	jointAlone    = []string{"transformer_blocks.#.{norm1,norm1_context}.linear", "norm_out.linear"}
	twoTimesteps  = unless(func(m *model) bool { return !m.config.truth("use_meanflow", false) }, "modulations depend on two timesteps, t and r")
	guidanceFixed = "where guidance is embedded, it is one fixed number"
)

// imageFamilies are image models whose modulations depend on the timestep alone.
var imageFamilies = []family{
	timeFamily("Qwen-Image", "QwenImageTransformer2DModel", 50,
		[]string{"time_text_embed.timestep_embedder.linear_{1,2}"},
		[]string{"transformer_blocks.#.{img_mod,txt_mod}.#", "norm_out.linear"}, universalKeys,
		"no LoRA on modulations; variants that also condition on t·0 declare 0 too"),
	timeFamily("AuraFlow", "AuraFlowTransformer2DModel", 50,
		[]string{"time_step_proj.linear_{1,2}"},
		[]string{"joint_transformer_blocks.#.{norm1,norm1_context}.linear", "single_transformer_blocks.#.norm1.linear", "norm_out.linear"}, binades),
	timeFamily("LongCat-Image", "LongCatImageTransformer2DModel", 50, timeEmbed, jointSingle, binades),
	timeFamily("HunyuanImage-2.1", "HunyuanImageTransformer2DModel", 50,
		[]string{"time_guidance_embed.{timestep_embedder,guidance_embedder}.linear_{1,2}"}, jointSingle, binades,
		guidanceFixed).refusing(twoTimesteps),
	timeFamily("Bria FIBO", "BriaFiboTransformer2DModel", 50, timeEmbed, jointSingle, binades),
	timeFamily("PRX", "PRXTransformer2DModel", 28,
		[]string{"time_in.{in_layer,out_layer}"},
		[]string{"blocks.#.modulation.lin", "final_layer.adaLN_modulation.#"}, 0,
	).refusing(unless(func(m *model) bool { return !m.config.truth("resolution_embeds", false) }, "modulations depend on the resolution too: the domain is (t, height, width)")),
	timeFamily("Ovis-Image", "OvisImageTransformer2DModel", 50, []string{"timestep_embedder.linear_{1,2}"}, jointSingle, binades),
	timeFamily("Lumina-Image-2.0", "Lumina2Transformer2DModel", 30,
		[]string{"time_caption_embed.timestep_embedder.linear_{1,2}"},
		[]string{"noise_refiner.#.norm1.linear", "layers.#.norm1.linear", "norm_out.linear_1"}, binades),
	timeFamily("CogView4", "CogView4Transformer2DModel", 50, nil, []string{"transformer_blocks.#.norm1.linear", "norm_out.linear"}, 0, fixedSize),
	timeFamily("GLM-Image", "GlmImageTransformer2DModel", 50, nil, []string{"transformer_blocks.#.norm1.linear", "norm_out.linear"}, 0, fixedSize),
	chroma,
	timeFamily("Z-Image", "ZImageTransformer2DModel", 8,
		[]string{"t_embedder.mlp.#"},
		[]string{"noise_refiner.#.adaLN_modulation.#", "layers.#.adaLN_modulation.#", "all_final_layer.#-#.adaLN_modulation.#"}, binades),
	timeFamily("PixArt", "PixArtTransformer2DModel", 20,
		nil, []string{"adaln_single.emb.timestep_embedder.linear_2", "adaln_single.linear"}, 0,
	).alsoRemoving("adaln_single.emb.timestep_embedder.linear_1").refusing(
		unless(func(m *model) bool { return !m.has("adaln_single.emb.resolution_embedder.linear_1.weight") }, "modulations depend on resolution and aspect ratio too: the domain is (t, height, width)"),
	).everyInteger(1000),
	{
		name: "DiT", classes: []string{"DiTTransformer2DModel"},
		passes: []pass{
			{
				kind: kindPairs, block: "modulations", steps: 50, each: 2, contract: pairsOnly,
				removes: []string{"transformer_blocks.0.norm1.emb.timestep_embedder.linear_{1,2}.{weight,bias}", "transformer_blocks.0.norm1.emb.class_embedder.embedding_table.weight", "transformer_blocks.#.norm1.linear.{weight,bias}", "proj_out_1.{weight,bias}"},
				columns: []string{"transformer_blocks.#.norm1.linear.weight", "proj_out_1.weight"},
				needs:   []string{"declared pairs of timestep and class; counted are two classes, one of them the null class"},
				bytes:   "that the embedders of all blocks are equal, so that one pair gives all modulations",
			},
			{
				kind: kindShared, block: "timestep and class embedders of the blocks",
				removes: []string{"transformer_blocks.#.norm1.emb.timestep_embedder.linear_1.weight", "transformer_blocks.#.norm1.emb.timestep_embedder.linear_1.bias", "transformer_blocks.#.norm1.emb.timestep_embedder.linear_2.weight", "transformer_blocks.#.norm1.emb.timestep_embedder.linear_2.bias", "transformer_blocks.#.norm1.emb.class_embedder.embedding_table.weight"},
				bytes:   "that all blocks hold the same embedders",
			},
		},
	},
}

const fixedSize = "size and crop are added to the timestep's embedding: one fixed tuple of them is declared with the timesteps, and their embedders stay"

// chroma has no modulation linears: an approximator makes each modulation from
// the timestep and its own index.
var chroma = func() family {
	f := timeFamily("Chroma", "ChromaTransformer2DModel", 40,
		[]string{"distilled_guidance_layer.{in_proj,out_proj}", "distilled_guidance_layer.layers.#.linear_{1,2}", "distilled_guidance_layer.norms.#"}, nil, 0)
	f.passes[0].more = func(m *model) int64 {
		indices := 3*m.config.number("num_single_layers") + 12*m.config.number("num_layers") + 2
		return indices * m.rowsOf("distilled_guidance_layer.out_proj.weight")
	}
	f.passes[0].needs = append(f.passes[0].needs, "guidance is 0")
	return f
}()

// videoFamilies are video, sound and action models whose modulations depend on
// the timestep alone.
var videoFamilies = []family{
	timeFamily("HunyuanVideo-1.5", "HunyuanVideo15Transformer3DModel", 50, timeEmbed, jointAlone, binades).refusing(twoTimesteps),
	timeFamily("CogVideoX", "CogVideoXTransformer3DModel", 50,
		[]string{"time_embedding.linear_{1,2}"},
		[]string{"transformer_blocks.#.{norm1,norm2}.linear", "norm_out.linear"}, binades,
	).refusing(unless(func(m *model) bool { return !m.has("ofs_embedding.linear_1.weight") }, "a frame offset is added to the timestep's embedding")),
	timeFamily("Cosmos-Predict2", "CosmosTransformer3DModel", 35,
		[]string{"time_embed.t_embedder.linear_{1,2}", "time_embed.norm", "transformer_blocks.#.{norm1,norm2,norm3}.linear_1", "norm_out.linear_1"},
		[]string{"transformer_blocks.#.{norm1,norm2,norm3}.linear_2", "norm_out.linear_2"}, 0),
	timeFamily("Wan2.1", "WanTransformer3DModel", 50,
		[]string{"condition_embedder.time_embedder.linear_1"},
		[]string{"condition_embedder.time_embedder.linear_2", "condition_embedder.time_proj"}, 0,
	).everyInteger(1000),
	{
		name: "F5-TTS", tensors: []string{"{ema_model.,}transformer.time_embed.time_mlp.0.weight", "{ema_model.,}transformer.transformer_blocks.0.attn_norm.linear.weight"},
		passes: []pass{{
			kind: kindTimesteps, block: "modulations", steps: 32, contract: stepsOnly,
			removes: []string{"{ema_model.,}transformer.time_embed.time_mlp.#.{weight,bias}", "{ema_model.,}transformer.transformer_blocks.#.attn_norm.linear.{weight,bias}", "{ema_model.,}transformer.norm_out.linear.{weight,bias}"},
			columns: []string{"{ema_model.,}transformer.transformer_blocks.#.attn_norm.linear.weight", "{ema_model.,}transformer.norm_out.linear.weight"},
			needs:   []string{"a declared list of timesteps; 32 is usual for its pipeline, and 16 and 8 steps visit subsets of them"},
		}},
	},
	{
		name: "pi0.5", tensors: []string{"{model.,}time_mlp_in.weight", "{model.,}paligemma_with_expert.gemma_expert.model.layers.0.input_layernorm.dense.weight"},
		passes: []pass{{
			kind: kindTimesteps, block: "norms of the action expert", steps: 10, contract: stepsOnly,
			removes: []string{"{model.,}time_mlp_in.{weight,bias}", "{model.,}time_mlp_out.{weight,bias}", "{model.,}paligemma_with_expert.gemma_expert.model.layers.#.{input_layernorm,post_attention_layernorm}.dense.{weight,bias}", "{model.,}paligemma_with_expert.gemma_expert.model.norm.dense.{weight,bias}"},
			columns: []string{"{model.,}paligemma_with_expert.gemma_expert.model.layers.#.{input_layernorm,post_attention_layernorm}.dense.weight", "{model.,}paligemma_with_expert.gemma_expert.model.norm.dense.weight"},
			needs:   []string{"a declared list of timesteps; 10 is usual for its pipeline"},
		}},
	},
}

// unetFamilies add a projection of the timestep in every residual block.
var unetFamilies = []family{
	timeFamily("UNet", "UNet2DConditionModel", 50,
		[]string{"time_embedding.linear_{1,2}"},
		[]string{"{down,up}_blocks.#.resnets.#.time_emb_proj", "mid_block.resnets.#.time_emb_proj"}, 0,
	).refusing(unless(func(m *model) bool { return !m.has("add_embedding.linear_1.weight") }, pooled)).everyInteger(1000),
	timeFamily("UNet without conditions", "UNet2DModel", 50,
		[]string{"time_embedding.linear_{1,2}"},
		[]string{"{down,up}_blocks.#.resnets.#.time_emb_proj", "mid_block.resnets.#.time_emb_proj"}, 0,
	).refusing(unless(func(m *model) bool { return !m.has("class_embedding.{linear_1.,}weight") }, "a class is added to the timestep's embedding")).everyInteger(1000),
}

// refusing gives all passes of a family a condition.
func (f family) refusing(refuse func(*model) string) family {
	for i := range f.passes {
		f.passes[i].refuse = refuse
	}
	return f
}

// alsoRemoving adds layers that go and are not stored.
func (f family) alsoRemoving(layers ...string) family {
	for i := range f.passes {
		for _, l := range layers {
			f.passes[i].removes = append(f.passes[i].removes, l+".{weight,bias}")
		}
	}
	return f
}

// everyInteger adds the table of all integer timesteps below n, which needs no
// schedule.
func (f family) everyInteger(n int64) family {
	p := f.passes[0]
	p.block, p.rows, p.needs = "modulations, every integer timestep", exactly(n), []string{"integer timesteps below " + thousands.Group(n) + "; no schedule"}
	f.passes = append(f.passes, p)
	return f
}
