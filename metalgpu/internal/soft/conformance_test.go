package soft_test

import (
	"context"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kerneltest"
	"github.com/hfcompress/compress/metalgpu/internal/soft"
)

func open(t testing.TB, opt soft.Options) driver.Driver {
	t.Helper()
	d := soft.Open(opt)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestConformance(t *testing.T) {
	for _, f := range kerneltest.Families {
		t.Run(f.Name, func(t *testing.T) {
			d := open(t, soft.Options{})
			bad := 0
			for _, c := range f.Cases(1, 4) {
				got, err := c.Run(context.Background(), d)
				if err == nil {
					err = c.Check(got)
				}
				if err != nil {
					if bad++; bad > 10 {
						t.Fatal("too many failures")
					}
					t.Error(err)
				}
			}
		})
	}
}

// With contraction, or with subnormals taken for zeros, cases must fail: else they
// would say nothing.
func TestConformanceFindsFaults(t *testing.T) {
	for name, fault := range map[string]soft.Fault{"contraction": soft.Contract, "flushed subnormals": soft.FlushSubnormals} {
		t.Run(name, func(t *testing.T) {
			for _, f := range kerneltest.Families {
				wrong, cases := 0, f.Cases(1, 4)
				for _, c := range cases {
					d := soft.Open(soft.Options{Fault: fault})
					got, err := c.Run(context.Background(), d)
					d.Close()
					if err != nil || c.Check(got) != nil {
						wrong++
					}
				}
				t.Logf("%s: %d of %d cases differ", f.Name, wrong, len(cases))
				// Some families only move values; norms have no product that a sum takes in
				// within an expression.
				safe := f.Name == "rows" || f.Name == "xor" || f.Name == "selection" || f.Name == "norm" && fault == soft.Contract
				if safe != (wrong == 0) {
					t.Errorf("%s: %d of %d cases differ", f.Name, wrong, len(cases))
				}
			}
		})
	}
}
