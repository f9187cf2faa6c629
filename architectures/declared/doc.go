// Package declared builds models from an architecture file: a JSON description
// of a token encoder or tower in the vocabulary of package architectures/nn,
// bound to the tensor names of a checkpoint. It compiles models for which
// nobody has written a family in Go.
//
// The file is the caller's and is trusted to say what the model computes. It
// cannot express code: it is parsed strictly, every size in it is bounded, and it
// names operations from a closed list. docs/arch-file.md describes it, and
// docs/arch-file.schema.json is its schema.
//
// A file declares finite blocks, each a graph of row-local layers over an
// embedding of the token ids, and steps from the blocks' outputs to the model's.
// Which tensors a block removes is counted from the file, not declared: those
// that nothing else in it reads.
package declared
