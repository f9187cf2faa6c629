package metalgpu

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/soft"
	"github.com/hfcompress/compress/tensor"
)

// watched is a driver that counts, has smaller buffers than it could have, or
// ends a context at a submission.
type watched struct {
	driver.Driver
	bufferLimit int64
	submissions atomic.Int64
	buffers     atomic.Int64 // that were made and not freed
	onRun       func()
}

func (w *watched) Info() driver.Info {
	i := w.Driver.Info()
	if w.bufferLimit > 0 {
		i.Limits.MaxBufferBytes = w.bufferLimit
	}
	return i
}

func (w *watched) NewBuffer(bytes int64, where driver.Memory) (driver.Buffer, error) {
	if w.bufferLimit > 0 && where == driver.Device && bytes > w.bufferLimit {
		return nil, driver.ErrLimit
	}
	b, err := w.Driver.NewBuffer(bytes, where)
	if err != nil {
		return nil, err
	}
	w.buffers.Add(1)
	return &watchedBuffer{b, w}, nil
}

type watchedBuffer struct {
	driver.Buffer
	w *watched
}

func (b *watchedBuffer) Free() { b.Buffer.Free(); b.w.buffers.Add(-1) }

func (w *watched) Begin() (driver.Commands, error) {
	c, err := w.Driver.Begin()
	return &watchedCommands{c, w}, err
}

type watchedCommands struct {
	driver.Commands
	w *watched
}

func (c *watchedCommands) Dispatch(p driver.Pipeline, groups [3]uint32, buffers []driver.Binding, push []uint32) {
	own := make([]driver.Binding, len(buffers))
	for i, b := range buffers {
		own[i] = b
		own[i].Buffer = b.Buffer.(*watchedBuffer).Buffer
	}
	c.Commands.Dispatch(p, groups, own, push)
}

func (c *watchedCommands) Copy(dst driver.Buffer, dstOffset int64, src driver.Buffer, srcOffset, bytes int64) {
	c.Commands.Copy(dst.(*watchedBuffer).Buffer, dstOffset, src.(*watchedBuffer).Buffer, srcOffset, bytes)
}

func (c *watchedCommands) Run(ctx context.Context) error {
	c.w.submissions.Add(1)
	if c.w.onRun != nil {
		c.w.onRun()
	}
	return c.Commands.Run(ctx)
}

func watchedDevice(t testing.TB, limit int64, o Options) (*device, *watched) {
	w := &watched{bufferLimit: limit}
	d := softDevice(t, soft.Options{}, o, func(drv driver.Driver) driver.Driver { w.Driver = drv; return w })
	return d, w
}

// TestSmallBuffers runs every operation on a device whose buffers are so small
// that matrices and tables lie in many.
func TestSmallBuffers(t *testing.T) {
	cpu := openCPU(t)
	for _, limit := range []int64{1 << 20, 1 << 13} {
		d, _ := watchedDevice(t, limit, Options{})
		for _, op := range sessionOperations {
			if limit < 1<<20 && !strings.HasPrefix(op.name, "Gather") && !strings.HasPrefix(op.name, "Linear") {
				continue
			}
			c := Check{AllowedULP: op.ulp}
			ran := 0
			seeds := uint64(6)
			if testing.Short() {
				seeds = 2
			}
			for seed := range seeds {
				dtype := dtypes[seed%3]
				want, err := op.runOn(context.Background(), cpu, true, dtype, 200+seed)
				if err != nil {
					t.Fatal(err)
				}
				got, err := op.runOn(context.Background(), d, false, dtype, 200+seed)
				if errors.Is(err, ErrLimit) {
					continue // an activation that does not fit
				}
				if err != nil {
					t.Fatal(err)
				}
				ran++
				op.compareWith(&c, 200+seed, got, want)
			}
			if !c.OK() {
				t.Errorf("buffers of %d bytes, %s: %s", limit, op.name, c.Example)
			}
			if limit == 1<<20 && ran == 0 && !testing.Short() {
				t.Errorf("%s did not fit", op.name)
			}
		}
		// A matrix and a table of more bytes than a buffer has.
		x := hostTensor(t, tensor.BF16, 300, 33)
		a, err := d.Upload(x, nn.AsMatrix)
		if err != nil {
			t.Fatal(err)
		}
		if parts := len(a.(*array).matrix); limit == 1<<13 && parts != 3 {
			t.Errorf("19,800 bytes lie in %d buffers of 8,192", parts)
		}
		s := d.Begin(context.Background())
		if y := s.ToHost(a); y == nil || !tensor.BitEqual(x, y) {
			t.Errorf("the matrix came back with other bits: %v", s.Err())
		}
		s.Close()
	}
	d, _ := watchedDevice(t, 1<<12, Options{})
	if _, err := d.Upload(hostTensor(t, tensor.F32, 2, 2000), nn.AsMatrix); !errors.Is(err, ErrLimit) {
		t.Errorf("a row of 8,000 bytes in buffers of 4,096: %v", err)
	}
	if _, err := d.Upload(hostTensor(t, tensor.F32, 2000), nn.AsVector); !errors.Is(err, ErrLimit) {
		t.Errorf("a vector of 8,000 bytes in buffers of 4,096: %v", err)
	}
	if _, err := d.NewKVCache(1, 100, 100); !errors.Is(err, ErrLimit) {
		t.Errorf("a cache of 40,000 bytes in buffers of 4,096: %v", err)
	}
}

