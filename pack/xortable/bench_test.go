package xortable_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// BenchmarkDecodeRow reports the time of one row of 2,048 columns per mode; full
// is a plain copy of the row.
func BenchmarkDecodeRow(b *testing.B) {
	f32 := related(b, 1, 2, 84, 512, 2048)
	for _, family := range []struct {
		name   string
		tables []*tensor.Tensor
	}{
		{"F32", f32},
		{"BF16", narrowed(b, tensor.BF16, f32)},
		{"F32-wide", scrambled(b, f32[0], 14)},
	} {
		for _, mode := range []xortable.Mode{xortable.Full, xortable.Low8, xortable.Low16, xortable.Packed} {
			set, err := xortable.Encode(family.tables, xortable.Options{Modes: []xortable.Mode{mode}})
			if err != nil {
				b.Fatal(err)
			}
			route := set.Route(1)
			if route.Mode() != mode {
				continue // no saving in this mode, so it is never used
			}
			row := make([]byte, route.Width()*route.DType().Size())
			b.Run(fmt.Sprintf("%s/%s", family.name, mode), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(row)))
				// The fastest run of a few rows says what the code costs when nothing
				// else takes the processor away.
				const rows = 21
				best := time.Duration(math.MaxInt64)
				i := 0
				for b.Loop() {
					start := time.Now()
					for range rows {
						if err := route.DecodeRow(row, i); err != nil {
							b.Fatal(err)
						}
						if i++; i == route.NumRows() {
							i = 0
						}
					}
					best = min(best, time.Since(start))
				}
				b.ReportMetric(float64(best.Nanoseconds())/rows, "min-ns/row")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/rows/float64(b.N), "ns/row")
			})
		}
	}
}

// scrambled pairs a table with a copy whose low bits are random, so that packed
// codes are wider than the widest generated function.
func scrambled(b *testing.B, table *tensor.Tensor, bits int) []*tensor.Tensor {
	other := table.Clone()
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range other.Uint32s() {
		other.Uint32s()[i] ^= rng.Uint32() & (1<<bits - 1)
	}
	return []*tensor.Tensor{table, other}
}

// BenchmarkSizes reports the bytes of the second table, beside a full table and
// Zstandard over the XOR with the base (which decodes no row alone).
func BenchmarkSizes(b *testing.B) {
	f32 := related(b, 1, 2, 84, 512, 1536)
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		b.Fatal(err)
	}
	for _, tables := range [][]*tensor.Tensor{f32, narrowed(b, tensor.BF16, f32), narrowed(b, tensor.F16, f32)} {
		b.Run(tables[0].DType().String(), func(b *testing.B) {
			var set *xortable.Set
			for b.Loop() {
				if set, err = xortable.Encode(tables, xortable.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			x := make([]byte, len(tables[0].Bytes()))
			for i := range x {
				x[i] = tables[0].Bytes()[i] ^ tables[1].Bytes()[i]
			}
			r := set.Report().Routes[1]
			for mode, bytes := range r.Considered {
				b.ReportMetric(float64(bytes), string(mode)+"-B")
			}
			b.ReportMetric(float64(len(enc.EncodeAll(x, nil))), "zstd-xor-B")
			b.ReportMetric(float64(len(enc.EncodeAll(tables[1].Bytes(), nil))), "zstd-B")
			b.ReportMetric(float64(r.Exceptions), "exceptions")
			b.ReportMetric(float64(r.DifferenceGroups), "diff-groups")
			b.ReportMetric(float64(r.XORGroups), "xor-groups")
		})
	}
}
