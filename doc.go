// Package compress makes models of the Hugging Face Hub smaller without
// changing what they compute, and proves it.
//
// [HuggingFace] does the whole road: resolve a revision to a commit, download it
// into the standard Hub cache or work from there, load the weights strictly into
// a trusted Go architecture, replace blocks that only ever see finitely many
// inputs by lookup tables, compare the complete outputs of source and candidate
// on many examples, roll back whatever fails, and write a package that gives the
// same bits when it is loaded again. [Local] starts from a directory or an
// archive, and [Load] opens a package.
//
// Architectures register themselves; this package imports those that the module
// has. No code from a model repository ever runs.
package compress
