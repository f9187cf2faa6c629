package archive_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/tensor"
)

// manyTensors is a checkpoint of n small tensors.
func manyTensors(n int) map[string][]byte {
	rng := rand.New(rand.NewPCG(81, 1))
	var parts []part
	for i := range n {
		parts = append(parts, part{name: fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i/64, i%64),
			dtype: tensor.BF16, shape: []int{8, 16}, data: bf16(rng, 128)})
	}
	return map[string][]byte{"model.safetensors": safetensors(parts, nil)}
}

func BenchmarkOpen10000Tensors(b *testing.B) {
	packed := packTree(b, manyTensors(10_000), archive.Options{})
	b.ReportMetric(float64(len(packed)), "archive-bytes")
	for b.Loop() {
		r, err := archive.NewReader(bytes.NewReader(packed), int64(len(packed)), archive.ReadOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.Lookup("model.layers.100.mlp.experts.5.down_proj.weight"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRandom128KiB reads 128 KiB of BF16 weights at chunk boundaries, with
// the archive in memory, and reports the middle and the slowest hundredth.
func BenchmarkRandom128KiB(b *testing.B) {
	const chunks = 64
	rng := rand.New(rand.NewPCG(91, 1))
	packed := packTree(b, map[string][]byte{"m.safetensors": safetensors([]part{
		{name: "w", dtype: tensor.BF16, shape: []int{chunks, 65536}, data: bf16(rng, chunks*65536)}}, nil)}, archive.Options{})
	r := open(b, packed, archive.ReadOptions{Workers: 1})
	s, err := r.TensorReader("w")
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 128<<10)
	b.SetBytes(int64(len(buf)))
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := s.ReadAt(buf, int64(rng.IntN(chunks))<<17); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

// httpAt reads ranges of a file on a server.
type httpAt struct {
	url      string
	requests atomic.Int64
	bytes    atomic.Int64
}

func (h *httpAt) ReadAt(b []byte, off int64) (int, error) {
	req, err := http.NewRequest(http.MethodGet, h.url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+int64(len(b))-1))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent {
		return 0, fmt.Errorf("status %s", resp.Status)
	}
	h.requests.Add(1)
	n, err := io.ReadFull(resp.Body, b)
	h.bytes.Add(int64(n))
	return n, err
}

// One tensor of an archive on a server takes a few requests and not much more
// than its own bytes.
func TestOverHTTP(t *testing.T) {
	files := sample(rand.New(rand.NewPCG(101, 1)))
	packed := packTree(t, files, archive.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.hfa", time.Time{}, bytes.NewReader(packed))
	}))
	defer server.Close()
	at := &httpAt{url: server.URL}
	r, err := archive.NewReader(at, int64(len(packed)), archive.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := at.requests.Load(); n != 3 {
		t.Errorf("%d requests to open, want 3", n)
	}
	opened := at.bytes.Load()
	info := mustLookup(t, r, "b.weight")
	x, err := r.Tensor("b.weight")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x.Bytes(), files[info.File][info.Offset:info.Offset+info.Size]) {
		t.Error("differs")
	}
	if n := at.requests.Load(); n != 5 {
		t.Errorf("%d requests for one tensor, want 2 more than to open", n-3)
	}
	if n := at.bytes.Load() - opened; n != info.Stored {
		t.Errorf("%d bytes for a tensor of %d", n, info.Stored)
	}
}
