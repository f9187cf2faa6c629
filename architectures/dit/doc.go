// Package dit is the architecture of diffusion transformers with class labels
// (Peebles and Xie, 2023) as diffusers stores them: DiTTransformer2DModel. A
// latent image is cut into patches; in every layer shifts, scales and gates that
// are functions of the timestep and the class alone act on all patches.
//
// Importing the package registers the family as "dit":
//
//	import _ "github.com/hfcompress/compress/architectures/dit"
//
// # Inputs
//
// hidden_states is F32 [batch, channels, size, size] with the size of the
// configuration; timestep F32 or I64 [batch]; class_labels I64 [batch], whose last
// valid value is the null class of classifier-free guidance.
//
// # Outputs
//
// "sample" is F32 [batch, output channels, size, size]. With the flag
// output_hidden_states there are "hidden_states.0", which enters the first layer,
// and "hidden_states.i", the result of layer i, [batch, patches, width].
// Attention weights are not given.
//
// # The finite blocks
//
// "transformer_blocks.i.norm1" is everything from timestep and class to the six
// modulations of layer i. Each layer holds a copy of the timestep's MLP and of the
// class vectors; the first layer's block gives the last modulation as well, which
// reads its embedders. The blocks are declared for a schedule alone, see
// [Blueprint.WithTimesteps]: their domain is the pairs of a declared timestep and a
// declared class, and models with a schedule refuse all others.
package dit
