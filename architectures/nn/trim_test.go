package nn_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// TestTrim: what is kept keeps its values while its neighbours' storage is used
// again, and what is not kept cannot be used.
func TestTrim(t *testing.T) {
	dev := open(t, nn.CPUOptions{Threads: 1})
	s := dev.Begin(context.Background())
	rng := rand.New(rand.NewPCG(1, 2))
	values := normal(rng, 64*100)
	a := s.FromHost(f32(t, values, 64, 100))
	dropped := s.Scale(a, 2)
	kept := s.Scale(a, 3)
	s.(nn.Trimmer).Trim(kept, kept)
	for range 4 {
		s.Scale(kept, 5)
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	for i, v := range s.ToHost(kept).Float32s() {
		if v != values[i]*3 {
			t.Fatalf("value %d is %v, want %v", i, v, values[i]*3)
		}
	}
	s.Scale(dropped, 1)
	if err := s.Close(); !errors.Is(err, nn.ErrOperand) {
		t.Errorf("a freed operand: %v", err)
	}

	s, other := dev.Begin(context.Background()), dev.Begin(context.Background())
	foreign := other.FromHost(f32(t, values, 64, 100))
	s.(nn.Trimmer).Trim(foreign)
	if err := s.Close(); !errors.Is(err, nn.ErrOperand) {
		t.Errorf("another session's array: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestSizes goes through results of all sizes in one session: storage is as large
// as it must be, or a kernel would fault.
func TestSizes(t *testing.T) {
	dev := open(t, nn.CPUOptions{Threads: 1})
	for n := 1; n < 5000; n += 1 + n/40 {
		s := dev.Begin(context.Background())
		x := s.FromHost(f32(t, make([]float32, n), 1, n))
		y := s.Add(x, s.Add(x, x))
		if got := s.ToHost(y); s.Err() == nil && !got.Shape().Equal(tensor.Shape{1, n}) {
			t.Errorf("%v", got.Shape())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
