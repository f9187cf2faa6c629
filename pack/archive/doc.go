// Package archive keeps any files in one file that is smaller, and gives them
// back bit for bit.
//
// Tensors in safetensors files are compressed by package floatcodec, everything
// else by Zstandard or not at all, whichever is smallest. Content that occurs
// twice is stored once, and tensors that differ a little from those of a base
// archive can be stored as differences. Every chunk has a checksum and every
// file its SHA-256, which unpacking compares.
//
// [Pack] and [Reader.Unpack] are the whole way there and back for directories.
// [Writer] streams an archive to any io.Writer, with the index last; [Reader]
// works on any io.ReaderAt, so that one tensor, or a part of it, can be read
// from an archive on a server that supports ranges without the rest. A Reader is
// also an [io/fs.FS] of the original files, and importing this package lets
// loader.Open read checkpoints from archives.
//
// Memory is bounded by chunks and workers, not by files. Nothing that an archive
// declares is allocated before it is held against [Limits]; every fault is
// reported with the names of the file and tensor it concerns and wraps
// [ErrCorrupt]. The format is in docs/format.md.
package archive
