package planner

const noVectors = "ids only: no feature vectors of the caller's own, and no other use of the table"

// wideFamilies project a wide frozen table of features to a narrower model.
var wideFamilies = []family{
	{
		name: "UCE", tensors: []string{"{model.,}pe_embedding.weight", "{model.,}encoder.0.weight", "{model.,}encoder.2.weight"},
		passes: []pass{
			uce,
			uce.with(func(p *pass) {
				p.listed, p.contract = 19790, reachable
				p.needs = []string{noVectors, "only the genes of one species are given, about 19,790 for human"}
			}),
			{
				kind: kindUnread, block: "position buffer", optional: true, removes: []string{"{model.,}pos_encoder.pe"},
				needs: []string{"the published forward, which does not add it"},
			},
		},
	},
	{
		name: "STATE SE", tensors: []string{"{model.,}pe_embedding.weight", "{model.,}encoder.0.weight", "{model.,}encoder.1.weight", "{model.,}gene_embedding_layer.0.weight"},
		passes: []pass{{
			kind: kindWide, block: "gene features to both encoders' outputs", embedding: "{model.,}pe_embedding.weight", times: 2,
			removes: []string{"{model.,}pe_embedding.weight"}, columns: []string{"{model.,}encoder.0.weight"}, contract: tokensOnly,
			needs: []string{"both encoders stay, for the inputs that are no genes", noVectors},
		}},
	},
	{
		name: "TranscriptFormer", modelTypes: []string{"transcriptformer"}, tensors: []string{"gene_embeddings.embedding_layer.0.weight"},
		passes: []pass{{
			kind: kindWide, block: "gene features to the model's width", embedding: "gene_embeddings.embedding_layer.0.weight",
			removes: []string{"gene_embeddings.embedding_layer.{0,1}.{weight,bias}"}, columns: []string{"gene_embeddings.embedding_layer.1.weight"}, contract: tokensOnly,
			needs: []string{noVectors},
		}},
	},
}

var uce = pass{
	kind: kindWide, block: "protein features to the model's width, with norm and activation", embedding: "{model.,}pe_embedding.weight",
	removes: []string{"{model.,}pe_embedding.weight", "{model.,}encoder.{0,2}.{weight,bias}"},
	columns: []string{"{model.,}encoder.0.weight"}, contract: tokensOnly,
	needs: []string{noVectors},
}
