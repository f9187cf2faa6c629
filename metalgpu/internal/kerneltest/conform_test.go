package kerneltest_test

import (
	"context"
	"slices"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kerneltest"
)

// conform runs all cases on a driver, each three times: they must be right and
// give the same bytes.
func conform(t *testing.T, d driver.Driver) {
	ctx := context.Background()
	for _, f := range kerneltest.Families {
		t.Run(f.Name, func(t *testing.T) {
			for _, c := range f.Cases(1, 4) {
				got, err := c.Run(ctx, d)
				if err == nil {
					err = c.Check(got)
				}
				if err != nil {
					t.Error(err)
					continue
				}
				for range 2 {
					again, err := c.Run(ctx, d)
					if err != nil {
						t.Fatal(err)
					}
					for i := range got {
						if !slices.Equal(got[i], again[i]) {
							t.Errorf("%s: buffer %d is another one when run again", c.Name, i)
						}
					}
				}
			}
		})
	}
}
