package finitepass

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"sync"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// ConstantRows evaluates known rows, such as a learned class token, as they come
// out inside a larger operation: at their own positions in a tensor of the
// original shape that is zero elsewhere. A device may round a row otherwise when
// it is alone. The results of recent shapes are kept; nothing but the selected
// constant rows ever is. A ConstantRows is safe for concurrent use.
//
// That a row does not depend on the rows around it is what the layers promise
// ([nn.RowLocal]) and what the device has to keep; it is not proven here.
type ConstantRows struct {
	dev    nn.Device
	layers []nn.RowLocal
	o      ConstantRowsOptions

	mu      sync.Mutex
	entries []*constantEntry // least recently used first
	stats   ConstantStats
}

// ConstantRowsOptions bound what a [ConstantRows] keeps.
type ConstantRowsOptions struct {
	// MaxEntries is the number of kept results, 8 if 0; MaxBytes their size
	// together, 16 MiB if 0. Negative ones keep nothing.
	MaxEntries int
	MaxBytes   int64
}

// ConstantStats counts the calls of a [ConstantRows] since it was made or
// cleared.
type ConstantStats struct {
	Hits, Misses, Entries int
	// Bytes is the size of the kept rows.
	Bytes int64
}

// Assignment puts a constant in a place: Row counts the rows of the tensor in
// order of its leading axes, and Value is F32 with as many elements as the
// tensor's last axis.
type Assignment struct {
	Row   int
	Value *tensor.Tensor
}

type constantEntry struct {
	key    [sha256.Size]byte
	layers []layerState
	rows   *tensor.Tensor
}

// layerState is what decides a layer's results: which layer it is, its settings
// and its uploaded weights. It keeps these alive, so that nothing else can come
// to lie in their place.
type layerState struct {
	layer nn.RowLocal
	value any
}

const (
	defaultConstantEntries = 8
	defaultConstantBytes   = 16 << 20
	maxConstantTemplate    = 4 << 30 // bytes
)

// NewConstantRows returns an evaluator of the given layers on dev.
func NewConstantRows(dev nn.Device, layers []nn.RowLocal, o ConstantRowsOptions) (*ConstantRows, error) {
	if len(layers) == 0 {
		return nil, fmt.Errorf("%w: no layers", ErrOptions)
	}
	for i, l := range layers {
		if l == nil {
			return nil, fmt.Errorf("%w: layer %d is nil", ErrOptions, i)
		}
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = defaultConstantEntries
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultConstantBytes
	}
	return &ConstantRows{dev: dev, layers: append([]nn.RowLocal{}, layers...), o: o}, nil
}

// Rows returns the layers' results for the given constants, [len(at), width out],
// as they come out of a call with a tensor of the given shape, whose last axis
// is the layers' input. The result belongs to the caller.
//
// A result that was kept is used only while nothing has changed that decides it:
// the shape, the positions, the constants' bytes, and the layers' settings and
// uploaded weights, which by the contract of [nn.Device.Upload] do not change in
// place. A first call costs as much as the whole operation.
func (c *ConstantRows) Rows(ctx context.Context, shape tensor.Shape, at []Assignment) (*tensor.Tensor, error) {
	rows, err := c.check(shape, at)
	if err != nil {
		return nil, err
	}
	key := constantKey(shape, at)
	before := c.state()
	if kept := c.find(key, before); kept != nil {
		return kept, nil
	}
	result, err := c.evaluate(ctx, rows, shape[len(shape)-1], at)
	if err != nil {
		return nil, err
	}
	// What changed meanwhile may or may not be in the result.
	if sameState(before, c.state()) {
		c.keep(key, before, result)
	}
	return result, nil
}

// check returns the number of rows of a tensor of this shape.
func (c *ConstantRows) check(shape tensor.Shape, at []Assignment) (int, error) {
	if len(shape) == 0 || shape[len(shape)-1] < 1 {
		return 0, fmt.Errorf("%w: constant rows in %v", tensor.ErrShape, shape)
	}
	if n, err := shape.Bytes(tensor.F32); err != nil || n > maxConstantTemplate {
		return 0, fmt.Errorf("%w: constant rows in %v", tensor.ErrShape, shape)
	}
	width := shape[len(shape)-1]
	for _, l := range c.layers {
		var err error
		if width, err = l.OutWidth(width); err != nil {
			return 0, err
		}
	}
	rows, err := shape[:len(shape)-1].Elements()
	if err != nil {
		return 0, err
	}
	if len(at) == 0 {
		return 0, fmt.Errorf("%w: no constants", ErrOptions)
	}
	seen := map[int]bool{}
	for i, a := range at {
		switch {
		case a.Row < 0 || a.Row >= rows:
			return 0, fmt.Errorf("%w: constant %d is in row %d of %d", ErrOptions, i, a.Row, rows)
		case seen[a.Row]:
			return 0, fmt.Errorf("%w: two constants in row %d", ErrOptions, a.Row)
		case a.Value == nil || a.Value.DType() != tensor.F32 || a.Value.Len() != shape[len(shape)-1]:
			return 0, fmt.Errorf("%w: constant %d is %v, expected %d elements of F32", tensor.ErrShape, i, a.Value, shape[len(shape)-1])
		}
		seen[a.Row] = true
	}
	return rows, nil
}

