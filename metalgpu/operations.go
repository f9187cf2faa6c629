package metalgpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// operation is one operation of a session at random shapes. It is run on two
// devices from the same seed, and the results are compared.
type operation struct {
	name string
	// ulp is how far results may be apart, in units in the last place: 0 where the
	// order of summation is the CPU device's.
	ulp uint32
	// absolute, when not 0, is a distance that is allowed besides: for functions
	// that take the difference of nearly equal values.
	absolute float64
	run      func(e *env) []nn.Array
}

// env is what an operation runs in: a device, a session, and random numbers that
// are the same on both devices.
type env struct {
	*rand.Rand
	device nn.Device
	s      nn.Session
	dtype  tensor.DType
	// reference says that the device is the CPU, whose linear maps have one order
	// for all row counts: those over few rows are computed as the GPU device does.
	reference bool
	err       error
}

func (e *env) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// rounded returns x as a value of type d.
func rounded(d tensor.DType, x float32) float32 {
	switch d {
	case tensor.BF16:
		return fmath.RoundBF16(x)
	case tensor.F16:
		return fmath.RoundF16(x)
	}
	return x
}

// tensor makes a host tensor of values of type d.
func (e *env) tensor(d tensor.DType, values []float32, shape ...int) *tensor.Tensor {
	t, err := tensor.New(d, shape...)
	if err != nil {
		e.fail(err)
		return nil
	}
	if len(values) > 0 {
		block := make([]byte, 4*len(values))
		copy(floats(block), values)
		narrow(t, 0, block)
	}
	return t
}

// normal returns n values of type d, a few of them zeros of both signs and very
// small ones.
func (e *env) normal(d tensor.DType, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(e.NormFloat64())
		switch e.IntN(64) {
		case 0:
			v[i] = 0
		case 1:
			v[i] = float32(math.Copysign(0, -1))
		case 2:
			v[i] *= 1e-6
		case 3:
			v[i] *= 8
		}
		v[i] = rounded(d, v[i])
	}
	return v
}

// array returns a session array [rows, width] of normal values.
func (e *env) array(rows, width int) nn.Array { return e.arrayOf(e.dtype, rows, width) }

func (e *env) arrayOf(d tensor.DType, rows, width int) nn.Array {
	t := e.tensor(d, e.normal(d, rows*width), rows, width)
	if t == nil {
		return dead
	}
	return e.s.FromHost(t)
}

// special returns an array with infinities, NaNs, subnormals and huge values.
func (e *env) special(rows, width int) nn.Array {
	v := e.normal(e.dtype, rows*width)
	for i := range v {
		switch e.IntN(12) {
		case 0:
			v[i] = float32(math.Inf(1 - 2*e.IntN(2)))
		case 1:
			v[i] = fmath.NaN()
		case 2:
			v[i] = math.Float32frombits(e.Uint32() & 0x807fffff)
		case 3:
			v[i] = math.Float32frombits(e.Uint32()&0x807fffff | 0x7f000000)
		case 4:
			v[i] = math.Float32frombits(e.Uint32()&0x807fffff | 0x01000000)
		}
		v[i] = rounded(e.dtype, v[i])
	}
	t := e.tensor(e.dtype, v, rows, width)
	if t == nil {
		return dead
	}
	return e.s.FromHost(t)
}

// upload uploads normal values.
func (e *env) upload(use nn.Use, shape ...int) nn.Array {
	n, err := tensor.Shape(shape).Elements()
	if err != nil {
		e.fail(err)
		return dead
	}
	t := e.tensor(e.dtype, e.normal(e.dtype, n), shape...)
	if t == nil {
		return dead
	}
	a, err := e.device.Upload(t, use)
	if err != nil {
		e.fail(err)
		return dead
	}
	return a
}

// maybe returns the array or, one time in three, none.
func (e *env) maybe(make func() nn.Array) nn.Array {
	if e.IntN(3) == 0 {
		return nil
	}
	return make()
}

