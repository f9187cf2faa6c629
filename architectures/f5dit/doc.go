// Package f5dit is the architecture of F5-TTS (Chen et al., 2024): a diffusion
// transformer that, given a noised mel spectrogram, the part of it that is known,
// a text and a time, predicts the flow towards the spectrogram of the speech.
//
// Importing the package registers the family as "f5_dit":
//
//	import _ "github.com/hfcompress/compress/architectures/f5dit"
//
// # Configuration
//
// The published repositories have no config.json. Write one with model_type
// "f5_dit", the fields of model.arch in the model's YAML file, text_num_embeds (the
// number of lines of vocab.txt) and, where it is not 100, mel_dim. What is left out
// has the value that the published class gives it. For F5-TTS v1 Base:
//
//	{"model_type": "f5_dit", "dim": 1024, "depth": 22, "heads": 16, "ff_mult": 2,
//	 "text_dim": 512, "text_num_embeds": 2545, "text_mask_padding": true,
//	 "qk_norm": null, "conv_layers": 4, "pe_attn_head": null}
//
// F5-TTS Base has text_mask_padding false and pe_attn_head 1.
//
// # Inputs
//
// x and cond are F32 [batch, length, mel_dim]; text is I64 [batch, characters] with
// ids from 0 and −1 behind the end of a shorter text; time F32 [batch] or F32 [].
// mask, which may be left out, is I64 [batch, length]: ones and then zeros, and in
// at least one sequence no zeros. Texts longer than a sequence are cut. With
// convolutions over the text a sequence has at most 8,192 rows.
//
// The flag drop_audio_cond replaces cond by zeros, drop_text the text by filler,
// both for classifier-free guidance. cfg_infer evaluates every sequence with both
// conditions and then every one with neither, and excludes the other two flags.
//
// # Outputs
//
// "flow" is F32 [batch, length, mel_dim], with cfg_infer [2·batch, length, mel_dim].
// With the flag output_hidden_states there are "hidden_states.0", which enters the
// first layer, and "hidden_states.i", the result of layer i, [batch, length, dim].
// Attention weights are not given.
//
// # The finite block
//
// "time_embed" is everything from the time to the modulations of all layers and of
// the last norm. It is declared for a schedule alone, see [Blueprint.WithTimesteps],
// and models with a schedule refuse other times. [Timesteps] lists those of the
// published sampler, and timesteps.json beside this file holds its 32 steps in the
// form that the command's --timesteps takes. They include those of all shorter
// schedules that it lists.
//
// # Devices
//
// The device's sessions must implement [nn.Convolver].
package f5dit
