// Package hubtest is a strict Hub in one process, for tests and
// demonstrations. It serves repositories from a file system or from memory
// over loopback and speaks the protocol of the real Hub: resolve, tree with
// pages, model information, refs, gated and private repositories, error
// codes, rate limits. LFS files are answered by a redirect to a second origin
// (another port) with signed addresses, as on the real Hub.
//
// With [Options.Xet] it offers LFS files over Xet as well: it states their
// hashes and gives tokens for a store of package xettest.
//
// The server is strict: it refuses what the real Hub refuses and records what
// no client should do (see [Server.Violations]), above all a token that
// arrives at the second origin. Every request is recorded, so that a test can
// count requests and bytes. [Fault] makes it misbehave on demand.
//
// The package does not import testing and may run inside a command.
package hubtest
