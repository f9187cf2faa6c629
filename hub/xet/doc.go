// Package xet downloads files from the content-addressed stores that the
// Hugging Face Hub keeps large files in, with the Xet protocol and without
// cgo.
//
// A [Client] fetches files: it asks the store how a file is built from chunks,
// fetches each stretch of stored chunks once, however often the file repeats
// it, unpacks chunks as they arrive and writes them where they belong, in any
// order. When the whole file came, its Xet hash is computed from the chunks
// and compared. Memory is bounded by the number of open transfers and does not
// depend on the size of the file.
//
// The package knows the store, not the Hub: the hash and the size of a file
// come from its caller, and so does the way to get a token ([TokenSource]).
// The token goes to the store alone. Addresses of content are signed and get
// no header but the byte range. Nothing else is ever sent: no telemetry, no
// session number.
//
// [HashFile], [Chunker], [Tree], [ChunkHash] and [Decoder] are the parts that
// others can use: cutting a file into chunks, hashing and unpacking.
//
// The library reads no environment variable, prints nothing and starts no
// goroutine that outlives a call. docs/xet.md has the details and figures.
package xet
