package soft_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/metalgpu/internal/kerneltest"
	"github.com/hfcompress/compress/metalgpu/internal/soft"
)

// small runs a body with four invocations in each of two workgroups over buffers u
// and v of eight words, v read-only, and returns u.
func small(t *testing.T, body string) ([]uint32, error) {
	t.Helper()
	k := &kernel.Kernel{
		Name: "small", Workgroup: [3]int{4, 1, 1},
		Buffers: []kernel.Buffer{{Name: "u", Type: "uint", Writes: true}, {Name: "v", Type: "uint"}},
		Push:    []string{"n"},
		Shared:  []kernel.Shared{{Name: "s", Type: "uint", Elements: 4}},
		Functions: `FN uint twice(uint a) {
	if (a > 5u) {
		return 10u;
	}
	return a + a;
}
FN void swap(INOUT(uint, a), INOUT(uint, b)) {
	uint t = a;
	a = b;
	b = t;
}
`,
		Body: body,
		Grid: func(kernel.Args) [3]uint32 { return [3]uint32{2, 1, 1} },
	}
	c := kerneltest.Case{Name: "small", Buffers: [][]uint32{make([]uint32, 8), {0, 1, 2, 3, 4, 5, 6, 7}},
		Steps: []kerneltest.Step{{Kernel: k, Bind: []int{0, 1}, Push: []uint32{7}}}}
	got, err := c.Run(context.Background(), open(t, soft.Options{}))
	if err != nil {
		return nil, err
	}
	return got[0], nil
}

func TestUndefinedBehaviourIsAnError(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"u[gid.x] = v[gid.x + 1u];", "body, line 1, invocation 3 of workgroup (1, 0, 0): v[8] of 8 elements"},
		{"u[8u * gid.x] = 1u;", "u[8] of 8 elements"},
		{"u[0u] = 1u;", "u[0] is written by the invocations 0 and 1"},
		{"u[gid.x] = u[7u - gid.x];", "u[3] is read by invocation 4 of the grid and written by 3"},
		{"uint a = u[0u];\nu[gid.x] = a;", "u[0] is written by invocation 0 of the grid and read by another"},
		{"uint a = u[(gid.x + 1u) % 8u];\nu[gid.x] = a;", "body, line 2"},
		{"s[lid.x] = 1u;\nu[gid.x] = s[3u - lid.x];", "without a barrier after invocation"},
		{"s[lid.x] = 1u;\nBARRIER();\nu[gid.x] = s[0u];\ns[lid.x] = 2u;", "line 4"},
		{"s[0u] = lid.x;", "without a barrier after invocation 0 wrote it"},
		{"s[lid.x + 1u] = 1u;", "s[4] of 4 elements"},
		{"u[gid.x] = s[lid.x];", "read before it is written"},
		{"if (lid.x < 2u) {\nBARRIER();\n}", "line 2, invocation 0 of workgroup (0, 0, 0): a barrier that 2 of 4"},
		{"if (lid.x == 3u) { return; }\nBARRIER();", "a barrier that 3 of 4"},
		{"u[gid.x] = 1u << (31u + lid.x);", "is not defined"},
		{"u[gid.x] = 6u / lid.x;", "is not defined"},
		{"u[gid.x] = 6u % lid.x;", "is not defined"},
		{"int i = 2147483647;\ni += int(lid.x);", "is not defined"},
		{"u[gid.x] = uint(-1.0f * float(lid.x));", "-1 has no uint"},
		{"u[gid.x] = uint(U2F(0x7fc00000u));", "NaN has no uint"},
	} {
		_, err := small(t, c.body)
		if !errors.Is(err, soft.ErrKernel) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "kernel small") {
			t.Errorf("%s\n%v, expected %q", c.body, err, c.want)
		}
	}
}

