//go:build darwin

package kerneltest_test

import (
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/metal"
)

// The cases on a Mac's first GPU. Every Mac that runs this Go has one.
func TestMetal(t *testing.T) {
	d, err := metal.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	conform(t, d)
}
