package finitepass_test

import (
	"math"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// Tables of all types that devices compute in become XOR families, each route
// with the coding that counts fewest bytes.
func TestXORTypes(t *testing.T) {
	dev := openCPU(t, nn.ModeSplitK)
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
		m := newMaker(t, dev, 21, dt)
		rows := m.embedding("embed", 40, 512)
		f := m.finish(&nn.Fanout{
			Embedding: m.upload(rows), EmbeddingSource: rows, EmbeddingName: "embed", Residual: "residual",
			Prefix: []nn.RowLocal{m.layerNorm("norm", 512)},
			Branches: []nn.Branch{
				{Name: "q", Layers: []nn.RowLocal{m.linear("q", 512, 256, false)}},
				{Name: "k", Layers: []nn.RowLocal{m.linear("k", 512, 256, false)}},
			},
		})
		l, r := mustCompile(t, f, f.optionsFor(t, twoProfiles...))
		if !r.Comparison.Bitwise || len(l.Recipe().Sets) == 0 {
			t.Fatalf("%v: %+v", dt, r.Tables)
		}
		coded := 0
		for _, table := range r.Tables {
			if strings.HasPrefix(table.Coding, "xor ") {
				coded++
				if table.StoredBytes >= table.FullBytes {
					t.Errorf("%v: %+v", dt, table)
				}
			}
		}
		if coded == 0 || r.Account.After.ResidentBytes >= r.Account.AfterFull.ResidentBytes {
			t.Errorf("%v: %+v", dt, r.Tables)
		}
	}
}

// Many routes, each a little further from the first: any of them may be the
// base, and the automatic choice costs no more than any other.
func TestXORBaseOfManyRoutes(t *testing.T) {
	dev := &fakeDevice{kernel: func(y []float32, rows, _ int, _ bool) {
		for i := range y {
			y[i] = math.Float32frombits(math.Float32bits(y[i]) + uint32(min(rows, 8))*(1+uint32(i%3)))
		}
	}}
	var profiles []finitepass.Profile
	for n := 1; n < 8; n++ {
		profiles = append(profiles, finitepass.Profile{MaxRows: n, EvaluationRows: n})
	}
	f := newFixture(t, dev, shape{tokens: 12, width: 256, branches: []int{96}, seed: 3})
	stored := func(base int) int64 {
		o := f.options(t, profiles...)
		o.XORBase, o.RequireBitwise, o.ChunkRows = base, true, 16
		l, r := mustCompile(t, f, o)
		if len(l.Recipe().Sets) != 1 || len(l.Recipe().Sets[0].Recipe.Routes) != 8 {
			t.Fatalf("%+v", r.Tables)
		}
		return r.Account.After.ResidentBytes
	}
	auto := stored(xortable.BaseAuto)
	for base := range 8 {
		if n := stored(base); n < auto {
			t.Errorf("route %d as the base takes %d bytes, the automatic one %d", base, n, auto)
		}
	}
}
