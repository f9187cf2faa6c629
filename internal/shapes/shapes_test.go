package shapes

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"testing"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func TestNovoMolGen32MCount(t *testing.T) {
	entries := NovoMolGen32M.Entries(0)
	total := 0
	for _, e := range entries {
		n, err := e.Shape.Elements()
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if len(entries) != 111 || total != 31_556_096 {
		t.Errorf("%d values in %d tensors, published are 31,556,096 in 111", total, len(entries))
	}
}

var small = Llama{Vocabulary: 7, Hidden: 8, Intermediate: 12, Layers: 2, Heads: 2, MaxPositions: 16, RopeTheta: 1e4, RMSNormEps: 1e-6}

func TestWrite(t *testing.T) {
	single, sharded := t.TempDir(), t.TempDir()
	if err := small.Write(single, 1, 0, false); err != nil {
		t.Fatal(err)
	}
	if err := small.Write(sharded, 1, 2000, false); err != nil {
		t.Fatal(err)
	}
	if err := small.Write(single, 1, 0, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second write gave %v", err)
	}
	if err := small.Write(single, 1, 0, true); err != nil {
		t.Error(err)
	}
	a, err := loader.Open(single, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := loader.Open(sharded, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if len(a.Names()) != 3+9*2 || len(b.Files()) < 2 {
		t.Errorf("%d tensors, %d shards", len(a.Names()), len(b.Files()))
	}
	for _, name := range a.Names() {
		x, err := a.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if !tensor.BitEqual(x, y) {
			t.Errorf("%s differs when sharded", name)
		}
	}
	var config map[string]any
	if err := json.Unmarshal(small.Config(), &config); err != nil {
		t.Fatal(err)
	}
	if config["torch_dtype"] != "float32" || config["head_dim"] != 4.0 || config["vocab_size"] != 7.0 {
		t.Errorf("config %v", config)
	}
}

// The digest was computed once on amd64; every machine must give the same.
func TestValuesAreTheSameEverywhere(t *testing.T) {
	var b bytes.Buffer
	if _, err := loader.Write(&b, small.Entries(1), loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = "3be980f0c9487d99e852f927bb8bcb0e1dc94f240c24af5517b632311f5236f6"
	if got := fmt.Sprintf("%x", sha256.Sum256(b.Bytes())); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestNormal(t *testing.T) {
	const n = 200_000
	raw, err := io.ReadAll(newNormal(3, "x", n, 0, 1))
	if err != nil || len(raw) != 4*n {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	var sum, square, beyond float64
	for i := range n {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		sum += v
		square += v * v
		if math.Abs(v) > 1.96 {
			beyond++
		}
	}
	// Six standard errors of each estimate.
	if mean := sum / n; math.Abs(mean) > 0.0135 {
		t.Errorf("mean %v", mean)
	}
	if variance := square / n; math.Abs(variance-1) > 0.019 {
		t.Errorf("variance %v", variance)
	}
	if share := beyond / n; math.Abs(share-0.05) > 0.005 {
		t.Errorf("%v beyond 1.96 deviations, a normal distribution has 0.05", share)
	}
	other, err := io.ReadAll(newNormal(4, "x", n, 0, 1))
	if err != nil || bytes.Equal(raw, other) {
		t.Errorf("another seed gives the same values (%v)", err)
	}
}