// linear is the linear map of the session, in the order of the GPU device.
func (e *env) linear(x, w, b nn.Array) nn.Array {
	rows, n := x.Shape()[0], w.Shape()[0]
	if !e.reference || rows >= tiledRows {
		return e.s.Linear(x, w, b)
	}
	hx, hw := e.s.ToHost(x), e.s.ToHost(w)
	var hb *tensor.Tensor
	if b != nil {
		hb = e.s.ToHost(b)
	}
	if hx == nil || hw == nil || b != nil && hb == nil {
		return dead
	}
	wide := func(t *tensor.Tensor) []float32 {
		block := make([]byte, 4*t.Len())
		if len(block) > 0 {
			widen(block, t, 0)
		}
		return floats(block)
	}
	xs, ws, k := wide(hx), wide(hw), x.Shape()[1]
	out := make([]float32, rows*n)
	for r := range rows {
		for o := range n {
			v := lanes(xs[r*k:(r+1)*k], ws[o*k:(o+1)*k])
			if hb != nil {
				v += wide(hb)[o]
			}
			if v != v {
				v = fmath.NaN()
			}
			out[r*n+o] = rounded(e.dtype, v)
		}
	}
	t := e.tensor(e.dtype, out, rows, n)
	if t == nil {
		return dead
	}
	return e.s.FromHost(t)
}

// rows and width are random extents, often at the edges of what kernels take at a
// time.
func (e *env) rows() int { return []int{0, 1, 1, 2, 3, 15, 16, 17, 1 + e.IntN(70)}[e.IntN(9)] }

func (e *env) width() int {
	return []int{1, 2, 63, 64, 65, 128, 1 + e.IntN(300), 1 + e.IntN(300)}[e.IntN(8)]
}

func one(a nn.Array) []nn.Array { return []nn.Array{a} }