func TestControlFlow(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       func(i uint32) uint32
	}{
		{"if and else", "if (gid.x < 3u) { u[gid.x] = 1u; } else if (gid.x < 5u) { u[gid.x] = 2u; } else { u[gid.x] = 3u; }",
			func(i uint32) uint32 {
				switch {
				case i < 3:
					return 1
				case i < 5:
					return 2
				}
				return 3
			}},
		{"loops of different lengths", "uint a = 0u; for (uint i = 0u; i < gid.x; i += 1u) { a += i; } u[gid.x] = a;",
			func(i uint32) uint32 { return i * (i - 1) / 2 }},
		{"break and continue", `uint a = 0u;
for (uint i = 0u; i < 10u; i += 1u) {
	if (i == gid.x) {
		break;
	}
	if ((i & 1u) == 1u) {
		continue;
	}
	a += 1u;
}
u[gid.x] = a;`, func(i uint32) uint32 { return (i + 1) / 2 }},
		{"nested loops", `uint a = 0u;
uint i = 0u;
while (i < gid.x) {
	uint j = 0u;
	while (true) {
		if (j == i) {
			break;
		}
		j += 1u;
		a += 1u;
	}
	i += 1u;
}
u[gid.x] = a;`, func(i uint32) uint32 { return i * (i - 1) / 2 }},
		{"early return", "u[gid.x] = 1u; if (gid.x > 3u) { return; } u[gid.x] = 2u;",
			func(i uint32) uint32 { return 2 - i/4 }},
		{"return from a loop", "while (true) { if (gid.x >= 0u) { u[gid.x] = 5u; return; } }", func(uint32) uint32 { return 5 }},
		{"functions that return at different places", "u[gid.x] = twice(twice(gid.x)) + twice(1u);",
			func(i uint32) uint32 {
				twice := func(a uint32) uint32 {
					if a > 5 {
						return 10
					}
					return a + a
				}
				return twice(twice(i)) + 2
			}},
		{"parameters given back", "uint a = gid.x; uint b = 9u; if (gid.x > 2u) { swap(a, b); } u[gid.x] = a - b;",
			func(i uint32) uint32 {
				if i > 2 {
					return 9 - i
				}
				return i - 9
			}},
		{"short circuit", "if (gid.x > 7u && v[gid.x + 100u] == 1u || gid.x == 1u) { u[gid.x] = 1u; }",
			func(i uint32) uint32 {
				if i == 1 {
					return 1
				}
				return 0
			}},
		{"signed numbers", "int i = int(gid.x) - 4; uint a = 0u; if (i < -1) { a = 1u; } u[gid.x] = uint(i >> 1) + a + uint(-i / 2);",
			func(i uint32) uint32 {
				n, a := int32(i)-4, uint32(0)
				if n < -1 {
					a = 1
				}
				return uint32(n>>1) + a + uint32(-n/2)
			}},
		{"shared memory", "s[lid.x] = gid.x; BARRIER(); uint a = s[3u - lid.x]; BARRIER(); s[lid.x] = a; BARRIER(); u[gid.x] = s[lid.x];",
			func(i uint32) uint32 { return i/4*4 + 3 - i%4 }},
		{"precedence", "u[gid.x] = gid.x + 2u * 3u << 1u | 1u & gid.x ^ 8u;",
			func(i uint32) uint32 { return (i+2*3)<<1 | ((1 & i) ^ 8) }},
		{"scopes", "uint a = 1u; { uint a = 2u; u[gid.x] = a; } u[gid.x] += a;", func(uint32) uint32 { return 3 }},
	} {
		got, err := small(t, c.body)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for i, v := range got {
			if want := c.want(uint32(i)); v != want {
				t.Errorf("%s: invocation %d gives %d, expected %d", c.name, i, v, want)
			}
		}
	}
}

