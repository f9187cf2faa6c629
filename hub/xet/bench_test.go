package xet_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/hub/xet"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

type discard struct{}

func (discard) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// Loopback, unpacking and hashing, without a disk; the server shares the
// cores.
func BenchmarkFetch(b *testing.B) {
	s := start(b, xettest.Options{Scheme: func(int) xet.Scheme { return xet.SchemeNone }})
	data := make([]byte, 64<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	f := s.AddBytes(data)
	c := fast(b, xet.Options{})
	b.SetBytes(f.Size)
	for b.Loop() {
		res, err := c.Fetch(context.Background(), xet.Request{Hash: f.Hash, Size: f.Size, Tokens: xet.NewTokens(s.Source), Out: discard{}})
		if err != nil || !res.Verified {
			b.Fatal(res, err)
		}
	}
}
