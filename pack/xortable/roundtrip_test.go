package xortable_test

import (
	"testing"

	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

func TestRoundTripOfRelatedTables(t *testing.T) {
	f32 := related(t, 7, 3, 12, 64, 200)
	for _, tables := range [][]*tensor.Tensor{f32, narrowed(t, tensor.BF16, f32), narrowed(t, tensor.F16, f32)} {
		for base := xortable.BaseAuto; base < len(tables); base++ {
			set, err := xortable.Encode(tables, xortable.Options{Base: base})
			if err != nil {
				t.Fatal(err)
			}
			if r := set.Report(); !r.Reduced || r.Status != xortable.StatusVerified {
				t.Errorf("%v, base %d: %+v", tables[0].DType(), base, r)
			}
		}
	}
}
