package xortable_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

// related makes tables as a model compiler does: one matrix product, summed in
// as many different orders as there are tables. Inputs are normalised rows and
// weights of the usual scale.
func related(t testing.TB, seed uint64, count, rows, inner, width int) []*tensor.Tensor {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, rows*inner)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	w := make([]float32, width*inner)
	for i := range w {
		w[i] = float32(rng.NormFloat64() * 0.02)
	}
	var tables []*tensor.Tensor
	for n := range count {
		parts := 1 << n // partial sums, added at the end
		out := make([]float32, rows*width)
		for r := range rows {
			for c := range width {
				var sums [64]float32
				for k := range inner {
					sums[k%parts] += float32(x[r*inner+k] * w[c*inner+k])
				}
				total := sums[0]
				for _, s := range sums[1:parts] {
					total += s
				}
				out[r*width+c] = total
			}
		}
		table, err := tensor.FromFloat32s(out, rows, width)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	return tables
}

// narrowed rounds F32 tables to nearest even, as BF16 or F16.
func narrowed(t testing.TB, d tensor.DType, tables []*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	var out []*tensor.Tensor
	for _, table := range tables {
		n, err := tensor.New(d, table.Shape()...)
		if err != nil {
			t.Fatal(err)
		}
		for i, bits := range table.Uint32s() {
			v := uint16((bits + 0x7fff + bits>>16&1) >> 16)
			if d == tensor.F16 {
				v = halfBits(math.Float32frombits(bits))
			}
			binary.LittleEndian.PutUint16(n.Bytes()[2*i:], v)
		}
		out = append(out, n)
	}
	return out
}

// halfBits rounds a value of normal half-precision range; smaller ones become
// zero, which is all that test data needs.
func halfBits(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	e := int(b>>23&0xff) - 112
	if e <= 0 {
		return sign
	}
	m := uint32(e)<<23 | b&0x7fffff
	return sign | uint16((m+0xfff+m>>13&1)>>13)
}
