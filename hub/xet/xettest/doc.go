// Package xettest is a strict content-addressed store for tests, in this
// process and on loopback. It cuts content into chunks, packs them into xorbs
// with each chunk kept once over all files, answers both versions of the
// reconstruction call, and serves byte ranges of xorbs from a second origin
// under signed addresses. Faults make it misbehave in chosen ways.
//
// It is strict: a content request that has no byte range, another range than
// its address was signed for, or a token, is refused or noted as a violation.
//
// A test Hub needs four things from it to offer Xet: [Server.Add] gives the
// X-Xet-Hash of a file, [Server.Issue] the body of a token answer, and
// [Server.CASURL] and [Server.Close] the rest.
package xettest
