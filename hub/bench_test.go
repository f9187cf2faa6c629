package hub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// BenchmarkDownload fetches one LFS file of 256 MiB over loopback, digest
// included. Server and client share the processors.
func BenchmarkDownload(b *testing.B) {
	const size = 256 << 20
	dir := b.TempDir()
	p := filepath.Join(dir, "org", "big", "main", "model.safetensors")
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(p, noise(21, size), 0o644); err != nil {
		b.Fatal(err)
	}
	s := newHub(b, hubtest.Options{FS: os.DirFS(dir)})
	for _, conns := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				c := newClient(b, s, func(o *hub.Options) { o.ConnsPerFile = conns })
				if _, err := c.Download(b.Context(), hub.ModelRepo("org/big"), "main", "model.safetensors"); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				_ = os.RemoveAll(c.CacheDir())
				b.StartTimer()
			}
		})
	}
}

// BenchmarkLimitedConnections fetches 64 MiB from a server that gives each
// connection 10 MiB per second, as storage behind the Hub does on a larger
// scale. The figure to look at is the rate against connections × 10 MiB/s.
func BenchmarkLimitedConnections(b *testing.B) {
	const size = 64 << 20
	s := newHub(b, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/big", Revisions: map[string]hubtest.Files{"main": {"model.safetensors": noise(22, size)}}}}})
	s.Inject(hubtest.Fault{Kind: hubtest.Slow, Origin: "cdn", Rate: 10 << 20, Count: -1})
	for _, conns := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				c := newClient(b, s, func(o *hub.Options) { o.ConnsPerFile = conns })
				if _, err := c.Download(b.Context(), hub.ModelRepo("org/big"), "main", "model.safetensors"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
