//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

//go:embed testdata/add.spv
var addCode []byte

//go:embed testdata/scale.spv
var scaleCode []byte

var (
	addKernel = &kernel.Kernel{
		Name: "add", Workgroup: [3]int{64, 1, 1}, Push: []string{"n", "k"},
		Buffers: []kernel.Buffer{{Name: "x", Type: "uint"}, {Name: "y", Type: "uint", Writes: true}},
	}
	scaleKernel = &kernel.Kernel{
		Name: "scale", Workgroup: [3]int{64, 1, 1}, Push: []string{"n", "k:float"},
		Buffers: []kernel.Buffer{{Name: "x", Type: "float"}, {Name: "y", Type: "float", Writes: true}},
	}
)

func words(b []byte) []uint32 {
	out := make([]uint32, len(b)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

func testCode(k *kernel.Kernel) ([]uint32, error) {
	switch k.Name {
	case "add":
		return words(addCode), nil
	case "scale":
		return words(scaleCode), nil
	case "broken":
		return []uint32{1, 2, 3}, nil
	}
	return nil, fmt.Errorf("no kernel %s", k.Name)
}

// testDevice returns the index of the device to test on: a software one, whose
// behaviour is the same everywhere, where there is one, unless the variable
// HFCOMPRESS_TEST_GPU asks for a card.
func testDevice(t testing.TB) int {
	t.Helper()
	infos, err := Devices()
	if err == nil && len(infos) == 0 {
		err = errors.New("no device")
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI must have a Vulkan device, such as Mesa's lavapipe: %v", err)
		}
		t.Skipf("this machine has no Vulkan device: %v", err)
	}
	for i, info := range infos {
		if (info.Kind == "cpu") == (os.Getenv("HFCOMPRESS_TEST_GPU") == "") {
			return i
		}
	}
	return 0
}

// validate says whether the tests run under the validation layer.
func validate() bool { return os.Getenv("HFCOMPRESS_VULKAN_VALIDATION") != "" }

func openTest(t testing.TB, opt Options) *device {
	t.Helper()
	opt.Validation = validate()
	opt.Message = func(text string) { t.Errorf("validation layer: %s", text) }
	d, err := Open(testDevice(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	own := d.(*device)
	own.code = testCode
	return own
}

func newBuffer(t testing.TB, d driver.Driver, bytes int64, where driver.Memory) driver.Buffer {
	t.Helper()
	b, err := d.NewBuffer(bytes, where)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func begin(t testing.TB, d driver.Driver) driver.Commands {
	t.Helper()
	c, err := d.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pipelineOf(t testing.TB, d driver.Driver, k *kernel.Kernel) driver.Pipeline {
	t.Helper()
	p, err := d.NewPipeline(k)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDevices(t *testing.T) {
	index := testDevice(t)
	infos, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	for i, info := range infos {
		if info.API != "vulkan" || info.Index != i || info.Name == "" || info.Kind == "" || info.APIVersion == "" || info.DriverVersion == "" {
			t.Errorf("device %d is described as %+v", i, info)
		}
		l := info.Limits
		// What the specification guarantees, where it does.
		if l.MemoryBytes < 1<<20 || l.MaxBufferBytes < 1<<20 || l.MaxWorkgroupSize < 128 || l.SharedMemoryBytes < 16384 ||
			l.MaxWorkgroups[0] < 65535 || l.BufferOffsetMultiple < 4 || l.BufferOffsetMultiple > 256 {
			t.Errorf("device %d has the limits %+v", i, l)
		}
	}
	t.Logf("%+v", infos[index])
	d := openTest(t, Options{})
	if got := d.Info(); got != infos[index] {
		t.Errorf("opened as %+v, listed as %+v", d.Info(), infos[index])
	}
	for _, bad := range []int{-1, len(infos)} {
		if _, err := Open(bad, Options{}); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Open(%d): %v", bad, err)
		}
	}
}

// TestRandomPrograms runs random lists of copies and kernels over ranges of a few
// buffers and compares every byte with the same program in Go, so that a missing
// barrier or a wrong offset shows.
func TestRandomPrograms(t *testing.T) {
	d := openTest(t, Options{})
	runPrograms(t, d, 1, 20)
}

func runPrograms(t *testing.T, d driver.Driver, seed uint64, programs int) {
	const buffers, size = 4, 4096 // words
	r := rand.New(rand.NewPCG(seed, 2))
	add := pipelineOf(t, d, addKernel)
	step := int(d.Info().Limits.BufferOffsetMultiple / 4)
	var device [buffers]driver.Buffer
	var model [buffers][]uint32
	for i := range device {
		device[i] = newBuffer(t, d, 4*size, driver.Device)
		defer device[i].Free()
		model[i] = make([]uint32, size)
	}
	host := newBuffer(t, d, 4*size*buffers, driver.Host)
	defer host.Free()
	c := begin(t, d)
	defer c.Close()
	for program := range programs {
		for i := range buffers {
			for j := range size {
				model[i][j] = r.Uint32()
				binary.LittleEndian.PutUint32(host.Bytes()[4*(i*size+j):], model[i][j])
			}
			c.Copy(device[i], 0, host, int64(4*size*i), 4*size)
		}
		for range 1 + r.IntN(300) {
			from, to := r.IntN(buffers), r.IntN(buffers)
			for to == from {
				to = r.IntN(buffers)
			}
			n := r.IntN(size/2) + 1
			a, b := r.IntN(size-n)/step*step, r.IntN(size-n)/step*step
			if r.IntN(3) == 0 {
				c.Copy(device[to], int64(4*b), device[from], int64(4*a), int64(4*n))
				copy(model[to][b:b+n], model[from][a:a+n])
				continue
			}
			k := r.Uint32()
			c.Dispatch(add, [3]uint32{uint32(n+63) / 64, 1, 1}, []driver.Binding{{Buffer: device[from], Offset: int64(4 * a), Bytes: int64(4 * n)}, {Buffer: device[to], Offset: int64(4 * b)}}, []uint32{uint32(n), k})
			for i := range n {
				model[to][b+i] += model[from][a+i] + k
			}
		}
		for i := range buffers {
			c.Copy(host, int64(4*size*i), device[i], 0, 4*size)
		}
		if err := c.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i := range buffers {
			for j, want := range model[i] {
				if got := binary.LittleEndian.Uint32(host.Bytes()[4*(i*size+j):]); got != want {
					t.Fatalf("program %d: word %d of buffer %d is %#x, want %#x", program, j, i, got, want)
				}
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	d := openTest(t, Options{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { runPrograms(t, d, uint64(i+10), 5) })
	}
	wg.Wait()
}

// TestSubnormals looks whether the float controls arrive: results below 2^-126
// survive where the device promises it.
func TestSubnormals(t *testing.T) {
	d := openTest(t, Options{})
	if !d.Info().KeepsSubnormals {
		t.Logf("%s does not promise subnormals", d.Info().Name)
	}
	host := newBuffer(t, d, 512, driver.Host)
	in := []uint32{0x00800000, 0x80800000, 0x00000001, 0x80000000, 0x3f800000}
	want := []uint32{0x00400000, 0x80400000, 0x00000000, 0x80000000, 0x3f000000}
	for i, v := range in {
		binary.LittleEndian.PutUint32(host.Bytes()[4*i:], v)
	}
	c := begin(t, d)
	defer c.Close()
	c.Dispatch(pipelineOf(t, d, scaleKernel), [3]uint32{1, 1, 1}, []driver.Binding{{Buffer: host, Bytes: 256}, {Buffer: host, Offset: 256, Bytes: 256}}, []uint32{uint32(len(in)), 0x3f000000})
	if err := c.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if got := binary.LittleEndian.Uint32(host.Bytes()[256+4*i:]); got != w && d.Info().KeepsSubnormals {
			t.Errorf("½ · %#08x is %#08x, want %#08x", in[i], got, w)
		}
	}
}

func TestRefuses(t *testing.T) {
	d := openTest(t, Options{})
	limits := d.Info().Limits
	for _, n := range []int64{-1, 0, limits.MaxBufferBytes + 1} {
		if _, err := d.NewBuffer(n, driver.Device); !errors.Is(err, driver.ErrLimit) {
			t.Errorf("a buffer of %d bytes: %v", n, err)
		}
	}
	if _, err := d.NewPipeline(&kernel.Kernel{Name: "broken", Workgroup: [3]int{1, 1, 1}}); !errors.Is(err, errSPIRV) {
		t.Errorf("broken code: %v", err)
	}
	if _, err := d.NewPipeline(&kernel.Kernel{Name: "unknown", Workgroup: [3]int{1, 1, 1}}); err == nil {
		t.Error("a kernel without code has a pipeline")
	}
	for _, k := range []*kernel.Kernel{
		{Name: "add", Workgroup: [3]int{int(limits.MaxWorkgroupSize) + 1, 1, 1}},
		{Name: "add", Workgroup: [3]int{1, 1, 1}, Shared: []kernel.Shared{{Name: "s", Type: "float", Elements: int(limits.SharedMemoryBytes)}}},
		{Name: "add", Workgroup: [3]int{1, 1, 1}, Push: make([]string, 1<<14)},
	} {
		if _, err := d.NewPipeline(k); !errors.Is(err, driver.ErrLimit) {
			t.Errorf("a kernel beyond the limits: %v", err)
		}
	}
	add := pipelineOf(t, d, addKernel)
	if again := pipelineOf(t, d, addKernel); again != add {
		t.Error("the same kernel has two pipelines")
	}
	b, other := newBuffer(t, d, 1024, driver.Device), newBuffer(t, d, 1024, driver.Device)
	freed := newBuffer(t, d, 1024, driver.Host)
	freed.Free()
	freed.Free() // does nothing
	if freed.Bytes() != nil {
		t.Error("a freed buffer still has bytes")
	}
	ok := []driver.Binding{{Buffer: b}, {Buffer: other}}
	one := [3]uint32{1, 1, 1}
	for name, f := range map[string]func(c driver.Commands){
		"too few buffers":   func(c driver.Commands) { c.Dispatch(add, one, ok[:1], []uint32{1, 1}) },
		"too few constants": func(c driver.Commands) { c.Dispatch(add, one, ok, []uint32{1}) },
		"no pipeline":       func(c driver.Commands) { c.Dispatch(nil, one, ok, []uint32{1, 1}) },
		"no buffer":         func(c driver.Commands) { c.Dispatch(add, one, []driver.Binding{{}, {}}, []uint32{1, 1}) },
		"freed buffer": func(c driver.Commands) {
			c.Dispatch(add, one, []driver.Binding{{Buffer: freed}, ok[1]}, []uint32{1, 1})
		},
		"too many groups": func(c driver.Commands) { c.Dispatch(add, [3]uint32{1, ^uint32(0), 1}, ok, []uint32{1, 1}) },
		"odd offset": func(c driver.Commands) {
			c.Dispatch(add, one, []driver.Binding{{Buffer: b, Offset: 2}, ok[1]}, []uint32{1, 1})
		},
		"outside": func(c driver.Commands) {
			c.Dispatch(add, one, []driver.Binding{{Buffer: b, Offset: 0, Bytes: 1028}, ok[1]}, []uint32{1, 1})
		},
		"empty binding": func(c driver.Commands) {
			c.Dispatch(add, one, []driver.Binding{{Buffer: b, Offset: 1024}, ok[1]}, []uint32{1, 1})
		},
		"copy outside":     func(c driver.Commands) { c.Copy(b, 1024, other, 0, 4) },
		"copy before":      func(c driver.Commands) { c.Copy(b, -4, other, 0, 4) },
		"copy odd":         func(c driver.Commands) { c.Copy(b, 2, other, 0, 4) },
		"copy overlapping": func(c driver.Commands) { c.Copy(b, 4, b, 0, 8) },
	} {
		c := begin(t, d)
		f(c)
		c.Copy(b, 0, other, 0, 8) // does not hide the failure
		if err := c.Run(context.Background()); err == nil {
			t.Errorf("%s: no error", name)
		}
		c.Copy(b, 0, other, 0, 8)
		if err := c.Run(context.Background()); err != nil {
			t.Errorf("%s: the list cannot be used again: %v", name, err)
		}
		c.Close()
		c.Close() // does nothing
	}
	b.Free()
	other.Free()
}

func TestCancellation(t *testing.T) {
	d := openTest(t, Options{})
	a, b := newBuffer(t, d, 1024, driver.Host), newBuffer(t, d, 1024, driver.Host)
	copy(a.Bytes(), "abcd")
	c := begin(t, d)
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.Copy(b, 0, a, 0, 4)
	if err := c.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
	// Nothing of the cancelled list is left.
	if err := c.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := string(b.Bytes()[:4]); got == "abcd" {
		t.Error("a cancelled list ran")
	}
}

func TestCloseEndsEverything(t *testing.T) {
	before := live.Load()
	d := openTest(t, Options{})
	b := newBuffer(t, d, 1024, driver.Host)
	c := begin(t, d)
	c.Copy(b, 0, b, 512, 256)
	pipelineOf(t, d, addKernel)
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := live.Load() - before; n != 0 {
		t.Errorf("%d objects are left", n)
	}
	b.Free()
	if err := c.Run(context.Background()); err == nil {
		t.Error("a list of a closed device ran")
	}
	c.Close()
	if _, err := d.NewBuffer(4, driver.Device); err == nil {
		t.Error("a closed device gave a buffer")
	}
	if _, err := d.Begin(); err == nil {
		t.Error("a closed device gave a list")
	}
	if _, err := d.NewPipeline(addKernel); err == nil {
		t.Error("a closed device gave a pipeline")
	}
}
