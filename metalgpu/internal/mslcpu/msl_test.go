package mslcpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/metalgpu/internal/kerneltest"
	"github.com/hfcompress/compress/metalgpu/internal/soft"
)

// clang returns the compiler. Where CI=true it must be there.
func clang(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program's fibers need ucontext")
	}
	for _, name := range []string{"clang++", "clang++-16", "clang++-17", "clang++-18", "clang++-19", "clang++-14"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("clang++ is not installed")
	}
	t.Skip("clang++ is not installed")
	return ""
}

// dispatcher is the C++ that calls the kernels by number.
func dispatcher(kernels []*kernel.Kernel) string {
	var s strings.Builder
	s.WriteString("#include <metal_stdlib>\n#include <functional>\n#include <vector>\n")
	for _, k := range kernels {
		fmt.Fprintf(&s, "namespace k_%s {\n#include \"%s.metal\"\n}\n", k.Name, k.Name)
	}
	s.WriteString(`
typedef std::function<void(metal::uint3, metal::uint3, metal::uint3)> invocation;

invocation kernelOf(uint k, std::vector<std::vector<uint>> &buffers, const std::vector<uint> &bind, const std::vector<uint> &push) {
	switch (k) {
`)
	for i, k := range kernels {
		fmt.Fprintf(&s, "\tcase %d:\n\t\treturn [&](metal::uint3 gid, metal::uint3 lid, metal::uint3 wid) {\n\t\t\tk_%s::%s(", i, k.Name, k.Name)
		for j, b := range k.Buffers {
			fmt.Fprintf(&s, "(%s *)buffers[bind[%d]].data(), ", b.Type, j)
		}
		fmt.Fprintf(&s, "*(const k_%s::P *)push.data(), gid, lid, wid);\n\t\t};\n", k.Name)
	}
	s.WriteString("\t}\n\treturn invocation();\n}\n")
	return s.String()
}

// build compiles all kernels with the given options.
func build(t *testing.T, options ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("compiling all kernels takes a minute")
	}
	compiler := clang(t)
	dir := t.TempDir()
	for _, k := range kernel.All() {
		if err := os.WriteFile(filepath.Join(dir, k.Name+".metal"), []byte(k.MSL()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	source := filepath.Join(dir, "kernels.cpp")
	if err := os.WriteFile(source, []byte(dispatcher(kernel.All())), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "run")
	args := append([]string{"-std=c++17", "-O1", "-fno-strict-aliasing", "-Wno-unknown-attributes", "-Wno-unknown-pragmas", "-Wno-deprecated-declarations",
		"-Ishim", "-o", program, source, "shim/run.cpp"}, options...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	return program
}

// run runs cases and returns their buffers.
func run(t *testing.T, program string, cases []kerneltest.Case) [][][]uint32 {
	t.Helper()
	numbers := map[*kernel.Kernel]int{}
	for i, k := range kernel.All() {
		numbers[k] = i
	}
	var in []byte
	put := func(v ...uint32) {
		for _, x := range v {
			in = binary.LittleEndian.AppendUint32(in, x)
		}
	}
	list := func(v []uint32) {
		put(uint32(len(v)))
		put(v...)
	}
	put(uint32(len(cases)))
	for _, c := range cases {
		put(uint32(len(c.Buffers)))
		for _, b := range c.Buffers {
			list(b)
		}
		put(uint32(len(c.Steps)))
		for _, s := range c.Steps {
			put(uint32(numbers[s.Kernel]))
			for _, n := range s.Kernel.Workgroup {
				put(uint32(n))
			}
			g := s.Kernel.Groups(s.Push)
			put(g[:]...)
			bind := make([]uint32, len(s.Bind))
			for i, n := range s.Bind {
				bind[i] = uint32(n)
			}
			list(bind)
			list(s.Push)
		}
	}
	dir := t.TempDir()
	file, results := filepath.Join(dir, "cases"), filepath.Join(dir, "results")
	if err := os.WriteFile(file, in, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, file, results).CombinedOutput(); err != nil {
		t.Fatalf("the program: %v\n%s", err, out)
	}
	data, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(data)
	all := make([][][]uint32, len(cases))
	for i, c := range cases {
		for _, b := range c.Buffers {
			words := make([]uint32, len(b))
			if err := binary.Read(r, binary.LittleEndian, words); err != nil {
				t.Fatal(err)
			}
			all[i] = append(all[i], words)
		}
	}
	if r.Len() != 0 {
		t.Fatalf("%d bytes too many", r.Len())
	}
	return all
}

func cases() []kerneltest.Case {
	var list []kerneltest.Case
	for _, f := range kerneltest.Families {
		list = append(list, f.Cases(7, 4)...)
	}
	return list
}

// The results are the expected ones, and the interpreter's to the bit.
func TestMetalSourcesOnTheProcessor(t *testing.T) {
	program := build(t, "-ffp-contract=off")
	list := cases()
	d := soft.Open(soft.Options{})
	defer d.Close()
	words := 0
	for i, got := range run(t, program, list) {
		c := list[i]
		if err := c.Check(got); err != nil {
			t.Error(err)
		}
		want, err := c.Run(context.Background(), d)
		if err != nil {
			t.Fatal(err)
		}
		for n := range want {
			for j := range want[n] {
				if words++; want[n][j] != got[n][j] {
					t.Fatalf("%s: element %d of buffer %d is %#08x, the interpreter's %#08x", c.Name, j, n, got[n][j], want[n][j])
				}
			}
		}
	}
	t.Logf("%d cases, %d words", len(list), words)
}

// The negative control: with contraction the test above must fail, or it would not
// see what it is for.
func TestContractionIsSeen(t *testing.T) {
	options := []string{"-ffp-contract=fast"}
	if runtime.GOARCH == "amd64" {
		options = append(options, "-mfma")
	}
	program := build(t, options...)
	list := cases()
	wrong := map[string]int{}
	total := 0
	for i, got := range run(t, program, list) {
		if list[i].Check(got) != nil {
			total++
			wrong[strings.Fields(list[i].Name)[0]]++
		}
	}
	t.Logf("%d of %d cases differ: %v", total, len(list), wrong)
	for _, name := range []string{"linear_tiled_f32", "probe", "map", "attention"} {
		if wrong[name] == 0 {
			t.Errorf("%s: no case differs", name)
		}
	}
}
