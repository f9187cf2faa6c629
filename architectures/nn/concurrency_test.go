package nn_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

func TestSessionsSideBySide(t *testing.T) {
	dev := open(t, nn.CPUOptions{Threads: 2})
	want := goldenResults(t, dev)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for name, r := range goldenResults(t, dev) {
				if !tensor.BitEqual(r, want[name]) {
					t.Errorf("%s differs", name)
				}
			}
		})
	}
	wg.Wait()
}

// source is a table whose rows are what decode makes of them.
type source struct{ decode func(i int) error }

func (source) NumRows() int        { return 1000 }
func (source) Width() int          { return 2 }
func (source) DType() tensor.DType { return tensor.F32 }
func (s source) DecodeRow(dst []byte, i int) error {
	clear(dst)
	return s.decode(i)
}

func TestGatherReportsRowsAndCancellation(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	for name, c := range map[string]struct {
		decode func(i int) error
		is     error
		want   string
	}{
		"broken row": {func(i int) error {
			if i == 7 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}, io.ErrUnexpectedEOF, "gather: row of token id 7: unexpected EOF"},
		// The context ends while the rows are being decoded.
		"cancelled": {func(i int) error { cancel(); return nil }, context.Canceled, "gather: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := dev.UploadRows(source{c.decode})
			if err != nil {
				t.Fatal(err)
			}
			s := dev.Begin(context.Background())
			if name == "cancelled" {
				s = dev.Begin(ctx)
			}
			s.Gather(table, []int{3, 7, 5})
			if err := s.Close(); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestClosedDeviceAndSession(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	x := f32(t, []float32{1}, 1, 1)
	s := dev.Begin(context.Background())
	a := s.FromHost(x)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Add(a, a); !errors.Is(s.Err(), nn.ErrClosed) {
		t.Errorf("operation in a closed session: %v", s.Err())
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := dev.Upload(x, nn.AsMatrix); !errors.Is(err, nn.ErrClosed) {
		t.Errorf("upload: %v", err)
	}
	if _, err := dev.UploadRows(source{}); !errors.Is(err, nn.ErrClosed) {
		t.Errorf("upload rows: %v", err)
	}
	if _, err := dev.NewKVCache(1, 1, 1); !errors.Is(err, nn.ErrClosed) {
		t.Errorf("cache: %v", err)
	}
	if err := dev.Begin(context.Background()).Err(); !errors.Is(err, nn.ErrClosed) {
		t.Errorf("session: %v", err)
	}
}

func TestCacheBounds(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	for _, c := range [][3]int{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1, 1, int(^uint(0) >> 1)}, {-1, 1, 1}} {
		if _, err := dev.NewKVCache(c[0], c[1], c[2]); !errors.Is(err, tensor.ErrShape) {
			t.Errorf("%v: %v", c, err)
		}
	}
	c, err := dev.NewKVCache(2, 3, 40)
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Begin(context.Background())
	defer s.Close()
	x := s.FromHost(f32(t, make([]float32, 2*30*3), 60, 3))
	s.Append(c, x, x)
	if c.Len() != 30 || c.Capacity() != 40 {
		t.Errorf("length %d of %d", c.Len(), c.Capacity())
	}
	c.Truncate(50)
	c.Truncate(11)
	if c.Len() != 11 {
		t.Errorf("length %d after Truncate(11)", c.Len())
	}
	c.Truncate(-1)
	if c.Len() != 0 || s.Err() != nil {
		t.Errorf("length %d, %v", c.Len(), s.Err())
	}
}
