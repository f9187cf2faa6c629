package finitepass_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// kernel changes one result row of a linear map in place, as a device whose
// kernels depend on the shape of the call would: rows is the row count of the
// call, at the row's position, and first says whether all rows were equal.
type kernel func(y []float32, rows, at int, identical bool)

// fakeDevice computes naively on the host. Its linear maps pass through kernel.
// It shares nothing with the package's own devices, and counts gathers.
type fakeDevice struct {
	kernel  kernel
	regimes []nn.Regime
	gathers *[]int // widths, when not nil
	fail    func() error
}

type fakeArray struct{ t *tensor.Tensor }

func (a fakeArray) Shape() tensor.Shape { return a.t.Shape() }
func (a fakeArray) DType() tensor.DType { return a.t.DType() }

func (d *fakeDevice) Info() nn.Info {
	return nn.Info{Name: "fake", Fingerprint: "fake-1", Regimes: d.regimes}
}
func (d *fakeDevice) Upload(t *tensor.Tensor, _ nn.Use) (nn.Array, error) { return fakeArray{t}, nil }
func (d *fakeDevice) UploadRows(src nn.RowSource) (nn.Table, error)       { return src, nil }
func (d *fakeDevice) NewKVCache(int, int, int) (nn.KVCache, error) {
	return nil, errors.New("no cache")
}
func (d *fakeDevice) Begin(ctx context.Context) nn.Session { return &fakeSession{ctx: ctx, d: d} }
func (d *fakeDevice) Close() error                         { return nil }

type fakeSession struct {
	nn.Session // the operations that no test uses
	ctx        context.Context
	d          *fakeDevice
	err        error
}

func (s *fakeSession) failf(format string, args ...any) nn.Array {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
	return fakeArray{}
}

func (s *fakeSession) Err() error   { return s.err }
func (s *fakeSession) Close() error { return s.err }

func (s *fakeSession) ToHost(a nn.Array) *tensor.Tensor {
	if s.err != nil {
		return nil
	}
	return a.(fakeArray).t.Clone()
}

func (s *fakeSession) Gather(t nn.Table, ids []int) nn.Array {
	if s.err != nil {
		return fakeArray{}
	}
	if s.d.gathers != nil {
		*s.d.gathers = append(*s.d.gathers, t.Width())
	}
	src := t.(nn.RowSource)
	out, err := tensor.New(t.DType(), len(ids), t.Width())
	if err != nil {
		return s.failf("%w", err)
	}
	for i, id := range ids {
		if id < 0 || id >= t.NumRows() {
			return s.failf("id %d of a table with %d rows", id, t.NumRows())
		}
		if err := src.DecodeRow(out.Row(i), id); err != nil {
			return s.failf("%w", err)
		}
	}
	return fakeArray{out}
}

func (s *fakeSession) each(x nn.Array, width int, f func(y, x []float32)) nn.Array {
	if s.err != nil {
		return fakeArray{}
	}
	in := x.(fakeArray).t
	rows, w := in.Shape()[0], in.Shape()[1]
	out, err := tensor.New(tensor.F32, rows, width)
	if err != nil {
		return s.failf("%w", err)
	}
	from, to := in.Float32s(), out.Float32s()
	for i := range rows {
		f(to[i*width:(i+1)*width], from[i*w:(i+1)*w])
	}
	return fakeArray{out}
}

func (s *fakeSession) Linear(x, w, b nn.Array) nn.Array {
	if s.err != nil {
		return fakeArray{}
	}
	if s.d.fail != nil {
		if err := s.d.fail(); err != nil {
			return s.failf("%w", err)
		}
	}
	weight := w.(fakeArray).t
	outs, ins := weight.Shape()[0], weight.Shape()[1]
	values := weight.Float32s()
	y := s.each(x, outs, func(y, x []float32) {
		for o := range y {
			var sum float32
			row := values[o*ins : (o+1)*ins]
			for k, v := range x {
				sum += float32(v * row[k])
			}
			if b != nil {
				sum += b.(fakeArray).t.Float32s()[o]
			}
			y[o] = sum
		}
	})
	if s.d.kernel != nil && s.err == nil {
		t := y.(fakeArray).t
		in := x.(fakeArray).t
		rows, same := t.Shape()[0], true
		for i := 1; i < rows; i++ {
			same = same && string(in.Row(i)) == string(in.Row(0))
		}
		for i := range rows {
			s.d.kernel(t.Float32s()[i*outs:(i+1)*outs], rows, i, same)
		}
	}
	return y
}

func (s *fakeSession) RMSNorm(x, w nn.Array, eps float32) nn.Array {
	return s.each(x, x.Shape()[1], func(y, x []float32) {
		var sum float32
		for _, v := range x {
			sum += float32(v * v)
		}
		r := float32(1 / math.Sqrt(float64(sum/float32(len(x))+eps)))
		for i, v := range x {
			y[i] = float32(v*r) * w.(fakeArray).t.Float32s()[i]
		}
	})
}

