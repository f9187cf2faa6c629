package speed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/metal"
	"github.com/hfcompress/compress/metalgpu/internal/soft"
	"github.com/hfcompress/compress/metalgpu/internal/vulkan"
	"github.com/hfcompress/compress/tensor"
)

// Options say what is measured. The zero value fits the kind of the device.
type Options struct {
	// Size is the extent of matrices: products are Size × Size × Size, and a vector
	// is multiplied with matrices of 4·Size × Size. 0 means 4096, or 256 for devices
	// in software.
	Size int
	// Repeat is how often each measurement is repeated; the best counts. 0 means 5.
	Repeat int
}

// Result is what was measured.
type Result struct {
	Device metalgpu.DeviceInfo `json:"device"`
	// CopyBytes is the bytes per second that a copy within the device's memory reads
	// and writes, counted together.
	CopyBytes float64 `json:"copy_bytes_per_second"`
	// Peak is the float32 operations per second in registers, products and sums
	// rounded each: half of what a device claims that counts fused operations as two.
	Peak float64 `json:"peak_operations_per_second"`
	// Submit is the time of one submission of nearly nothing, and the wait for it.
	Submit time.Duration `json:"submit_nanoseconds"`
	// Products are products of matrices through the device.
	Products []Product `json:"products"`
}

// Product is a linear map that was measured.
type Product struct {
	DType tensor.DType `json:"dtype"`
	Rows  int          `json:"rows"`
	In    int          `json:"in"`
	Out   int          `json:"out"`
	// Seconds is the time of one, Operations and Bytes what it computes and the
	// weights that it reads.
	Seconds    float64 `json:"seconds"`
	Operations float64 `json:"operations"`
	Bytes      float64 `json:"bytes"`
}

// openDriver opens a device below the one that models use.
func openDriver(info metalgpu.DeviceInfo) (driver.Driver, error) {
	switch info.API {
	case "vulkan":
		return vulkan.Open(info.Index, vulkan.Options{Code: code})
	case "metal":
		return metal.Open(info.Index)
	}
	return soft.Open(soft.Options{}), nil
}

// Measure measures the device that metalgpu would open with o.
func Measure(ctx context.Context, o metalgpu.Options, m Options) (*Result, error) {
	report, dev, err := metalgpu.OpenReport(ctx, o)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	soft := report.Device.Kind == "cpu"
	if m.Size == 0 {
		if m.Size = 4096; soft {
			m.Size = 256
		}
	}
	if m.Repeat == 0 {
		m.Repeat = 5
	}
	r := &Result{Device: report.Device}
	if err := r.floors(ctx, m, soft); err != nil {
		return nil, err
	}
	for _, d := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
		for _, shape := range [][3]int{{1, m.Size, 4 * m.Size}, {8, m.Size, 4 * m.Size}, {m.Size, m.Size, m.Size}} {
			p, err := product(ctx, dev, d, shape, m.Repeat)
			if err != nil {
				return nil, err
			}
			r.Products = append(r.Products, p)
		}
	}
	return r, nil
}

// floors measures what memory, arithmetic and submissions cost at least.
func (r *Result) floors(ctx context.Context, m Options, soft bool) error {
	d, err := openDriver(r.Device)
	if err != nil {
		return err
	}
	defer d.Close()
	list, err := d.Begin()
	if err != nil {
		return err
	}
	defer list.Close()
	size, groups, turns, copies := int64(512<<20), 8192, 512, 8
	if soft {
		size, groups, turns, copies = 32<<20, 16, 16, 2
	}
	limits := d.Info().Limits
	size = min(size, limits.MaxBufferBytes, limits.MemoryBytes/4) &^ 255
	var buffers [2]driver.Buffer
	for i := range buffers {
		if buffers[i], err = d.NewBuffer(size, driver.Device); err != nil {
			return err
		}
	}
	took, err := best(ctx, m.Repeat, func() error {
		for range copies {
			list.Copy(buffers[1], 0, buffers[0], 0, size)
		}
		return list.Run(ctx)
	})
	if err != nil {
		return err
	}
	r.CopyBytes = 2 * float64(copies) * float64(size) / took.Seconds()
	if r.Submit, err = best(ctx, 20*m.Repeat, func() error {
		list.Copy(buffers[1], 0, buffers[0], 0, 4)
		return list.Run(ctx)
	}); err != nil {
		return err
	}
	peak, err := d.NewPipeline(Peak)
	if err != nil {
		return err
	}
	push := []uint32{uint32(groups), uint32(turns)}
	if took, err = best(ctx, m.Repeat, func() error {
		list.Dispatch(peak, Peak.Groups(push), []driver.Binding{{Buffer: buffers[0]}}, push)
		return list.Run(ctx)
	}); err != nil {
		return err
	}
	r.Peak = peakOperations(turns) * group * float64(groups) / took.Seconds()
	return nil
}

// best is the shortest time of several calls, behind one that does not count.
func best(ctx context.Context, repeat int, f func() error) (time.Duration, error) {
	if err := f(); err != nil {
		return 0, err
	}
	var least time.Duration
	for i := range repeat {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

// product times linear maps in one session, several weights in turns so that they
// are not in a cache from the last time. The time of a session with one product
// is taken off that of one with many.
func product(ctx context.Context, dev nn.Device, d tensor.DType, shape [3]int, repeat int) (Product, error) {
	rows, in, out := shape[0], shape[1], shape[2]
	p := Product{
		DType: d, Rows: rows, In: in, Out: out,
		Operations: 2 * float64(rows) * float64(in) * float64(out),
		Bytes:      float64(d.Size()) * float64(in) * float64(out),
	}
	weight, err := tensor.New(d, out, in)
	if err != nil {
		return p, err
	}
	x, err := tensor.New(d, rows, in)
	if err != nil {
		return p, err
	}
	var weights []nn.Array
	for range 4 {
		w, err := dev.Upload(weight, nn.AsMatrix)
		if err != nil {
			return p, err
		}
		weights = append(weights, w)
	}
	run := func(n int) func() error {
		return func() error {
			s := dev.Begin(ctx)
			a := s.FromHost(x)
			y := a
			for i := range n {
				y = s.Linear(a, weights[i%len(weights)], nil)
			}
			if s.ToHost(s.Columns(y, 0, 1)) == nil {
				return errors.Join(fmt.Errorf("%d×%d×%d", rows, in, out), s.Close())
			}
			return s.Close()
		}
	}
	const many = 9
	one, err := best(ctx, repeat, run(1))
	if err != nil {
		return p, err
	}
	all, err := best(ctx, repeat, run(many))
	if err != nil {
		return p, err
	}
	p.Seconds = max((all-one).Seconds()/(many-1), 1e-9)
	return p, nil
}
