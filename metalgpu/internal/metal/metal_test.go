package metal

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// double is a kernel of the tests' own.
var double = &kernel.Kernel{
	Name:      "double_up",
	Workgroup: [3]int{64, 1, 1},
	Buffers:   []kernel.Buffer{{Name: "x", Type: "float"}, {Name: "y", Type: "float", Writes: true}},
	Push:      []string{"n"},
	Body:      "uint i = gid.x; if (i >= p.n) return; y[i] = x[i] + x[i];",
}

func openFake(t *testing.T, f *fake) *gpu {
	t.Helper()
	d, err := open(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.log = nil
	return d.(*gpu)
}

func host(t *testing.T, g *gpu, bytes int64) driver.Buffer {
	t.Helper()
	b, err := g.NewBuffer(bytes, driver.Host)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDevices(t *testing.T) {
	f := newFake(t)
	f.gpus = 2
	infos, err := devices(f)
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Info{API: "metal", Index: 1, Name: "Apple M9", Kind: "integrated", Vendor: "Apple", DriverName: "macOS", DriverVersion: "Version 15.6",
		APIVersion: "Metal 3", Limits: driver.Limits{MemoryBytes: 1 << 20, MaxBufferBytes: 1 << 19, MaxWorkgroupSize: 1024,
			MaxWorkgroups: [3]uint32{1<<31 - 1, 1<<31 - 1, 1<<31 - 1}, SharedMemoryBytes: 32768, BufferOffsetMultiple: 256}}
	if len(infos) != 2 || infos[1] != want {
		t.Errorf("%+v, expected two, the second %+v", infos, want)
	}
	if len(f.objects) != 0 {
		t.Errorf("%d objects are left", len(f.objects))
	}
	if d, err := open(f, 2); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v, %v", d, err)
	}
	f.gpus = 0
	if _, err := devices(f); !errors.Is(err, driver.ErrUnavailable) {
		t.Error(err)
	}
	if len(f.objects) != 0 {
		t.Errorf("%d objects are left", len(f.objects))
	}
}

// The options forbid fast arithmetic in the way that the system offers.
func TestCompile(t *testing.T) {
	for _, macOS15 := range []bool{true, false} {
		f := newFake(t)
		f.macOS15 = macOS15
		g := openFake(t, f)
		p, err := g.NewPipeline(double)
		if err != nil {
			t.Fatal(err)
		}
		strict := []string{"options setMathMode:", "options setMathFloatingPointFunctions:"}
		if !macOS15 {
			strict = []string{"options setFastMathEnabled:"}
		}
		want := append([]string{"class new", "options respondsToSelector:"}, strict...)
		f.expect(append(want, "device newLibraryWithSource:options:error:", "library newFunctionWithName:",
			"device newComputePipelineStateWithFunction:error:", "function release", "library release", "options release",
			"state maxTotalThreadsPerThreadgroup")...)
		if len(f.sources) != 1 || f.sources[0] != double.MSL() || !strings.Contains(f.sources[0], "contract(off)") {
			t.Errorf("source: %q", f.sources)
		}
		if again, err := g.NewPipeline(double); err != nil || again != p {
			t.Errorf("asked again: %v", err)
		}
		f.expect()
		g.Close()
		f.expect("state release", "queue release", "device release")
		if len(f.objects) != 0 {
			t.Errorf("%d objects are left", len(f.objects))
		}
		if _, err := g.NewPipeline(double); err == nil {
			t.Error("a pipeline on a closed device")
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for selector, text := range map[string]string{
		"newLibraryWithSource:options:error:":        "line 3: no such thing",
		"newFunctionWithName:":                       "no such function",
		"newComputePipelineStateWithFunction:error:": "too many registers",
	} {
		f := newFake(t)
		g := openFake(t, f)
		f.refuse[selector] = text
		_, err := g.NewPipeline(double)
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "double_up") || !strings.Contains(err.Error(), "Apple M9") {
			t.Errorf("%s: %v", selector, err)
		}
		g.Close()
		if len(f.objects) != 0 {
			t.Errorf("%s: %d objects are left", selector, len(f.objects))
		}
	}
	f := newFake(t)
	f.threads = 32
	g := openFake(t, f)
	if _, err := g.NewPipeline(double); !errors.Is(err, driver.ErrLimit) {
		t.Error(err)
	}
	g.Close()
	if len(f.objects) != 0 {
		t.Errorf("%d objects are left", len(f.objects))
	}
}

// Kernels and copies run in the order in which they were given.
func TestRun(t *testing.T) {
	f := newFake(t)
	g := openFake(t, f)
	p, err := g.NewPipeline(double)
	if err != nil {
		t.Fatal(err)
	}
	a, b := host(t, g, 1024), host(t, g, 1024)
	copy(a.Bytes(), "abcdefgh")
	c, err := g.Begin()
	if err != nil {
		t.Fatal(err)
	}
	f.log = nil
	c.Dispatch(p, [3]uint32{2, 1, 1}, []driver.Binding{{Buffer: a}, {Buffer: b, Offset: 256}}, []uint32{100})
	c.Dispatch(p, [3]uint32{0, 1, 1}, []driver.Binding{{Buffer: a}, {Buffer: b}}, []uint32{0})
	c.Copy(b, 8, a, 4, 4)
	f.expect()
	if err := c.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	f.expect("queue commandBuffer", "list computeCommandEncoder", "compute setComputePipelineState:",
		"compute setBuffer:offset:atIndex:", "compute setBuffer:offset:atIndex:", "compute setBytes [100] at 2",
		"compute dispatch {2 1 1} of {64 1 1}", "compute endEncoding", "list blitCommandEncoder",
		"blit copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", "blit endEncoding",
		"list commit", "list waitUntilCompleted", "list status")
	if got := string(b.Bytes()[8:12]); got != "efgh" {
		t.Errorf("copied %q", got)
	}
	if err := c.Run(context.Background()); err != nil {
		t.Error(err)
	}
	f.expect() // nothing to do
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.Copy(b, 0, a, 0, 4)
	if err := c.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	f.expect()
	a.Free()
	a.Free()
	b.Free()
	g.Close()
	if len(f.objects) != 0 || g.inUse.Load() != 0 {
		t.Errorf("%d objects and %d bytes are left", len(f.objects), g.inUse.Load())
	}
}

func TestRunRefuses(t *testing.T) {
	f := newFake(t)
	g := openFake(t, f)
	p, err := g.NewPipeline(double)
	if err != nil {
		t.Fatal(err)
	}
	b := host(t, g, 1024)
	gone := host(t, g, 1024)
	gone.Free()
	two := func(x, y driver.Binding) []driver.Binding { return []driver.Binding{x, y} }
	fine := driver.Binding{Buffer: b}
	for name, f := range map[string]func(driver.Commands){
		"buffers":   func(c driver.Commands) { c.Dispatch(p, [3]uint32{1, 1, 1}, two(fine, fine)[:1], []uint32{1}) },
		"constants": func(c driver.Commands) { c.Dispatch(p, [3]uint32{1, 1, 1}, two(fine, fine), nil) },
		"offset": func(c driver.Commands) {
			c.Dispatch(p, [3]uint32{1, 1, 1}, two(fine, driver.Binding{Buffer: b, Offset: 4}), []uint32{1})
		},
		"end": func(c driver.Commands) {
			c.Dispatch(p, [3]uint32{1, 1, 1}, two(fine, driver.Binding{Buffer: b, Bytes: 1028}), []uint32{1})
		},
		"freed": func(c driver.Commands) {
			c.Dispatch(p, [3]uint32{1, 1, 1}, two(fine, driver.Binding{Buffer: gone}), []uint32{1})
		},
		"copy's end":  func(c driver.Commands) { c.Copy(b, 1000, b, 0, 28) },
		"copy's step": func(c driver.Commands) { c.Copy(b, 2, b, 0, 4) },
	} {
		c, err := g.Begin()
		if err != nil {
			t.Fatal(err)
		}
		f(c)
		c.Copy(b, 0, b, 4, 4)
		if err := c.Run(context.Background()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestFailures(t *testing.T) {
	f := newFake(t)
	g := openFake(t, f)
	var tooMuch *driver.MemoryError
	if _, err := g.NewBuffer(1<<19+1, driver.Device); !errors.Is(err, driver.ErrLimit) {
		t.Error(err)
	}
	a, err := g.NewBuffer(1<<19, driver.Device)
	if err != nil || a.Bytes() != nil {
		t.Fatal(err)
	}
	b := host(t, g, 1<<18)
	if _, err := g.NewBuffer(1<<18+4, driver.Device); !errors.As(err, &tooMuch) || tooMuch.InUse != 3<<18 || tooMuch.Capacity != 1<<20 {
		t.Error(err)
	}
	f.refuse["newBufferWithLength:options:"] = ""
	if _, err := g.NewBuffer(4, driver.Host); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Error(err)
	}
	if g.inUse.Load() != 3<<18 {
		t.Errorf("%d bytes in use", g.inUse.Load())
	}
	f.status = 5
	for code, want := range map[uintptr]error{8: driver.ErrOutOfMemory, 11: driver.ErrLost, 4: driver.ErrLost} {
		f.failCode = code
		c := &commands{gpu: g}
		c.Copy(b, 0, b, 4, 4)
		if err := c.Run(context.Background()); !errors.Is(err, want) || !strings.Contains(err.Error(), "it went wrong") {
			t.Errorf("%d: %v", code, err)
		}
	}
	if _, err := g.Begin(); !errors.Is(err, driver.ErrLost) {
		t.Error(err)
	}
	a.Free()
	b.Free()
	g.Close()
	if len(f.objects) != 0 {
		t.Errorf("%d objects are left", len(f.objects))
	}
}