func (s *fakeSession) Columns(x nn.Array, start, width int) nn.Array {
	if s.err != nil {
		return fakeArray{}
	}
	in := x.(fakeArray).t
	size := in.DType().Size()
	out, err := tensor.New(in.DType(), in.Shape()[0], width)
	if err != nil {
		return s.failf("%w", err)
	}
	for i := range in.Shape()[0] {
		copy(out.Row(i), in.Row(i)[start*size:])
	}
	return fakeArray{out}
}

// Layers, written for these tests alone.

type linear struct {
	name string
	w, b nn.Array
}

func (l linear) Forward(s nn.Session, x nn.Array) nn.Array { return s.Linear(x, l.w, l.b) }
func (l linear) OutWidth(in int) (int, error) {
	if in != l.w.Shape()[1] {
		return 0, fmt.Errorf("takes width %d, not %d", l.w.Shape()[1], in)
	}
	return l.w.Shape()[0], nil
}
func (l linear) ParamNames() []string { return []string{l.name} }
func (l linear) Describe() string     { return "linear" }

type rmsNorm struct {
	name string
	w    nn.Array
}

func (l rmsNorm) Forward(s nn.Session, x nn.Array) nn.Array { return s.RMSNorm(x, l.w, 1e-6) }
func (l rmsNorm) OutWidth(in int) (int, error) {
	if in != l.w.Shape()[0] {
		return 0, fmt.Errorf("takes width %d, not %d", l.w.Shape()[0], in)
	}
	return in, nil
}
func (l rmsNorm) ParamNames() []string { return []string{l.name} }
func (l rmsNorm) Describe() string     { return "rmsnorm" }

// fixture is a block with everything that belongs to it.
type fixture struct {
	dev     nn.Device
	spec    architectures.BlockSpec
	source  *nn.Fanout
	params  []loader.Param
	weights weights
}

type weights map[string]*tensor.Tensor

func (w weights) Tensor(name string) (*tensor.Tensor, error) {
	if t, ok := w[name]; ok {
		return t, nil
	}
	return nil, fmt.Errorf("no tensor %q", name)
}

// shape describes a fixture: an embedding tokens × width, an RMS norm, and
// linear branches q, k, v, … of the given widths without bias.
type shape struct {
	tokens, width int
	branches      []int
	noResidual    bool
	prefix        string
	seed          uint64
	scale         float32
}

func branchName(i int) string { return string("qkvabcdefgh"[i]) }

func randomTensor(t testing.TB, r *rand.Rand, scale float32, dims ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(tensor.F32, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Float32s() {
		x.Float32s()[i] = float32(r.NormFloat64()) * scale
	}
	return x
}

func newFixture(t testing.TB, dev nn.Device, s shape) *fixture {
	t.Helper()
	r := rand.New(rand.NewPCG(s.seed, 7))
	f := &fixture{dev: dev, weights: weights{}}
	add := func(name string, x *tensor.Tensor) *tensor.Tensor {
		name = s.prefix + name
		f.params = append(f.params, loader.Param{Name: name, Shape: x.Shape(), DTypes: []tensor.DType{x.DType()}})
		f.weights[name] = x
		return x
	}
	upload := func(x *tensor.Tensor, use nn.Use) nn.Array {
		a, err := dev.Upload(x, use)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	embedding := add("embed", randomTensor(t, r, 1, s.tokens, s.width))
	rows, err := nn.TensorRows(embedding)
	if err != nil {
		t.Fatal(err)
	}
	table, err := dev.UploadRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	norm := add("norm", randomTensor(t, r, 1, s.width))
	f.source = &nn.Fanout{
		Embedding: table, EmbeddingSource: rows, EmbeddingName: s.prefix + "embed",
		Prefix:   []nn.RowLocal{rmsNorm{s.prefix + "norm", upload(norm, nn.AsVector)}},
		Residual: "residual",
	}
	if s.noResidual {
		f.source.Residual = ""
	}
	f.spec = architectures.BlockSpec{
		Path: s.prefix + "block", Contract: architectures.TokenIndicesOnly,
		NumTokens: s.tokens, EmbeddingWidth: s.width, Embedding: s.prefix + "embed",
		Removes: []string{s.prefix + "norm"},
	}
	scale := s.scale
	if scale == 0 {
		scale = 0.1
	}
	for i, w := range s.branches {
		name := branchName(i)
		weight := add(name, randomTensor(t, r, scale, w, s.width))
		f.source.Branches = append(f.source.Branches, nn.Branch{
			Name: name, Layers: []nn.RowLocal{linear{s.prefix + name, upload(weight, nn.AsMatrix), nil}},
		})
		f.spec.Removes = append(f.spec.Removes, s.prefix+name)
		f.spec.Outputs = append(f.spec.Outputs, nn.Output{Name: name, Width: w, DType: tensor.F32})
	}
	return f
}

// base is the fanout of most tests: 7 tokens of width 24 with three branches.
func base() shape { return shape{tokens: 7, width: 24, branches: []int{24, 24, 24}, seed: 1} }