// TestLazySubmission counts submissions: operations are only recorded until a
// result is asked for, and what nobody asks for does not run.
func TestLazySubmission(t *testing.T) {
	d, w := watchedDevice(t, 0, Options{})
	s := d.Begin(context.Background())
	before := w.submissions.Load()
	x := s.FromHost(hostTensor(t, tensor.F32, 4, 5))
	for range 20 {
		x = s.Add(x, x)
	}
	if n := w.submissions.Load() - before; n != 0 {
		t.Errorf("%d submissions before anything was asked for", n)
	}
	if s.ToHost(x) == nil {
		t.Fatal(s.Err())
	}
	if n := w.submissions.Load() - before; n != 1 {
		t.Errorf("%d submissions, want 1", n)
	}
	s.Add(x, x)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := w.submissions.Load() - before; n != 1 {
		t.Errorf("%d submissions after Close, want 1", n)
	}
	// Long work goes in pieces.
	d.budget.Store(100)
	s = d.Begin(context.Background())
	before = w.submissions.Load()
	x = s.FromHost(hostTensor(t, tensor.F32, 16, 16))
	for range 5 {
		x = s.Scale(x, 0.5)
	}
	// A fast device's budget grows as it goes.
	if n := w.submissions.Load() - before; n < 2 || n > 5 {
		t.Errorf("%d submissions for five times 256 multiplications", n)
	}
	s.Close()
}

// TestBuffersComeBack opens sessions over and over: the number of buffers stays
// what the first ones needed.
func TestBuffersComeBack(t *testing.T) {
	d, w := watchedDevice(t, 0, Options{})
	round := func(seed uint64) {
		for _, op := range sessionOperations {
			if _, err := op.runOn(context.Background(), d, false, tensor.F32, seed); err != nil {
				t.Fatal(err)
			}
		}
	}
	round(1)
	collect()
	first := w.buffers.Load()
	for range rounds(3, Options{}) {
		round(1)
		collect()
	}
	// The collector may need several turns for what is referred to in a chain.
	if now := w.buffers.Load(); now > first+first/2 {
		t.Errorf("%d buffers, %d after the first round", now, first)
	}
	for range 100 {
		collect()
		d.memory.trim()
		if w.buffers.Load() == 1 {
			break
		}
	}
	if left := w.buffers.Load(); left != 1 {
		t.Errorf("%d buffers are in use, want the one for absent operands", left)
	}
}