// sessionOperations lists every operation.
var sessionOperations = []operation{
	{name: "FromHost", run: func(e *env) []nn.Array { return one(e.special(e.rows(), e.width())) }},
	{name: "Cast", run: func(e *env) []nn.Array {
		x := e.special(e.rows(), e.width())
		return []nn.Array{e.s.Cast(x, tensor.F32), e.s.Cast(x, tensor.BF16), e.s.Cast(x, tensor.F16)}
	}},
	{name: "Gather", run: func(e *env) []nn.Array {
		n, width := 1+e.IntN(40), e.width()
		t := e.tensor(e.dtype, e.normal(e.dtype, n*width), n, width)
		if t == nil {
			return nil
		}
		rows, err := nn.TensorRows(t)
		if err != nil {
			e.fail(err)
			return nil
		}
		return e.gather(rows, n)
	}},
	{name: "Gather of packed rows", run: func(e *env) []nn.Array {
		set := e.packedSet()
		if set == nil {
			return nil
		}
		var out []nn.Array
		for i := range set.NumRoutes() {
			out = append(out, e.gather(set.Route(i), set.Route(i).NumRows())...)
		}
		return out
	}},
	{name: "Linear", run: func(e *env) []nn.Array {
		in, out := e.width(), e.width()
		x, w := e.array(e.rows(), in), e.upload(nn.AsMatrix, out, in)
		return one(e.linear(x, w, e.maybe(func() nn.Array { return e.upload(nn.AsVector, out) })))
	}},
	{name: "Linear, transposed", run: func(e *env) []nn.Array {
		in, out := e.width(), e.width()
		x, w := e.array(e.rows(), in), e.upload(nn.AsTransposed, in, out)
		return []nn.Array{e.linear(x, w, nil), w}
	}},
	{name: "Linear of special values", run: func(e *env) []nn.Array {
		in, out := e.width(), e.width()
		return one(e.linear(e.special(e.rows(), in), e.upload(nn.AsMatrix, out, in), nil))
	}},
	{name: "RMSNorm", run: func(e *env) []nn.Array {
		groups, width := 1+e.IntN(3), e.width()
		return one(e.s.RMSNorm(e.array(e.rows(), groups*width), e.upload(nn.AsVector, width), 1e-6))
	}},
	{name: "LayerNorm", run: func(e *env) []nn.Array {
		width := e.width()
		vector := func() nn.Array { return e.upload(nn.AsVector, width) }
		return one(e.s.LayerNorm(e.array(e.rows(), width), e.maybe(vector), e.maybe(vector), 1e-5))
	}},
	{name: "RowNormalize", run: func(e *env) []nn.Array {
		return one(e.s.RowNormalize(e.array(e.rows(), e.width()), 1e-12))
	}},
	{name: "norms of special values", run: func(e *env) []nn.Array {
		width := e.width()
		x := e.special(e.rows(), width)
		return []nn.Array{
			e.s.RMSNorm(x, e.upload(nn.AsVector, width), 1e-6),
			e.s.LayerNorm(x, nil, nil, 1e-5),
			e.s.RowNormalize(x, 1e-12),
		}
	}},
	{name: "Map SiLU", run: mapped(nn.SiLU)},
	{name: "Map ReLU", run: mapped(nn.ReLU)},
	{name: "Map Sigmoid", run: mapped(nn.Sigmoid)},
	{name: "Map Tanh", ulp: 2, run: mapped(nn.Tanh)},
	{name: "Map GELU", ulp: 2, absolute: 2e-7, run: mapped(nn.GELU)},
	{name: "Map GELUTanh", ulp: 2, absolute: 2e-7, run: mapped(nn.GELUTanh)},
	{name: "Map GELUStepwise", ulp: 2, absolute: 2e-7, run: mapped(nn.GELUStepwise)},
	{name: "Map GELUTanhStepwise", ulp: 2, absolute: 2e-7, run: mapped(nn.GELUTanhStepwise)},
	{name: "Add", run: func(e *env) []nn.Array {
		rows, width := e.rows(), e.width()
		return one(e.s.Add(e.special(rows, width), e.special(rows, width)))
	}},
	{name: "Mul", run: func(e *env) []nn.Array {
		rows, width := e.rows(), e.width()
		return one(e.s.Mul(e.special(rows, width), e.special(rows, width)))
	}},
	{name: "Scale", run: func(e *env) []nn.Array {
		return one(e.s.Scale(e.special(e.rows(), e.width()), float32(e.NormFloat64())))
	}},
	{name: "Columns", run: func(e *env) []nn.Array {
		width := e.width()
		start := e.IntN(width + 1)
		return one(e.s.Columns(e.special(e.rows(), width), start, e.IntN(width-start+1)))
	}},
	{name: "GroupColumns", run: func(e *env) []nn.Array {
		groups, width := 1+e.IntN(5), 1+e.IntN(40)
		start := e.IntN(width + 1)
		return one(e.s.GroupColumns(e.special(e.rows(), groups*width), groups, start, e.IntN(width-start+1)))
	}},
	{name: "Rotary", run: func(e *env) []nn.Array {
		rows, heads, half := e.rows(), 1+e.IntN(4), 1+e.IntN(20)
		rest := e.IntN(5)
		x := e.array(rows, heads*(2*half+rest))
		tables := e.dtype
		if e.IntN(2) == 0 {
			tables = tensor.F32
		}
		return one(e.s.Rotary(x, e.arrayOf(tables, rows, half), e.arrayOf(tables, rows, half), heads, nn.RotaryStyle(e.IntN(2))))
	}},
	{name: "Map Mish", run: mapped(nn.Mish)},
	{name: "Convolve", run: func(e *env) []nn.Array { return e.convolve() }},
	{name: "ConvolveLong", run: func(e *env) []nn.Array { return e.convolveLong() }},
	{name: "Sine and Decay", run: func(e *env) []nn.Array {
		c, ok := e.s.(nn.LongConvolver)
		if !ok {
			e.fail(nn.ErrNoLongConvolution)
			return nil
		}
		e.dtype = tensor.F32
		rows, width := e.rows(), e.width()
		return []nn.Array{
			c.Sine(e.array(rows, width), e.upload(nn.AsVector, width)),
			c.Decay(e.special(rows, width), e.array(rows, 1), e.upload(nn.AsVector, width), 0.05),
		}
	}},
	{name: "Attention", run: func(e *env) []nn.Array { return e.attention(false) }},
	{name: "Attention over a cache", run: func(e *env) []nn.Array { return e.attention(true) }},
}

// convolve convolves with channels in groups, or each by itself.
func (e *env) convolve() []nn.Array {
	in := nn.Convolution{Batch: 1 + e.IntN(3), Kernel: 1 + e.IntN(7), Dilation: 1 + e.IntN(3)}
	in.Left = e.IntN((in.Kernel-1)*in.Dilation + 1)
	length := e.IntN(50)
	groups, channels, out := 1+e.IntN(3), 1+e.IntN(20), 1+e.IntN(40)
	width := groups * channels
	if e.IntN(2) == 0 {
		in.Taps, out = e.upload(nn.AsVector, in.Kernel*width), width
	} else {
		for range groups {
			in.Groups = append(in.Groups, e.upload(nn.AsMatrix, out, in.Kernel*channels))
		}
		out *= groups
	}
	in.Bias = e.maybe(func() nn.Array { return e.upload(nn.AsVector, out) })
	x := e.array(in.Batch*length, width)
	if e.IntN(4) == 0 {
		x = e.special(in.Batch*length, width)
	}
	c, ok := e.s.(nn.Convolver)
	if !ok {
		e.fail(nn.ErrNoConvolution)
		return nil
	}
	return one(c.Convolve(x, in))
}

