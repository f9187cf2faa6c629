package planner

// scanFamilies mix along the sequence by convolutions, scans or recurrences.
var scanFamilies = []family{
	{
		name: "HyenaDNA", modelTypes: []string{"hyenadna"}, tensors: []string{"{hyena.,}backbone.layers.0.mixer.in_proj.weight"},
		passes: []pass{
			serial("layer 0 in_proj", "{hyena.,}backbone.embeddings.word_embeddings.weight",
				[]string{"{hyena.,}backbone.layers.0.norm1.{weight,bias}", "{hyena.,}backbone.layers.0.mixer.in_proj.{weight,bias}"},
				[]string{"{hyena.,}backbone.layers.0.mixer.in_proj.weight"}),
			{
				kind: kindShared, block: "positional buffers", optional: true,
				removes: []string{"{hyena.,}backbone.layers.#.mixer.filter_fn.pos_emb.z", "{hyena.,}backbone.layers.#.mixer.filter_fn.pos_emb.t",
					"{hyena.,}backbone.layers.#.mixer.filter_fn.modulation.deltas"},
				bytes: "that all layers hold the same buffers; lr_pos_emb 0 says that they were not trained",
			},
		},
	},
	{
		name: "Caduceus", modelTypes: []string{"caduceus"},
		passes: []pass{serial("layer 0 in_proj", "caduceus.backbone.embeddings.{embedding,word_embeddings}.weight",
			[]string{"caduceus.backbone.layers.0.norm{,.submodule}.{weight,bias}", "caduceus.backbone.layers.0.mixer{,.submodule}.mamba_fwd.in_proj.{weight,bias}"},
			[]string{"caduceus.backbone.layers.0.mixer{,.submodule}.mamba_fwd.in_proj.weight"},
		).with(func(p *pass) {
			p.needs = []string{"one table serves both strands, by the ids' complements"}
		})},
	},
	{
		name: "Mamba", modelTypes: []string{"mamba"}, tensors: []string{"backbone.layers.0.mixer.in_proj.weight"},
		passes: []pass{serial("layer 0 in_proj", "backbone.{embeddings,embedding}.weight",
			[]string{"backbone.layers.0.norm.{weight,bias}", "backbone.layers.0.mixer.in_proj.{weight,bias}"},
			[]string{"backbone.layers.0.mixer.in_proj.weight"})},
	},
	{
		name: "Evo", modelTypes: []string{"stripedhyena"},
		passes: []pass{serial("block 0 projections", "backbone.embedding_layer.{word_embeddings.,}weight",
			[]string{"backbone.blocks.0.pre_norm.{scale,weight}", "backbone.blocks.0.projections.{weight,bias}"},
			[]string{"backbone.blocks.0.projections.weight"},
		).with(func(p *pass) {
			p.needs = []string{"where the input projection runs in FP8, its scale has to be reproduced"}
		})},
	},
	{
		name: "g2p-en", tensors: []string{"enc_emb", "enc_w_ih", "dec_emb", "dec_w_ih"},
		passes: []pass{recurrentInput("enc"), recurrentInput("dec")},
	},
	{
		name: "MDLM", modelTypes: []string{"mdlm"}, tensors: []string{"backbone.sigma_map.mlp.0.weight"},
		passes: []pass{{
			kind: kindConstant, block: "modulations", contract: constantOnly,
			removes: []string{"backbone.sigma_map.mlp.#.{weight,bias}", "backbone.blocks.#.adaLN_modulation.{weight,bias}", "backbone.output_layer.adaLN_modulation.{weight,bias}"},
			columns: []string{"backbone.blocks.#.adaLN_modulation.weight", "backbone.output_layer.adaLN_modulation.weight"},
			refuse:  unless(func(m *model) bool { return !m.config.truth("time_conditioning", true) }, "the configuration does not say time_conditioning false, so sigma is no constant"),
			needs:   []string{"evaluated at the batch's own row count"},
		}},
	},
	{
		name: "STATE ST", modelTypes: []string{"state-st"}, tensors: []string{"transformer_backbone.embed_tokens.weight"},
		passes: []pass{{
			kind: kindUnread, block: "token embedding of the backbone", removes: []string{"transformer_backbone.embed_tokens.weight"},
			needs: []string{"the backbone is given embeddings and never ids"},
			bytes: "that the table is all zero",
		}},
	},
}

// recurrentInput declares the embedding and input projection of a recurrent
// layer, which nothing else reads.
func recurrentInput(side string) pass {
	return serial(side+" embedding and input projection", side+"_emb",
		[]string{side + "_emb", side + "_w_ih", side + "_b_ih"}, []string{side + "_w_ih"})
}