func TestMemoryLimit(t *testing.T) {
	const limit = 16 << 20
	d, _ := watchedDevice(t, 0, Options{MemoryLimit: limit})
	var held []nn.Array
	var err error
	for len(held) < 100 {
		var a nn.Array
		if a, err = d.Upload(hostTensor(t, tensor.F32, 512, 512), nn.AsMatrix); err != nil {
			break
		}
		held = append(held, a)
	}
	var e *MemoryError
	if !errors.As(err, &e) || !errors.Is(err, ErrOutOfMemory) || e.Capacity != limit || e.Wanted != 1<<20 || e.InUse+e.Wanted <= limit {
		t.Fatalf("after %d matrices of 1 MiB: %v", len(held), err)
	}
	// A model is asked about before it is uploaded.
	bounded := nn.Bounded(d)
	if err := bounded.Fits(limit); !errors.As(err, &e) || e.Wanted != limit || e.InUse == 0 || e.Capacity != limit {
		t.Errorf("weights of the whole memory beside %d matrices: %v", len(held), err)
	}
	if err := bounded.Fits(0); err != nil {
		t.Error(err)
	}
	if len(held) < 8 {
		t.Errorf("only %d matrices of 1 MiB fit in 16 MiB", len(held))
	}
	// What was uploaded is untouched.
	s := d.Begin(context.Background())
	if y := s.ToHost(held[0]); y == nil || !tensor.BitEqual(y, hostTensor(t, tensor.F32, 512, 512)) {
		t.Errorf("the first matrix changed: %v", s.Err())
	}
	s.Close()
	// A session that needs too much fails, too, and gives everything back.
	s = d.Begin(context.Background())
	x := s.FromHost(hostTensor(t, tensor.F32, 1, 512))
	for s.Err() == nil {
		x = s.FromHost(hostTensor(t, tensor.F32, 256, 512))
	}
	if err := s.Close(); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("the session ends with %v", err)
	}
	if s.Add(x, x) == nil {
		t.Error("no array after a failure")
	}
	// Weights that nobody holds make room.
	held = nil
	for range 20 {
		if _, err := d.Upload(hostTensor(t, tensor.F32, 512, 512), nn.AsMatrix); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLostDevice(t *testing.T) {
	d := softDevice(t, soft.Options{LoseAfter: 3}, Options{}, nil)
	c, err := d.NewKVCache(1, 3, 8)
	if err != nil {
		t.Fatal(err)
	}
	s := d.Begin(context.Background())
	x := s.FromHost(hostTensor(t, tensor.F32, 2, 3))
	s.Append(c, x, x) // two dispatches
	if s.ToHost(x) == nil || c.Len() != 2 {
		t.Fatal(s.Err())
	}
	s.Append(c, x, x)
	if c.Len() != 4 {
		t.Fatalf("the cache holds %d", c.Len())
	}
	if y := s.ToHost(s.Add(x, x)); y != nil || !errors.Is(s.Err(), ErrLost) {
		t.Errorf("a lost device gives %v, %v", y, s.Err())
	}
	if err := s.Close(); !errors.Is(err, ErrLost) {
		t.Errorf("Close gives %v", err)
	}
	if c.Len() != 2 {
		t.Errorf("the cache holds %d positions, 2 of which arrived", c.Len())
	}
	s = d.Begin(context.Background())
	if s.ToHost(s.FromHost(hostTensor(t, tensor.F32, 2, 3))); !errors.Is(s.Err(), ErrLost) {
		t.Errorf("the next session: %v", s.Err())
	}
	s.Close()
	if _, err := d.Upload(hostTensor(t, tensor.F32, 3), nn.AsVector); !errors.Is(err, ErrLost) {
		t.Errorf("an upload: %v", err)
	}
}

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	d, w := watchedDevice(t, 0, Options{})
	c, err := d.NewKVCache(1, 3, 8)
	if err != nil {
		t.Fatal(err)
	}
	s := d.Begin(ctx)
	x := s.FromHost(hostTensor(t, tensor.F32, 2, 3))
	s.Append(c, x, x)
	w.onRun = cancel
	if y := s.ToHost(x); y != nil || !errors.Is(s.Err(), context.Canceled) {
		t.Errorf("cancelled in a submission: %v, %v", y, s.Err())
	}
	w.onRun = nil
	before := w.submissions.Load()
	s.ToHost(s.Add(x, x))
	if err := s.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close gives %v", err)
	}
	if w.submissions.Load() != before || c.Len() != 0 {
		t.Errorf("%d submissions after the end, and a cache of %d", w.submissions.Load()-before, c.Len())
	}
	// A cache's positions that are pending at Close arrive.
	s = d.Begin(context.Background())
	x = s.FromHost(hostTensor(t, tensor.F32, 2, 3))
	s.Append(c, x, x)
	if err := s.Close(); err != nil || c.Len() != 2 {
		t.Fatalf("%v, a cache of %d", err, c.Len())
	}
	s = d.Begin(context.Background())
	defer s.Close()
	out := s.Attention(nn.AttentionInput{Q: s.FromHost(hostTensor(t, tensor.F32, 1, 3)), Cache: c, Batch: 1, Heads: 1, KVHeads: 1, HeadDim: 3, Scale: 1, Mask: []bool{false, true}})
	if y := s.ToHost(out.Context); y == nil || y.Float32s()[0] != 3 || y.Float32s()[2] != 5 {
		t.Errorf("the second position is %v: %v", y, s.Err())
	}
}

// TestWrongArithmetic opens drivers that compute wrongly: strict mode must refuse
// them and say why.
func TestWrongArithmetic(t *testing.T) {
	for fault, says := range map[soft.Fault]string{soft.Contract: "contraction", soft.FlushSubnormals: "subnormal"} {
		_, _, err := openStrict(context.Background(), soft.Open(soft.Options{Fault: fault}), "gpu", Options{})
		if !errors.Is(err, ErrNotStrict) || !strings.Contains(err.Error(), says) {
			t.Errorf("fault %d: %v", fault, err)
		}
		_, d, err := openStrict(context.Background(), soft.Open(soft.Options{Fault: fault}), "gpu", Options{Lenient: true})
		if err != nil {
			t.Fatal(err)
		}
		info := d.Info()
		if info.Strict || !strings.Contains(info.Fingerprint, says) || !strings.Contains(info.Detail["numerics"], says) {
			t.Errorf("fault %d: a lenient device says %+v", fault, info)
		}
		d.Close()
	}
	if _, _, err := openStrict(context.Background(), soft.Open(soft.Options{LoseAfter: 1}), "gpu", Options{}); !errors.Is(err, ErrLost) {
		t.Errorf("a device that is lost in its self-test: %v", err)
	}
	if _, _, err := openStrict(context.Background(), soft.Open(soft.Options{}), "gpu", Options{MemoryLimit: 1 << 12}); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("a device without memory: %v", err)
	}
}
