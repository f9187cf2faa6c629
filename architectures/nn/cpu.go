package nn

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/hfcompress/compress/internal/gemm"
	"github.com/hfcompress/compress/tensor"
)

// Errors that device operations wrap, besides [tensor.ErrShape] and
// [tensor.ErrDType].
var (
	// ErrMode is an unknown [CPUOptions.Mode].
	ErrMode = errors.New("unknown CPU mode")
	// ErrClosed is the use of a device or session after it was closed.
	ErrClosed = errors.New("closed")
	// ErrOperand is an operand that does not belong to the device or session that
	// it is given to, or that has the wrong use.
	ErrOperand = errors.New("bad operand")
	// ErrIndex is a token id, or another index, outside its range.
	ErrIndex = errors.New("index out of range")
)

// ModeSplitK is the [CPUOptions.Mode] whose linear maps add up their products in
// another order for each of three intervals of row counts, as fast GPU kernels
// do: {1}, {2–15}, {16 and more}.
const ModeSplitK = "split-k"

// CPUOptions configures [OpenCPU]. The zero value is the default device.
type CPUOptions struct {
	// Mode is empty for the device "cpu", whose results do not depend on the
	// number of rows, or [ModeSplitK] for the device "cpu:split-k".
	Mode string
	// Threads bounds the number of goroutines that compute at a time. Zero means
	// GOMAXPROCS. Results do not depend on it.
	Threads int
}

// OpenCPU returns a device that computes with the processor, with results that
// are the same bits on every machine; docs/numerics.md states the order of
// operations. Weights of linear maps stay in their type, F32, BF16 or F16;
// activations take four bytes per value in each type.
func OpenCPU(opt CPUOptions) (Device, error) {
	if opt.Threads < 0 {
		return nil, fmt.Errorf("threads: %d is negative", opt.Threads)
	}
	threads := opt.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	d := &cpu{threads: threads}
	d.info = Info{
		Name:        "cpu",
		Fingerprint: "cpu/1 strict f32 k-ordered",
		Detail: map[string]string{
			"arch":         runtime.GOARCH,
			"instructions": gemm.Instructions(),
			"threads":      strconv.Itoa(threads),
			"go":           runtime.Version(),
		},
		Regimes: []Regime{{Name: "rows", MinRows: 1}},
		Strict:  true,
	}
	switch opt.Mode {
	case "":
	case ModeSplitK:
		d.split = true
		d.info.Name = "cpu:split-k"
		d.info.Fingerprint = "cpu/1 split-k f32 lanes8|chunks4|k-ordered"
		d.info.Regimes = []Regime{
			{Name: "vector", MinRows: 1, MaxRows: 1},
			{Name: "few", MinRows: 2, MaxRows: 15},
			{Name: "tiled", MinRows: 16},
		}
	default:
		return nil, fmt.Errorf("%w %q; there are \"\" and %q", ErrMode, opt.Mode, ModeSplitK)
	}
	return d, nil
}

// cpu is the [Device] that [OpenCPU] returns.
type cpu struct {
	info    Info
	threads int
	split   bool
	pool    pool
	closed  atomic.Bool
}

func (d *cpu) Info() Info { return d.info }

// order is the order of summation of a linear map over so many rows.
func (d *cpu) order(rows int) gemm.Order {
	switch {
	case !d.split || rows >= 16:
		return gemm.Sequential
	case rows == 1:
		return gemm.Lanes8
	default:
		return gemm.Chunks4
	}
}

func (d *cpu) Upload(t *tensor.Tensor, use Use) (Array, error) {
	if d.closed.Load() {
		return nil, fmt.Errorf("cpu device: %w", ErrClosed)
	}
	if !computes(t.DType()) {
		return nil, fmt.Errorf("upload: %w %v: the cpu device computes with F32, BF16 and F16 weights", tensor.ErrDType, t.DType())
	}
	switch use {
	case AsVector:
		return &array{device: d, shape: t.Shape(), dtype: t.DType(), f: float32s(t)}, nil
	case AsMatrix, AsTransposed:
		shape := t.Shape()
		if len(shape) != 2 {
			return nil, fmt.Errorf("upload: %w: the weight of a linear map has two axes, have %v", tensor.ErrShape, shape)
		}
		m := packMatrix(t, use == AsTransposed)
		return &array{device: d, shape: tensor.Shape{m.Outputs(), m.Inputs()}, dtype: t.DType(), matrix: m}, nil
	default:
		return nil, fmt.Errorf("upload: unknown use %d", use)
	}
}

func (d *cpu) UploadRows(src RowSource) (Table, error) {
	if d.closed.Load() {
		return nil, fmt.Errorf("cpu device: %w", ErrClosed)
	}
	if src.DType().Size() == 0 || src.NumRows() < 0 || src.Width() < 0 {
		return nil, fmt.Errorf("upload rows: %w: [%d,%d] of %v", tensor.ErrShape, src.NumRows(), src.Width(), src.DType())
	}
	return &table{device: d, RowSource: src}, nil
}

func (d *cpu) NewKVCache(batch, width, capacity int) (KVCache, error) {
	if d.closed.Load() {
		return nil, fmt.Errorf("cpu device: %w", ErrClosed)
	}
	if _, err := (tensor.Shape{batch, capacity + keyPanel, width}).Bytes(tensor.F32); err != nil || batch < 1 || width < 1 || capacity < 1 {
		return nil, fmt.Errorf("key/value cache: %w: %d sequences of %d positions of width %d", tensor.ErrShape, batch, capacity, width)
	}
	return newCache(d, batch, width, capacity), nil
}

func (d *cpu) Begin(ctx context.Context) Session {
	s := &session{device: d, ctx: ctx}
	if d.closed.Load() {
		s.fail("begin", fmt.Errorf("cpu device: %w", ErrClosed))
	}
	return s
}

// Close makes later calls fail. Memory goes when nothing refers to it any more.
func (d *cpu) Close() error {
	d.closed.Store(true)
	return nil
}

// table is an uploaded row source: rows are decoded when they are gathered.
type table struct {
	device *cpu
	RowSource
}