// convolveLong convolves with filters as long as the sequence, sometimes longer
// than a block of the second size.
func (e *env) convolveLong() []nn.Array {
	c, ok := e.s.(nn.LongConvolver)
	if !ok {
		e.fail(nn.ErrNoLongConvolution)
		return nil
	}
	e.dtype = tensor.F32
	batch, width := 1+e.IntN(2), 1+e.IntN(3)
	length := []int{e.IntN(65), 65 + e.IntN(300), 900 + e.IntN(300)}[e.IntN(3)]
	rows := nn.LongFilterRows(length)
	if e.IntN(2) == 0 {
		rows = length
	}
	x := e.array(batch*length, width)
	return one(c.ConvolveLong(x, nn.LongConvolution{Batch: batch, Filter: e.array(rows, width), Skip: e.upload(nn.AsVector, width)}))
}

func mapped(f nn.Unary) func(e *env) []nn.Array {
	return func(e *env) []nn.Array {
		return []nn.Array{e.s.Map(f, e.array(e.rows(), e.width())), e.s.Map(f, e.special(e.rows(), e.width()))}
	}
}

// gather uploads rows and gathers some of them.
func (e *env) gather(rows nn.RowSource, n int) []nn.Array {
	t, err := e.device.UploadRows(rows)
	if err != nil {
		e.fail(err)
		return nil
	}
	ids := make([]int, e.rows())
	for i := range ids {
		ids[i] = e.IntN(n)
	}
	return one(e.s.Gather(t, ids))
}

// packedSet makes tables that differ by rounding, by large steps, and not at all
// from a base.
func (e *env) packedSet() *xortable.Set {
	n, width := 1+e.IntN(20), e.width()
	base := e.normal(e.dtype, n*width)
	tables := []*tensor.Tensor{e.tensor(e.dtype, base, n, width)}
	for range 2 {
		v := make([]float32, len(base))
		for i, b := range base {
			v[i] = b
			switch e.IntN(10) {
			case 0:
				v[i] = math.Float32frombits(math.Float32bits(b) + uint32(e.IntN(1<<(1+e.IntN(20)))))
			case 1:
				if e.IntN(8) == 0 {
					v[i] = math.Float32frombits(e.Uint32())
				}
			}
			v[i] = rounded(e.dtype, v[i])
		}
		tables = append(tables, e.tensor(e.dtype, v, n, width))
	}
	if e.err != nil {
		return nil
	}
	modes := [][]xortable.Mode{nil, {xortable.Packed}, {xortable.Low8}, {xortable.Low16}, {xortable.Full}}[e.IntN(5)]
	set, err := xortable.Encode(tables, xortable.Options{Base: e.IntN(3), Modes: modes})
	if err != nil {
		e.fail(err)
		return nil
	}
	return set
}

