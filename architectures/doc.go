// Package architectures is the registry of trusted model code. A checkpoint is
// only ever loaded into an architecture that is registered here by name, in Go;
// no code from a model repository runs.
//
// Families register themselves in the way of database/sql drivers:
//
//	import _ "github.com/hfcompress/compress/architectures/llama"
//
// and [Lookup] or [ForConfig] finds them.
package architectures
