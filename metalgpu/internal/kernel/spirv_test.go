package kernel_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// Lavapipe never contracts, so it cannot show that a decoration is missing: the
// modules themselves must.
func TestModulesAreStrict(t *testing.T) {
	total := 0
	for _, k := range kernel.All() {
		words, err := k.SPIRV()
		if err != nil {
			t.Fatal(err)
		}
		n, err := kernel.Inspect(words)
		if err != nil {
			t.Errorf("kernel %s: %v", k.Name, err)
		}
		total += n
	}
	t.Logf("%d operations of float arithmetic in %d modules", total, len(kernel.All()))
	if total < 1000 {
		t.Errorf("only %d operations of float arithmetic were seen", total)
	}
}

// TestModulesAreOfTheirSources fails where the table was changed and
// go generate ./metalgpu/internal/kernel was not run.
func TestModulesAreOfTheirSources(t *testing.T) {
	have, err := os.ReadFile("spirv/SOURCES")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, k := range kernel.All() {
		fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256([]byte(k.GLSL())), k.Name)
		msl, err := os.ReadFile(filepath.Join("testdata", "msl", k.Name+".metal"))
		if err != nil {
			t.Fatal(err)
		}
		if string(msl) != k.MSL() {
			t.Errorf("testdata/msl/%s.metal is not what the table gives", k.Name)
		}
	}
	if string(have) != want.String() {
		t.Error("spirv/ was made from other sources")
	}
	for _, dir := range []string{"spirv/*.spv", "testdata/msl/*.metal"} {
		files, err := filepath.Glob(dir)
		if err != nil || len(files) != len(kernel.All()) {
			t.Errorf("%s: %d files for %d kernels, %v", dir, len(files), len(kernel.All()), err)
		}
	}
}

// Without NoContraction a module must not pass, nor with what kernels must not do.
func TestInspectRefuses(t *testing.T) {
	k, _ := kernel.Lookup("attention_softmax")
	words, err := k.SPIRV()
	if err != nil {
		t.Fatal(err)
	}
	const opDecorate, noContraction, opFAdd, opFDiv = 71, 42, 129, 136
	each := func(w []uint32, f func(in []uint32)) {
		for i := 5; i < len(w); i += int(w[i] >> 16) {
			f(w[i : i+int(w[i]>>16)])
		}
	}
	refused := 0
	for n := 0; ; n++ { // each decoration in turn becomes another one
		w, err := k.SPIRV()
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		each(w, func(in []uint32) {
			if in[0]&0xffff == opDecorate && in[2] == noContraction {
				if at == n {
					in[2] = 0 // RelaxedPrecision
				}
				at++
			}
		})
		if n == at {
			break
		}
		if _, err := kernel.Inspect(w); !errors.Is(err, kernel.ErrSPIRV) {
			t.Fatalf("without decoration %d: %v", n, err)
		}
		refused++
	}
	if refused < 20 {
		t.Errorf("only %d decorations", refused)
	}
	each(words, func(in []uint32) {
		if in[0]&0xffff == opFAdd {
			in[0] = in[0]&^0xffff | opFDiv
		}
	})
	if _, err := kernel.Inspect(words); !errors.Is(err, kernel.ErrSPIRV) {
		t.Errorf("with a division: %v", err)
	}
	// The pass itself puts the decorations back.
	if words, err = k.SPIRV(); err != nil {
		t.Fatal(err)
	}
	var bare []uint32
	bare = append(bare, words[:5]...)
	each(words, func(in []uint32) {
		if in[0]&0xffff != opDecorate || in[2] != noContraction {
			bare = append(bare, in...)
		}
	})
	again, err := kernel.Strict(bare)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kernel.Inspect(again); err != nil {
		t.Error(err)
	}
	if _, err := kernel.Inspect(bare); err == nil {
		t.Error("a module without decorations passes")
	}
}

func FuzzInspect(f *testing.F) {
	k, _ := kernel.Lookup("add")
	words, err := k.SPIRV()
	if err != nil {
		f.Fatal(err)
	}
	data := make([]byte, 4*len(words))
	for i, w := range words {
		for j := range 4 {
			data[4*i+j] = byte(w >> (8 * j))
		}
	}
	f.Add(data)
	f.Add(data[:20])
	f.Add(data[:len(data)-4])
	f.Fuzz(func(t *testing.T, data []byte) {
		words, err := kernel.Words(data)
		if err != nil {
			return
		}
		_, _ = kernel.Inspect(words)
		_, _ = kernel.Strict(words)
	})
}

// Limits that the weakest devices have: 128 bytes of push constants, 8 buffers,
// 256 invocations, 16 KiB of shared memory.
func TestKernelsFitWeakDevices(t *testing.T) {
	for _, k := range kernel.All() {
		if n := k.Workgroup[0] * k.Workgroup[1] * k.Workgroup[2]; n < 1 || n > 256 {
			t.Errorf("%s: %d invocations", k.Name, n)
		}
		if n := len(k.Push) * 4; n > 128 {
			t.Errorf("%s: %d bytes of push constants", k.Name, n)
		}
		if len(k.Buffers) > 8 {
			t.Errorf("%s: %d buffers", k.Name, len(k.Buffers))
		}
		shared := 0
		for _, s := range k.Shared {
			shared += 4 * s.Elements
		}
		if shared > 16<<10 {
			t.Errorf("%s: %d bytes of shared memory", k.Name, shared)
		}
		if got, ok := kernel.Lookup(k.Name); !ok || got != k {
			t.Errorf("%s is not found", k.Name)
		}
		push := make([]uint32, len(k.Push))
		for i := range push {
			push[i] = 1
		}
		if g := k.Groups(push); g[0] == 0 || g[1] == 0 || g[2] == 0 {
			t.Errorf("%s: a grid of %v", k.Name, g)
		}
	}
	if _, ok := kernel.Lookup("nothing"); ok {
		t.Error("found nothing")
	}
}

// Both pragmas must stand before any code: Metal contracts under every compile
// option where the second is missing.
func TestMetalPragmas(t *testing.T) {
	for _, k := range kernel.All() {
		msl := k.MSL()
		if !strings.Contains(msl, "kernel void "+k.Name+"(\n") {
			t.Errorf("%s: no entry point", k.Name)
		}
		code := strings.Index(msl, "#define FN")
		for _, p := range []string{"\n#pragma METAL fp math_mode(safe)\n", "\n#pragma METAL fp contract(off)\n"} {
			if at := strings.Index(msl, p); at < 0 || at > code || strings.Count(msl, "#pragma") != 2 {
				t.Errorf("%s: %q is missing or late", k.Name, p)
			}
		}
		for _, word := range []string{"fma", "simd_", "atomic", "precise::", "fast::", "half2", "exp(", "sqrt(", "tanh("} {
			if strings.Contains(msl, word) {
				t.Errorf("%s uses %s", k.Name, word)
			}
		}
	}
}
