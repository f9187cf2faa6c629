package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hfcompress/compress/hub/xet"
	"pgregory.net/rapid"
)

// However content is cut, ordered and repeated, every part ends up complete
// with the checksum of what is on disk.
func TestXetSink(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Int64Range(minPart+1, 4*minPart).Draw(rt, "size")
		data := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		c, err := New(Options{CacheDir: dir})
		if err != nil {
			rt.Fatal(err)
		}
		etag := fmt.Sprintf("%x", sha256.Sum256(data))
		p, err := c.openPartial(spot{dir: dir, stem: etag, final: filepath.Join(dir, etag)}, etag, size)
		if err != nil {
			rt.Fatal(err)
		}
		defer p.remove()
		tr := &transfer{c: c, etag: etag, size: size, p: p}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		flow := tr.newFlow(ctx, cancel, true)
		sink := newXetSink(ctx, tr, flow)

		type piece struct{ from, to int64 }
		var pieces []piece
		for at := int64(0); at < size; {
			n := min(rapid.Int64Range(1, 700_000).Draw(rt, "n"), size-at)
			pieces = append(pieces, piece{at, at + n})
			at += n
		}
		write := func(pc piece, b []byte) {
			if n, err := sink.WriteAt(b[pc.from:pc.to], pc.from); err != nil || n != int(pc.to-pc.from) {
				rt.Errorf("%d, %v", n, err)
			}
		}
		if rapid.Bool().Draw(rt, "shuffle") {
			pieces = rapid.Permutation(pieces).Draw(rt, "order")
		}
		if rapid.Bool().Draw(rt, "wrong first") {
			wrong := bytes.Repeat([]byte{7}, int(size))
			for range 3 {
				write(pieces[rapid.IntRange(0, len(pieces)-1).Draw(rt, "which")], wrong)
			}
		}
		workers := rapid.IntRange(1, 3).Draw(rt, "workers")
		var wg sync.WaitGroup
		for w := range workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := w; i < len(pieces); i += workers {
					write(pieces[i], data)
				}
			}()
		}
		wg.Wait()
		flow.close()
		if n, complete := p.state(); !complete || n != size {
			rt.Fatalf("%d of %d bytes, complete: %v", n, size, complete)
		}
		got := make([]byte, size)
		if _, err := p.f.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
			rt.Fatalf("content differs, %v", err)
		}
		if err := flow.verify(ctx); err != nil {
			rt.Fatal(err)
		}
		// Part of it is disowned: the journal keeps the rest.
		bad := rapid.Int64Range(0, size-1).Draw(rt, "bad")
		if err := p.disown(joinRanges(nil, xet.Range{Start: bad, End: bad + 1})); err != nil {
			rt.Fatal(err)
		}
		b, err := os.ReadFile(p.journal)
		if err != nil {
			rt.Fatal(err)
		}
		_, sums, ok := parseJournal(b)
		if !ok || len(sums) != p.parts()-1 {
			rt.Fatalf("%d of %d parts in the journal", len(sums), p.parts())
		}
		for i, sum := range sums {
			from, to := p.span(i)
			if bad >= from && bad < to || sum != crc32.Checksum(data[from:to], castagnoli) {
				rt.Errorf("part %d has the checksum %08x", i, sum)
			}
		}
		if m := p.missing(); len(m) != 1 || m[0].Start > bad || m[0].End <= bad {
			rt.Errorf("missing: %v", m)
		}
	})
}
