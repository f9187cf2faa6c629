// Package pack stores models. This package itself writes and opens packages: a
// directory with a manifest, the weights, the examples on which the model was
// validated, and the report. Its sub-packages hold the forms in which values
// are stored: xortable for related lookup tables that stay packed in memory,
// floatcodec for the bytes of float tensors.
//
// A package is written under a temporary name next to its destination, synced,
// checked and then renamed, so that a reader sees a whole package or none. It
// opens only if every digest, size and shape holds. The same content gives the
// same bytes: nothing in a package depends on the clock or the machine's name.
package pack
