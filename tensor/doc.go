// Package tensor holds the vocabulary that every other package shares: element
// types, shapes and dense host tensors, compared by bits. It does no arithmetic
// on values.
//
// Tensors are row-major, contiguous and little-endian, the layout of the
// safetensors format. Hosts must be little-endian too (all that Go's main ports
// are); the package refuses to initialise elsewhere, since typed views such as
// [Tensor.Float32s] reinterpret the stored bytes.
package tensor
