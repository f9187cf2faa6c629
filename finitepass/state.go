package finitepass

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
)

// Historical is the status of a report that was made for another state than the
// one it is held against: see [BlockReport.For].
const Historical Status = "historical"

// History is what was measured for a state that is no longer there.
type History struct {
	Status     Status      `json:"status"`
	Comparison *Comparison `json:"comparison,omitempty"`
	// Digest and SourceDigest identify the lookup and the weights that were
	// measured.
	Digest       string `json:"digest,omitempty"`
	SourceDigest string `json:"source_digest,omitempty"`
	// Reason says what has changed.
	Reason string `json:"reason"`
}

// Check hashes recipe and tensors again and returns an error that wraps
// [ErrRecipe] if they are not what they were when the lookup was opened: somebody
// wrote to a tensor, or the memory or file below it changed.
func (l *Lookup) Check() error {
	if now := l.hash(); now != l.digest {
		return fmt.Errorf("%w: the tensors have changed since the lookup was opened: digest %.16s…, was %.16s…", ErrRecipe, now, l.digest)
	}
	return nil
}

// For returns the report as it speaks of l and, unless weights is nil, of the
// source weights: the report itself while nothing has changed, and otherwise one
// with status [Historical] in which the comparison is history. All of l and of
// the source tensors is hashed again. r is not changed.
//
// A change that is undone leaves the bits that were measured, so the report then
// speaks of them again.
func (r *BlockReport) For(l *Lookup, weights architectures.Weights) (BlockReport, error) {
	reason := ""
	switch {
	case r.Comparison == nil || r.Digest == "":
		return *r, nil
	case l.Check() != nil:
		reason = l.Check().Error()
	case !r.Describes(l):
		reason = fmt.Sprintf("the lookup has the digest %.16s…, the one that was compared %.16s…", l.Digest(), r.Digest)
	case weights != nil && r.SourceDigest != "":
		now, err := SourceDigest(weights, r.sourceTensors())
		if err != nil {
			return *r, err
		}
		if now != r.SourceDigest {
			reason = fmt.Sprintf("the source tensors have the digest %.16s…, those that were compared %.16s…", now, r.SourceDigest)
		}
	}
	if reason == "" {
		return *r, nil
	}
	out := *r
	out.History = &History{r.Status, r.Comparison, r.Digest, r.SourceDigest, reason}
	out.Status, out.Reason, out.Comparison, out.Digest, out.SourceDigest = Historical, reason, nil, "", ""
	return out, nil
}

// sourceTensors lists the tensors that the source computes with.
func (r *BlockReport) sourceTensors() []string { return sourceTensors(r.Embedding, r.Removes) }

func sourceTensors(embedding string, removes []string) []string {
	names := slices.Clone(removes)
	if embedding != "" && !slices.Contains(names, embedding) {
		names = append(names, embedding)
	}
	slices.Sort(names)
	return names
}

// SourceDigest is the SHA-256 of the named tensors: names, types, shapes and
// bytes, in the given order.
func SourceDigest(weights architectures.Weights, names []string) (string, error) {
	h := sha256.New()
	for _, name := range names {
		t, err := weights.Tensor(name)
		if err != nil {
			return "", fmt.Errorf("digest of the source: %w", err)
		}
		for _, part := range [][]byte{[]byte(name), []byte(t.String()), t.Bytes()} {
			var n [8]byte
			binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
			h.Write(n[:])
			h.Write(part)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