func TestDriverRefuses(t *testing.T) {
	d := open(t, soft.Options{MemoryBytes: 4096})
	other := open(t, soft.Options{})
	ctx := context.Background()
	var memory *driver.MemoryError
	if _, err := d.NewBuffer(8192, driver.Device); !errors.Is(err, driver.ErrLimit) {
		t.Errorf("a buffer larger than the memory: %v", err)
	}
	a, err := d.NewBuffer(3000, driver.Device)
	if err != nil {
		t.Fatal(err)
	}
	if a.Bytes() != nil {
		t.Error("device memory is mapped")
	}
	if _, err := d.NewBuffer(3000, driver.Host); !errors.Is(err, driver.ErrOutOfMemory) || !errors.As(err, &memory) || memory.InUse != 3000 {
		t.Errorf("more than the memory: %v", err)
	}
	a.Free()
	h, err := d.NewBuffer(1024, driver.Host)
	if err != nil {
		t.Fatal(err)
	}
	far, err := other.NewBuffer(1024, driver.Host)
	if err != nil {
		t.Fatal(err)
	}
	add, _ := kernel.Lookup("add")
	p, err := d.NewPipeline(add)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := d.NewPipeline(add); err != nil || again != p {
		t.Errorf("the same kernel gives another pipeline: %v", err)
	}
	foreign, err := other.NewPipeline(add)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.NewPipeline(&kernel.Kernel{Name: "bad", Workgroup: [3]int{1, 1, 1}, Body: "nothing"}); err == nil || !strings.Contains(err.Error(), "kernel bad") {
		t.Errorf("a kernel that is none: %v", err)
	}
	bind := func(b driver.Buffer, offset, bytes int64) []driver.Binding {
		return []driver.Binding{{Buffer: b, Offset: offset, Bytes: bytes}, {Buffer: h}, {Buffer: h}}
	}
	one := [3]uint32{1, 1, 1}
	for name, f := range map[string]func(c driver.Commands){
		"too few buffers":    func(c driver.Commands) { c.Dispatch(p, one, bind(h, 0, 0)[:2], []uint32{1, 0}) },
		"too few constants":  func(c driver.Commands) { c.Dispatch(p, one, bind(h, 0, 0), []uint32{1}) },
		"a grid too large":   func(c driver.Commands) { c.Dispatch(p, [3]uint32{1 << 16, 1, 1}, bind(h, 0, 0), []uint32{1, 0}) },
		"another's buffer":   func(c driver.Commands) { c.Dispatch(p, one, bind(far, 0, 0), []uint32{1, 0}) },
		"another's pipeline": func(c driver.Commands) { c.Dispatch(foreign, one, bind(h, 0, 0), []uint32{1, 0}) },
		"an offset unaligned": func(c driver.Commands) {
			c.Dispatch(p, one, bind(h, 4, 0), []uint32{1, 0})
		},
		"a range too long": func(c driver.Commands) {
			c.Dispatch(p, one, bind(h, 256, 1024), []uint32{1, 0})
		},
		"a copy unaligned":    func(c driver.Commands) { c.Copy(h, 0, h, 2, 4) },
		"a copy too long":     func(c driver.Commands) { c.Copy(h, 1000, h, 0, 100) },
		"a copy from another": func(c driver.Commands) { c.Copy(h, 0, far, 0, 4) },
		"a buffer freed": func(c driver.Commands) {
			c.Dispatch(p, one, bind(a, 0, 4), []uint32{1, 0})
		},
		"a buffer freed later": func(c driver.Commands) { b, _ := d.NewBuffer(8, driver.Device); c.Copy(b, 0, h, 0, 8); b.Free() },
	} {
		c, err := d.Begin()
		if err != nil {
			t.Fatal(err)
		}
		f(c)
		if err := c.Run(ctx); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := c.Run(ctx); err != nil {
			t.Errorf("%s: the empty list after it: %v", name, err)
		}
		c.Close()
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	c, err := d.Begin()
	if err != nil {
		t.Fatal(err)
	}
	c.Copy(h, 0, h, 512, 512)
	if err := c.Run(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
	lost := open(t, soft.Options{LoseAfter: 2})
	for i := range 3 {
		cs := kerneltest.Families[1].Cases(1, 1)
		if _, err := cs[0].Run(ctx, lost); (i > 0) != errors.Is(err, driver.ErrLost) {
			t.Errorf("dispatch %d of a device that is lost at the second: %v", i+1, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.NewBuffer(4, driver.Host); err == nil {
		t.Error("a closed device makes buffers")
	}
	if _, err := d.Begin(); err == nil {
		t.Error("a closed device begins")
	}
}
