package metalgpu

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/soft"
	"github.com/hfcompress/compress/tensor"
)

// softDevice opens the plain driver with options, and wrap around it.
func softDevice(t testing.TB, opt soft.Options, o Options, wrap func(driver.Driver) driver.Driver) *device {
	t.Helper()
	drv := soft.Open(opt)
	if wrap != nil {
		drv = wrap(drv)
	}
	d, err := newDevice(drv, "gpu:test", o.MemoryLimit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// hostTensor holds 0, 1, 2, … in a type.
func hostTensor(t testing.TB, d tensor.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(d, shape...)
	if err != nil {
		t.Fatal(err)
	}
	if computes(d) && x.Len() > 0 {
		block := make([]byte, 4*x.Len())
		for i := range floats(block) {
			floats(block)[i] = float32(i % 100)
		}
		narrow(x, 0, block)
	}
	return x
}

// TestErrorTexts makes every mistake on the CPU device and on this one: the errors
// must say the same and wrap the same.
func TestErrorTexts(t *testing.T) {
	cpu, gpu := openCPU(t), softDevice(t, soft.Options{}, Options{}, nil)
	otherCPU, otherGPU := openCPU(t), softDevice(t, soft.Options{}, Options{}, nil)
	type world struct {
		dev, other nn.Device
		s, second  nn.Session
	}
	must := func(a nn.Array, err error) nn.Array {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	host := func(w world, d tensor.DType, shape ...int) nn.Array { return w.s.FromHost(hostTensor(t, d, shape...)) }
	up := func(w world, use nn.Use, d tensor.DType, shape ...int) nn.Array {
		return must(w.dev.Upload(hostTensor(t, d, shape...), use))
	}
	rows := func(w world, n, width int) nn.Table {
		src, err := nn.TensorRows(hostTensor(t, tensor.F32, n, width))
		if err != nil {
			t.Fatal(err)
		}
		table, err := w.dev.UploadRows(src)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	kv := func(w world, batch, width, capacity int) nn.KVCache {
		c, err := w.dev.NewKVCache(batch, width, capacity)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	attention := func(change func(w world, in *nn.AttentionInput)) func(w world) {
		return func(w world) {
			in := nn.AttentionInput{
				Q: host(w, tensor.F32, 4, 12), K: host(w, tensor.F32, 6, 6), V: host(w, tensor.F32, 6, 6),
				Batch: 2, Heads: 4, KVHeads: 2, HeadDim: 3, Scale: 1, Weights: true,
			}
			change(w, &in)
			w.s.Attention(in)
		}
	}
	const f32, bf16 = tensor.F32, tensor.BF16
	long := func(change func(w world, in *nn.LongConvolution)) func(w world) {
		return func(w world) {
			in := nn.LongConvolution{Batch: 2, Filter: host(w, f32, 3, 4), Skip: up(w, nn.AsVector, f32, 4)}
			change(w, &in)
			w.s.(nn.LongConvolver).ConvolveLong(host(w, f32, 6, 4), in)
		}
	}
	convolve := func(change func(w world, in *nn.Convolution)) func(w world) {
		return func(w world) {
			in := nn.Convolution{Batch: 2, Kernel: 3, Left: 1, Taps: up(w, nn.AsVector, f32, 12)}
			change(w, &in)
			w.s.(nn.Convolver).Convolve(host(w, f32, 6, 4), in)
		}
	}
	for name, f := range map[string]func(w world){
		"gather, large id":      func(w world) { w.s.Gather(rows(w, 4, 3), []int{0, 4}) },
		"gather, negative id":   func(w world) { w.s.Gather(rows(w, 4, 3), []int{-1}) },
		"gather, empty table":   func(w world) { w.s.Gather(rows(w, 0, 3), []int{0}) },
		"gather, nil":           func(w world) { w.s.Gather(nil, nil) },
		"linear, width":         func(w world) { w.s.Linear(host(w, f32, 2, 3), up(w, nn.AsMatrix, f32, 4, 5), nil) },
		"linear, vector weight": func(w world) { w.s.Linear(host(w, f32, 2, 3), up(w, nn.AsVector, f32, 3), nil) },
		"linear, types":         func(w world) { w.s.Linear(host(w, f32, 2, 3), up(w, nn.AsMatrix, bf16, 4, 3), nil) },
		"linear, bias": func(w world) {
			w.s.Linear(host(w, f32, 2, 3), up(w, nn.AsMatrix, f32, 4, 3), up(w, nn.AsVector, f32, 3))
		},
		"linear, bias's type": func(w world) {
			w.s.Linear(host(w, f32, 2, 3), up(w, nn.AsMatrix, f32, 4, 3), up(w, nn.AsVector, bf16, 4))
		},
		"linear, matrix as x": func(w world) { w.s.Linear(up(w, nn.AsMatrix, f32, 2, 3), up(w, nn.AsMatrix, f32, 4, 3), nil) },
		"linear, nil":         func(w world) { w.s.Linear(nil, nil, nil) },
		"linear, integers":    func(w world) { w.s.Linear(host(w, tensor.I64, 2, 3), up(w, nn.AsMatrix, f32, 4, 3), nil) },
		"linear, one axis":    func(w world) { w.s.Linear(host(w, f32, 3), up(w, nn.AsMatrix, f32, 4, 3), nil) },
		"another device": func(w world) {
			w.s.Add(must(w.other.Upload(hostTensor(t, f32, 2, 3), nn.AsVector)), host(w, f32, 2, 3))
		},
		"another session":       func(w world) { w.s.Add(w.second.FromHost(hostTensor(t, f32, 2, 3)), host(w, f32, 2, 3)) },
		"rmsnorm, weight":       func(w world) { w.s.RMSNorm(host(w, f32, 2, 6), up(w, nn.AsVector, f32, 4), 1) },
		"layernorm, weight":     func(w world) { w.s.LayerNorm(host(w, f32, 2, 6), up(w, nn.AsVector, f32, 4), nil, 1) },
		"layernorm, bias":       func(w world) { w.s.LayerNorm(host(w, f32, 2, 6), nil, up(w, nn.AsVector, bf16, 6), 1) },
		"row normalize, axes":   func(w world) { w.s.RowNormalize(host(w, f32, 6), 1) },
		"columns, start":        func(w world) { w.s.Columns(host(w, f32, 2, 6), 7, 0) },
		"columns, width":        func(w world) { w.s.Columns(host(w, f32, 2, 6), 1, 6) },
		"columns, negative":     func(w world) { w.s.Columns(host(w, f32, 2, 6), -1, 2) },
		"group columns, groups": func(w world) { w.s.GroupColumns(host(w, f32, 2, 6), 4, 0, 1) },
		"group columns, none":   func(w world) { w.s.GroupColumns(host(w, f32, 2, 6), 0, 0, 1) },
		"cast, integers":        func(w world) { w.s.Cast(host(w, f32, 2, 6), tensor.I64) },
		"rotary, heads":         func(w world) { w.s.Rotary(host(w, f32, 2, 6), host(w, f32, 2, 1), host(w, f32, 2, 1), 4, 0) },
		"rotary, tables":        func(w world) { w.s.Rotary(host(w, f32, 2, 6), host(w, f32, 2, 1), host(w, f32, 2, 2), 1, 0) },
		"rotary, rows":          func(w world) { w.s.Rotary(host(w, f32, 2, 6), host(w, f32, 3, 1), host(w, f32, 3, 1), 1, 0) },
		"rotary, wide":          func(w world) { w.s.Rotary(host(w, f32, 2, 6), host(w, f32, 2, 4), host(w, f32, 2, 4), 1, 0) },
		"rotary, types":         func(w world) { w.s.Rotary(host(w, f32, 2, 6), host(w, bf16, 2, 1), host(w, bf16, 2, 1), 1, 0) },
		"rotary, style":         func(w world) { w.s.Rotary(host(w, f32, 2, 6), host(w, f32, 2, 1), host(w, f32, 2, 1), 1, 9) },
		"map, function":         func(w world) { w.s.Map(99, host(w, f32, 2, 6)) },
		"add, shapes":           func(w world) { w.s.Add(host(w, f32, 2, 6), host(w, f32, 6, 2)) },
		"mul, types":            func(w world) { w.s.Mul(host(w, f32, 2, 6), host(w, bf16, 2, 6)) },
		"scale, nil":            func(w world) { w.s.Scale(nil, 1) },
		"to host, nil":          func(w world) { w.s.ToHost(nil) },
		"append, nil":           func(w world) { w.s.Append(nil, nil, nil) },
		"append, width":         func(w world) { w.s.Append(kv(w, 1, 4, 8), host(w, f32, 2, 3), host(w, f32, 2, 3)) },
		"append, batch":         func(w world) { w.s.Append(kv(w, 2, 3, 8), host(w, f32, 3, 3), host(w, f32, 3, 3)) },
		"append, shapes":        func(w world) { w.s.Append(kv(w, 1, 3, 8), host(w, f32, 3, 3), host(w, f32, 2, 3)) },
		"append, types":         func(w world) { w.s.Append(kv(w, 1, 3, 8), host(w, bf16, 3, 3), host(w, f32, 3, 3)) },
		"append, too many":      func(w world) { w.s.Append(kv(w, 1, 3, 2), host(w, f32, 3, 3), host(w, f32, 3, 3)) },
		"append, another type": func(w world) {
			c := kv(w, 1, 3, 8)
			w.s.Append(c, host(w, f32, 3, 3), host(w, f32, 3, 3))
			w.s.Append(c, host(w, bf16, 3, 3), host(w, bf16, 3, 3))
		},
		"append, another device": func(w world) { w.s.Append(kv(world{dev: w.other}, 1, 3, 8), host(w, f32, 3, 3), host(w, f32, 3, 3)) },
		"attention, heads":       attention(func(w world, in *nn.AttentionInput) { in.Heads = 5 }),
		"attention, batch":       attention(func(w world, in *nn.AttentionInput) { in.Batch = 3 }),
		"attention, no heads":    attention(func(w world, in *nn.AttentionInput) { in.KVHeads = 0 }),
		"attention, q":           attention(func(w world, in *nn.AttentionInput) { in.HeadDim = 4 }),
		"attention, huge":        attention(func(w world, in *nn.AttentionInput) { in.Heads, in.KVHeads = math.MaxInt, math.MaxInt }),
		"attention, window":      attention(func(w world, in *nn.AttentionInput) { in.Window = 2 }),
		"attention, negative":    attention(func(w world, in *nn.AttentionInput) { in.Causal, in.Window = true, -2 }),
		"attention, k":           attention(func(w world, in *nn.AttentionInput) { in.K = host(w, f32, 6, 12) }),
		"attention, v":           attention(func(w world, in *nn.AttentionInput) { in.V = nil }),
		"attention, types":       attention(func(w world, in *nn.AttentionInput) { in.K, in.V = host(w, bf16, 6, 6), host(w, bf16, 6, 6) }),
		"attention, v's type":    attention(func(w world, in *nn.AttentionInput) { in.V = host(w, bf16, 6, 6) }),
		"attention, no keys":     attention(func(w world, in *nn.AttentionInput) { in.K, in.V = host(w, f32, 0, 6), host(w, f32, 0, 6) }),
		"attention, mask":        attention(func(w world, in *nn.AttentionInput) { in.Mask = make([]bool, 5) }),
		"attention, key bias":    attention(func(w world, in *nn.AttentionInput) { in.KeyBias = make([]float32, 5) }),
		"attention, bias":        attention(func(w world, in *nn.AttentionInput) { in.Bias = host(w, f32, 4, 5) }),
		"attention, bias's type": attention(func(w world, in *nn.AttentionInput) { in.Bias = host(w, bf16, 4, 6) }),
		"attention, both":        attention(func(w world, in *nn.AttentionInput) { in.Cache = kv(w, 2, 6, 4) }),
		"attention, cache":       attention(func(w world, in *nn.AttentionInput) { in.K, in.V, in.Cache = nil, nil, kv(w, 2, 5, 4) }),
		"attention, empty cache": attention(func(w world, in *nn.AttentionInput) { in.K, in.V, in.Cache = nil, nil, kv(w, 2, 6, 4) }),
		"attention, other's cache": attention(func(w world, in *nn.AttentionInput) {
			in.K, in.V, in.Cache = nil, nil, kv(world{dev: w.other}, 2, 6, 4)
		}),
		"attention, cache of types": attention(func(w world, in *nn.AttentionInput) {
			c := kv(w, 2, 6, 4)
			w.s.Append(c, host(w, bf16, 2, 6), host(w, bf16, 2, 6))
			in.K, in.V, in.Cache = nil, nil, c
		}),
		"convolve, batch":    convolve(func(w world, in *nn.Convolution) { in.Batch = 4 }),
		"convolve, no taps":  convolve(func(w world, in *nn.Convolution) { in.Kernel = 0 }),
		"convolve, left":     convolve(func(w world, in *nn.Convolution) { in.Left = 3 }),
		"convolve, both":     convolve(func(w world, in *nn.Convolution) { in.Groups = []nn.Array{up(w, nn.AsMatrix, f32, 2, 8)} }),
		"convolve, neither":  convolve(func(w world, in *nn.Convolution) { in.Taps = nil }),
		"convolve, taps":     convolve(func(w world, in *nn.Convolution) { in.Taps = up(w, nn.AsVector, f32, 11) }),
		"convolve, bias":     convolve(func(w world, in *nn.Convolution) { in.Bias = up(w, nn.AsVector, f32, 5) }),
		"convolve, a vector": convolve(func(w world, in *nn.Convolution) { in.Taps, in.Groups = nil, []nn.Array{up(w, nn.AsVector, f32, 12)} }),
		"convolve, type": convolve(func(w world, in *nn.Convolution) {
			in.Taps, in.Groups = nil, []nn.Array{up(w, nn.AsMatrix, bf16, 2, 12)}
		}),
		"convolve, a group":  convolve(func(w world, in *nn.Convolution) { in.Taps, in.Groups = nil, []nn.Array{up(w, nn.AsMatrix, f32, 2, 8)} }),
		"convolve, no group": convolve(func(w world, in *nn.Convolution) { in.Taps, in.Groups = nil, []nn.Array{nil} }),
		"long, batch":        long(func(w world, in *nn.LongConvolution) { in.Batch = 4 }),
		"long, filter":       long(func(w world, in *nn.LongConvolution) { in.Filter = host(w, f32, 3, 5) }),
		"long, type":         long(func(w world, in *nn.LongConvolution) { in.Filter = host(w, bf16, 3, 4) }),
		"long, skip":         long(func(w world, in *nn.LongConvolution) { in.Skip = up(w, nn.AsVector, f32, 3) }),
		"sine, weight":       func(w world) { w.s.(nn.LongConvolver).Sine(host(w, f32, 2, 3), up(w, nn.AsVector, f32, 4)) },
		"sine, type":         func(w world) { w.s.(nn.LongConvolver).Sine(host(w, bf16, 2, 3), up(w, nn.AsVector, f32, 3)) },
		"decay, times": func(w world) {
			w.s.(nn.LongConvolver).Decay(host(w, f32, 2, 3), host(w, f32, 2, 2), up(w, nn.AsVector, f32, 3), 1)
		},
		"decay, rate": func(w world) {
			w.s.(nn.LongConvolver).Decay(host(w, f32, 2, 3), host(w, f32, 2, 1), up(w, nn.AsVector, f32, 2), 1)
		},
		"closed session": func(w world) { w.s.Close(); host(w, f32, 1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			var errs [2]error
			for i, w := range []world{{dev: cpu, other: otherCPU}, {dev: gpu, other: otherGPU}} {
				w.s, w.second = w.dev.Begin(context.Background()), w.dev.Begin(context.Background())
				f(w)
				errs[i] = w.s.Close()
				if first := w.s.Err(); first != errs[i] {
					t.Errorf("Err is %v, Close gives %v", first, errs[i])
				}
				w.second.Close()
			}
			if errs[0] == nil || errs[1] == nil {
				t.Fatalf("no error: cpu %v, gpu %v", errs[0], errs[1])
			}
			if got, want := errs[1].Error(), strings.ReplaceAll(errs[0].Error(), "cpu device", "gpu device"); got != want {
				t.Errorf("the error is\n%s, want\n%s", got, want)
			}
			for _, kind := range []error{tensor.ErrShape, tensor.ErrDType, nn.ErrOperand, nn.ErrIndex, nn.ErrClosed} {
				if errors.Is(errs[0], kind) != errors.Is(errs[1], kind) {
					t.Errorf("%v wraps %v on one device only", errs[1], kind)
				}
			}
		})
	}
	for name, f := range map[string]func(d nn.Device) error{
		"upload, integers":   func(d nn.Device) error { _, err := d.Upload(hostTensor(t, tensor.I64, 3), nn.AsVector); return err },
		"upload, one axis":   func(d nn.Device) error { _, err := d.Upload(hostTensor(t, f32, 3), nn.AsMatrix); return err },
		"upload, use":        func(d nn.Device) error { _, err := d.Upload(hostTensor(t, f32, 3), 77); return err },
		"cache, no capacity": func(d nn.Device) error { _, err := d.NewKVCache(1, 1, 0); return err },
		"cache, huge":        func(d nn.Device) error { _, err := d.NewKVCache(1<<30, 1<<30, 1<<30); return err },
	} {
		a, b := f(cpu), f(gpu)
		if a == nil || b == nil || strings.ReplaceAll(a.Error(), "cpu device", "gpu device") != b.Error() {
			t.Errorf("%s: cpu %v, gpu %v", name, a, b)
		}
	}
}

func TestClosedDevice(t *testing.T) {
	eachDevice(t, func(t *testing.T, o Options) {
		d := openTest(t, o)
		s := d.Begin(context.Background())
		x := s.FromHost(hostTensor(t, tensor.F32, 2, 3))
		for range 2 {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if s.Add(x, x); !errors.Is(s.Err(), nn.ErrClosed) {
			t.Errorf("an operation after Close: %v", s.Err())
		}
		if err := s.Close(); !errors.Is(err, nn.ErrClosed) {
			t.Errorf("Close of the session: %v", err)
		}
		if s := d.Begin(context.Background()); !errors.Is(s.Err(), nn.ErrClosed) {
			t.Errorf("Begin: %v", s.Err())
		}
		if _, err := d.Upload(hostTensor(t, tensor.F32, 3), nn.AsVector); !errors.Is(err, nn.ErrClosed) {
			t.Errorf("Upload: %v", err)
		}
		if _, err := d.NewKVCache(1, 1, 1); !errors.Is(err, nn.ErrClosed) {
			t.Errorf("NewKVCache: %v", err)
		}
		src, err := nn.TensorRows(hostTensor(t, tensor.F32, 3, 3))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.UploadRows(src); !errors.Is(err, nn.ErrClosed) {
			t.Errorf("UploadRows: %v", err)
		}
	})
}

// TestOtherTypes moves values that are not computed with.
func TestOtherTypes(t *testing.T) {
	d := softDevice(t, soft.Options{}, Options{}, nil)
	x := hostTensor(t, tensor.I64, 3, 2)
	copy(x.Int64s(), []int64{1, -2, 3, -4, 5, math.MinInt64})
	s := d.Begin(context.Background())
	defer s.Close()
	if y := s.ToHost(s.FromHost(x)); !tensor.BitEqual(x, y) {
		t.Errorf("%v came back as %v: %v", x, y, s.Err())
	}
	src, err := nn.TensorRows(x)
	if err != nil {
		t.Fatal(err)
	}
	table, err := d.UploadRows(src)
	if err != nil {
		t.Fatal(err)
	}
	y := s.ToHost(s.Gather(table, []int{2, 0}))
	if y == nil || y.Int64s()[1] != math.MinInt64 || y.Int64s()[2] != 1 {
		t.Errorf("gathered %v: %v", y, s.Err())
	}
}

// TestConcurrency runs operations on one device from several goroutines, with
// weights and tables shared.
func TestConcurrency(t *testing.T) {
	eachDevice(t, func(t *testing.T, o Options) {
		d, cpu := openTest(t, o), openCPU(t)
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				for i, op := range sessionOperations {
					if i%4 == int(g) {
						continue
					}
					c := Check{AllowedULP: op.ulp}
					want, err := op.runOn(context.Background(), cpu, true, dtypes[i%3], 50+g)
					if err != nil {
						t.Error(err)
						return
					}
					got, err := op.runOn(context.Background(), d, false, dtypes[i%3], 50+g)
					if err != nil {
						t.Error(err)
						return
					}
					if op.compareWith(&c, 50+g, got, want); !c.OK() {
						t.Errorf("%s: %s", op.name, c.Example)
					}
				}
			})
		}
		wg.Wait()
	})
}
