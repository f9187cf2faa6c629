package finitepass_test

import (
	"context"
	"encoding/binary"
	"flag"
	"math"
	"testing"
	"time"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

var (
	largeTokens = flag.Int("large.tokens", 8192, "tokens of BenchmarkLarge; 150000 is the full size")
	largeWidth  = flag.Int("large.width", 5120, "width of its embedding; the table has a quarter of it")
)

// madeRows is an embedding that is made when it is read, so that a large one
// needs no memory.
type madeRows struct{ rows, width int }

func (r madeRows) NumRows() int        { return r.rows }
func (r madeRows) Width() int          { return r.width }
func (r madeRows) DType() tensor.DType { return tensor.F32 }
func (r madeRows) DecodeRow(dst []byte, i int) error {
	x := uint64(i)*0x9e3779b97f4a7c15 + 1
	for k := 0; k < len(dst); k += 4 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint32(dst[k:], math.Float32bits(float32(int32(x>>32))*0x1p-31))
	}
	return nil
}

// wideEncoder is the token encoder of UCE: rows of a wide embedding are
// normalised, projected to a quarter, and go through GELU, a layer norm and a
// scale.
func wideEncoder(t testing.TB, dev nn.Device, rows nn.RowSource, quarter int) *fixture {
	t.Helper()
	width := rows.Width()
	f := &fixture{dev: dev, weights: weights{}}
	weight, err := tensor.New(tensor.F32, quarter, width)
	if err != nil {
		t.Fatal(err)
	}
	source := madeRows{quarter, width}
	for i := range quarter {
		if err := source.DecodeRow(weight.Row(i), i+1<<30); err != nil {
			t.Fatal(err)
		}
	}
	ones, err := tensor.New(tensor.F32, quarter)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ones.Float32s() {
		ones.Float32s()[i] = 1 + float32(i%7)/8
	}
	f.weights["encoder.weight"], f.weights["norm.weight"] = weight, ones
	for _, name := range []string{"encoder.weight", "norm.weight"} {
		f.params = append(f.params, loader.Param{Name: name, Shape: f.weights[name].Shape(), DTypes: []tensor.DType{tensor.F32}})
	}
	linear, err := nn.NewLinear(dev, f.weights.Tensor, "encoder.weight", "")
	if err != nil {
		t.Fatal(err)
	}
	norm, err := nn.NewLayerNorm(dev, f.weights.Tensor, "norm.weight", "", 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	table, err := dev.UploadRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	f.source = &nn.Fanout{
		Embedding: table, EmbeddingSource: rows, EmbeddingName: "embedding",
		Prefix: []nn.RowLocal{nn.RowNormalize{Eps: 1e-12}},
		Branches: []nn.Branch{{Name: "tokens", Layers: []nn.RowLocal{
			linear, nn.Activation{Function: nn.GELU}, norm, nn.Scaled{Factor: float32(math.Sqrt(float64(quarter)))},
		}}},
	}
	f.params = append(f.params, loader.Param{Name: "embedding", Shape: tensor.Shape{rows.NumRows(), width}, DTypes: []tensor.DType{tensor.F32}})
	f.spec = architectures.BlockSpec{
		Path: "encoder", Contract: architectures.TokenIndicesOnly,
		NumTokens: rows.NumRows(), EmbeddingWidth: width, Embedding: "embedding",
		Removes: []string{"embedding", "encoder.weight", "norm.weight"},
		Outputs: []nn.Output{{Name: "tokens", Width: quarter, DType: tensor.F32}},
	}
	return f
}

// BenchmarkLarge compiles a wide token encoder and compares it, and reports the
// time as a multiple of one product over the whole domain, made in calls of the
// same size:
//
//	go test ./finitepass -run '^$' -bench Large -benchtime 1x -large.tokens 150000
func BenchmarkLarge(b *testing.B) {
	dev := openCPU(b, "")
	f := wideEncoder(b, dev, madeRows{*largeTokens, *largeWidth}, *largeWidth/4)
	inv, err := finitepass.PlannedInventory(f.params, nil)
	if err != nil {
		b.Fatal(err)
	}
	o := finitepass.Options{Contract: architectures.TokenIndicesOnly, Inventory: inv, RequireBitwise: true, FullWork: 1}
	for b.Loop() {
		start := time.Now()
		product(b, f)
		once := time.Since(start)
		start = time.Now()
		_, profiles, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{Strict: true})
		if err != nil || len(profiles) > 0 {
			b.Fatal(profiles, err)
		}
		probed := time.Since(start)
		l, r := mustCompile(b, f, o)
		if !r.Comparison.Sampled || !r.Describes(l) {
			b.Fatal(r.Comparison)
		}
		all := time.Since(start)
		b.ReportMetric(once.Seconds(), "s/product")
		b.ReportMetric(probed.Seconds(), "s/probe")
		b.ReportMetric(all.Seconds(), "s/compile")
		b.ReportMetric(all.Seconds()/once.Seconds(), "products/compile")
	}
}

// product evaluates the source once for every token.
func product(b *testing.B, f *fixture) {
	const rows = 1024
	ids := make([]int, rows)
	for from := 0; from < f.spec.NumTokens; from += rows {
		for i := range ids {
			ids[i] = (from + i) % f.spec.NumTokens
		}
		s := f.dev.Begin(context.Background())
		f.source.Forward(s, ids)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