func constantKey(shape tensor.Shape, at []Assignment) [sha256.Size]byte {
	h := sha256.New()
	number := func(n int) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	number(len(shape))
	for _, n := range shape {
		number(n)
	}
	for _, a := range at {
		number(a.Row)
		h.Write(a.Value.Bytes())
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// state returns what decides the layers' results, or nil when that cannot be
// told: then nothing is kept.
func (c *ConstantRows) state() []layerState {
	out := make([]layerState, len(c.layers))
	for i, l := range c.layers {
		v := reflect.ValueOf(l)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if !v.IsValid() || !v.Comparable() || !v.CanInterface() {
			return nil
		}
		out[i] = layerState{l, v.Interface()}
	}
	return out
}

func sameState(a, b []layerState) bool {
	if a == nil || len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (c *ConstantRows) evaluate(ctx context.Context, rows, width int, at []Assignment) (*tensor.Tensor, error) {
	template, err := tensor.New(tensor.F32, rows, width)
	if err != nil {
		return nil, err
	}
	for _, a := range at {
		copy(template.Row(a.Row), a.Value.Bytes())
	}
	s := c.dev.Begin(ctx)
	x := s.FromHost(template)
	for _, l := range c.layers {
		x = l.Forward(s, x)
	}
	all := s.ToHost(x)
	if err := s.Close(); err != nil {
		return nil, err
	}
	if all == nil || len(all.Shape()) != 2 || all.Shape()[0] != rows {
		return nil, fmt.Errorf("%w: the layers gave %v for %d rows", ErrBlock, all, rows)
	}
	out, err := tensor.New(all.DType(), len(at), all.Shape()[1])
	if err != nil {
		return nil, err
	}
	for i, a := range at {
		copy(out.Row(i), all.Row(a.Row))
	}
	if i := notFinite(out); i >= 0 {
		return nil, fmt.Errorf("%w: constant %d", ErrNonFinite, i/out.Shape()[1])
	}
	return out, nil
}

// find returns a copy of the kept result, and counts the call.
func (c *ConstantRows) find(key [sha256.Size]byte, state []layerState) *tensor.Tensor {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.entries {
		if e.key == key && sameState(e.layers, state) {
			c.entries = append(append(c.entries[:i:i], c.entries[i+1:]...), e)
			c.stats.Hits++
			return e.rows.Clone()
		}
	}
	c.stats.Misses++
	return nil
}

func (c *ConstantRows) keep(key [sha256.Size]byte, state []layerState, rows *tensor.Tensor) {
	size := int64(len(rows.Bytes()))
	c.mu.Lock()
	defer c.mu.Unlock()
	// An entry of the same call with other layers can serve no more.
	c.drop(func(e *constantEntry) bool { return e.key == key })
	if c.o.MaxEntries < 0 || size > c.o.MaxBytes {
		return
	}
	c.entries = append(c.entries, &constantEntry{key, state, rows.Clone()})
	c.stats.Bytes += size
	for len(c.entries) > c.o.MaxEntries || c.stats.Bytes > c.o.MaxBytes {
		oldest := c.entries[0]
		c.drop(func(e *constantEntry) bool { return e == oldest })
	}
	c.stats.Entries = len(c.entries)
}

func (c *ConstantRows) drop(which func(*constantEntry) bool) {
	kept := c.entries[:0:0]
	for _, e := range c.entries {
		if which(e) {
			c.stats.Bytes -= int64(len(e.rows.Bytes()))
			continue
		}
		kept = append(kept, e)
	}
	c.entries, c.stats.Entries = kept, len(kept)
}

// Stats returns the counts.
func (c *ConstantRows) Stats() ConstantStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Clear forgets all results and counts.
func (c *ConstantRows) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries, c.stats = nil, ConstantStats{}
}
