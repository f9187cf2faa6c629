// Package loader reads checkpoints: safetensors files, alone or as shards with
// an index, scanned strictly, streamed, and loaded into a declared set of
// parameters with every disagreement listed at once. It also writes safetensors.
//
// Nothing that a file says about itself is believed before it is checked.
// [ScanHeader] reads a header token by token under [Limits] and refuses
// duplicate names, unknown keys, gaps, overlaps and anything else on which two
// readers could disagree; what it accepts, the reference implementation of the
// format accepts too, once it knows the element types. [Open] adds shards and
// their index, [Strict] the comparison with what a model declares.
//
// # Memory
//
// On Unix, tensors are views of a read-only memory map and cost address space,
// not memory. Such a view dies with [Checkpoint.Close]; and if another process
// truncates the file while a view is in use, touching the lost pages raises
// SIGBUS, which Go cannot turn into an error. The file's length is checked
// before each tensor is handed out, which leaves only truncation during use.
// Callers that cannot rule it out set [Options.NoMap], and tensors are then read
// into memory of their own.
package loader
