// Package loader reads checkpoints: safetensors files, alone or as shards with
// an index, scanned strictly, streamed, and loaded into a declared set of
// parameters with every disagreement listed at once. It also writes safetensors.
package loader