// attention runs attention with random options, over a cache in several steps or
// at once.
func (e *env) attention(cached bool) []nn.Array {
	in := nn.AttentionInput{
		Batch: 1 + e.IntN(3), KVHeads: 1 + e.IntN(3), HeadDim: 1 + e.IntN(70),
		Scale: 0.125, Causal: e.IntN(2) == 0, Wide: e.IntN(3) == 0, Weights: e.IntN(2) == 0,
	}
	in.Heads = in.KVHeads * (1 + e.IntN(3))
	queries, keys := 1+e.IntN(20), 1+e.IntN(90)
	if in.Causal {
		keys = max(keys, queries)
		if e.IntN(3) == 0 {
			in.Window = 1 + e.IntN(keys)
		}
	}
	if e.IntN(2) == 0 {
		in.Mask = make([]bool, in.Batch*keys)
		density := 1 + e.IntN(4)
		for i := range in.Mask {
			in.Mask[i] = e.IntN(density) > 0
		}
	}
	if e.IntN(3) == 0 {
		in.KeyBias = e.normal(e.dtype, in.Batch*keys)
	}
	if e.IntN(3) == 0 {
		in.Bias = e.array(in.Heads, queries*keys)
	}
	qType := e.dtype
	if in.Wide && e.IntN(2) == 0 {
		qType = tensor.F32
	}
	in.Q = e.arrayOf(qType, in.Batch*queries, in.Heads*in.HeadDim)
	width := in.KVHeads * in.HeadDim
	if !cached {
		in.K, in.V = e.arrayOf(qType, in.Batch*keys, width), e.array(in.Batch*keys, width)
		if e.IntN(4) == 0 {
			in.V = e.special(in.Batch*keys, width)
		}
	} else {
		c, err := e.device.NewKVCache(in.Batch, width, keys+e.IntN(100))
		if err != nil {
			e.fail(err)
			return nil
		}
		for c.Len() < keys {
			steps := 1 + e.IntN(keys-c.Len())
			e.s.Append(c, e.arrayOf(qType, in.Batch*steps, width), e.array(in.Batch*steps, width))
			if e.s.Err() != nil {
				return nil
			}
			if e.IntN(4) == 0 {
				c.Truncate(c.Len() - e.IntN(c.Len()))
			}
		}
		in.Cache = c
	}
	out := e.s.Attention(in)
	if in.Weights {
		return []nn.Array{out.Context, out.Weights}
	}
	return one(out.Context)
}

// runOn runs the operation on a device from a seed and returns its results.
func (o operation) runOn(ctx context.Context, d nn.Device, reference bool, dtype tensor.DType, seed uint64) ([]*tensor.Tensor, error) {
	e := &env{Rand: rand.New(rand.NewPCG(seed, 99)), device: d, s: d.Begin(ctx), dtype: dtype, reference: reference}
	var out []*tensor.Tensor
	for _, a := range o.run(e) {
		if e.err == nil {
			out = append(out, e.s.ToHost(a))
		}
	}
	if err := errors.Join(e.err, e.s.Close()); err != nil {
		return nil, fmt.Errorf("%s, seed %d, %v: %w", o.name, seed, dtype, err)
	}
	return out, nil
}

// compareWith adds results to the check.
func (o operation) compareWith(c *Check, seed uint64, got, want []*tensor.Tensor) {
	for j, w := range want {
		g := got[j]
		if g.DType() != w.DType() || !g.Shape().Equal(w.Shape()) {
			c.compare(tensor.F32, 0, math.MaxUint32, func() string {
				return fmt.Sprintf("seed %d: result %d is %v, expected %v; a value", seed, j, g, w)
			})
			continue
		}
		gs, ws := patterns(g), patterns(w)
		for i := range ws {
			if o.absolute > 0 && gs[i] != ws[i] {
				x, y := value(w.DType(), gs[i]), value(w.DType(), ws[i])
				if math.Abs(x-y) <= o.absolute {
					c.Values++
					c.Different++
					continue
				}
			}
			c.compare(w.DType(), gs[i], ws[i], func() string {
				return fmt.Sprintf("seed %d, %v: element %d of result %d, %v", seed, w.DType(), i, j, w.Shape())
			})
		}
	}
}

func value(d tensor.DType, bits uint32) float64 {
	switch d {
	case tensor.BF16:
		return float64(fmath.BF16(uint16(bits)))
	case tensor.F16:
		return float64(fmath.F16(uint16(bits)))
	}
	return float64(math.Float32frombits(bits))
}

// operations holds the device's operations against the CPU device's at so many
// random shapes from a seed on.
func operations(ctx context.Context, d nn.Device, seed uint64, rounds int) ([]Check, error) {
	cpu, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		return nil, err
	}
	defer cpu.Close()
	var checks []Check
	for _, o := range sessionOperations {
		c := Check{Name: o.name, AllowedULP: o.ulp}
		for round := range rounds {
			for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
				at := seed + uint64(round)
				want, err := o.runOn(ctx, cpu, true, dtype, at)
				if err != nil {
					return nil, err
				}
				got, err := o.runOn(ctx, d, false, dtype, at)
				if err != nil {
					return nil, err
				}
				o.compareWith(&c, at, got, want)
			}
		}
		checks = append(checks, c)
	}
	return checks, nil
}
