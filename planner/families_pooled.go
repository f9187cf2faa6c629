package planner

const pooled = "a pooled text vector is added to the timestep's embedding before the modulations: they are no function of the timestep, except for a fixed set of prompts"

// pooledFamilies look like the others and are refused: what they would save if
// their modulations were functions of the timestep is counted all the same.
var pooledFamilies = []family{
	timeFamily("FLUX.1", "FluxTransformer2DModel", 50,
		[]string{"time_text_embed.timestep_embedder.linear_{1,2}"}, jointSingle, 0).refusing(never(pooled)),
	timeFamily("Stable Diffusion 3", "SD3Transformer2DModel", 28,
		[]string{"time_text_embed.timestep_embedder.linear_{1,2}"}, jointAlone, 0).refusing(never(pooled)),
	timeFamily("HunyuanVideo", "HunyuanVideoTransformer3DModel", 50,
		[]string{"time_text_embed.timestep_embedder.linear_{1,2}"}, jointSingle, 0).refusing(never(pooled)),
	timeFamily("Mochi", "MochiTransformer3DModel", 64,
		[]string{"time_embed.timestep_embedder.linear_{1,2}"}, jointAlone, 0).refusing(never(pooled)),
	timeFamily("HiDream-I1", "HiDreamImageTransformer2DModel", 50,
		[]string{"t_embedder.timestep_embedder.linear_{1,2}"},
		[]string{"double_stream_blocks.#.block.adaLN_modulation.#", "single_stream_blocks.#.block.adaLN_modulation.#", "final_layer.adaLN_modulation.#"}, 0).refusing(never(pooled)),
	timeFamily("Kandinsky 5", "Kandinsky5Transformer3DModel", 50,
		[]string{"time_embeddings.{in_layer,out_layer}"},
		[]string{"{text,visual}_transformer_blocks.#.{text,visual}_modulation.out_layer", "out_layer.modulation.out_layer"}, 0).refusing(never(pooled)),
}
