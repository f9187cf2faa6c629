package pack_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// sample returns tensors with every kind of trouble: no elements, odd sizes,
// special bit patterns, several planes.
func sample(t testing.TB) map[string]*tensor.Tensor {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	out := map[string]*tensor.Tensor{}
	add := func(name string, d tensor.DType, shape ...int) {
		x, err := tensor.New(d, shape...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Bytes() {
			x.Bytes()[i] = byte(r.Uint32() >> (r.Uint32() % 8))
		}
		out[name] = x
	}
	add("wide", tensor.F32, 3, 1<<17+5)
	add("half", tensor.BF16, 7, 11)
	add("empty", tensor.F64, 0, 4)
	add("scalar", tensor.I64)
	add("bytes", tensor.U8, 13)
	copy(out["half"].Bytes(), []byte{0x00, 0x80, 0xc1, 0x7f, 0x01, 0x00}) // −0, NaN payload, subnormal
	return out
}

var sampleOrder = []string{"wide", "half", "empty", "scalar", "bytes"}

func write(t testing.TB, dest string, opts pack.CreateOptions) error {
	t.Helper()
	w, err := pack.Create(dest, opts)
	if err != nil {
		return err
	}
	defer w.Abort()
	tensors := sample(t)
	for _, name := range sampleOrder {
		if err := w.AddTensor(name, tensors[name]); err != nil {
			return err
		}
	}
	for _, name := range []string{pack.ConfigName, pack.ExamplesName, pack.OutputsName, pack.ReportName, pack.PageName, "files/tokenizer.json"} {
		if err := w.AddFile(name, strings.NewReader("{\"name\": \""+name+"\"}")); err != nil {
			return err
		}
	}
	if _, err := w.Seal(&pack.Manifest{Status: "no_reduction", Architecture: "test", Aliases: map[string]string{"tied": "half"}}); err != nil {
		return err
	}
	return w.Publish()
}

func TestRoundTrip(t *testing.T) {
	for _, codec := range []pack.Codec{nil, pack.Float{Level: floatcodec.Max}, pack.Raw{}, pack.Zstd{}} {
		dest := filepath.Join(t.TempDir(), "p")
		if err := write(t, dest, pack.CreateOptions{Codec: codec}); err != nil {
			t.Fatal(err)
		}
		p, err := pack.Open(dest, pack.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range sample(t) {
			got, err := p.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			if !tensor.BitEqual(got, want) {
				t.Errorf("tensor %q changed", name)
			}
		}
		if data, err := p.File("files/tokenizer.json"); err != nil || !bytes.Contains(data, []byte("tokenizer")) {
			t.Errorf("file: %q, %v", data, err)
		}
		if tied, err := p.Tensor("tied"); err != nil || !tensor.BitEqual(tied, sample(t)["half"]) {
			t.Errorf("alias: %v, %v", tied, err)
		}
		if _, err := p.Tensor("none"); err == nil {
			t.Error("a tensor that is not there was read")
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSameBytesTwice(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := write(t, filepath.Join(dir, name), pack.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{pack.ManifestName, "weights.bin"} {
		a, b := read(t, filepath.Join(dir, "a", name)), read(t, filepath.Join(dir, "b", name))
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs between two runs", name)
		}
	}
}

// Every flipped bit of every file must be noticed at open.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "p")
	if err := write(t, dest, pack.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{pack.ManifestName, pack.ReportName, "files/tokenizer.json", "weights.bin"} {
		path := filepath.Join(dest, name)
		good := read(t, path)
		bits := len(good) * 8
		for i := range min(bits, 400) {
			bit := i
			if bits > 400 {
				bit = r.IntN(bits)
			}
			bad := bytes.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			put(t, path, bad)
			if p, err := pack.Open(dest, pack.Limits{}); err == nil {
				p.Close()
				t.Fatalf("%s: bit %d flipped and not noticed", name, bit)
			}
		}
		for _, bad := range [][]byte{nil, good[:len(good)-1], append(bytes.Clone(good), ' ')} {
			put(t, path, bad)
			if p, err := pack.Open(dest, pack.Limits{}); err == nil {
				p.Close()
				t.Fatalf("%s: %d of %d bytes accepted", name, len(bad), len(good))
			}
		}
		put(t, path, good)
	}
	if err := os.Remove(filepath.Join(dest, pack.ReportName)); err != nil {
		t.Fatal(err)
	}
	if _, err := pack.Open(dest, pack.Limits{}); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestDestinationIsSafe(t *testing.T) {
	dir := t.TempDir()
	dest := filepath.Join(dir, "p")
	if err := write(t, dest, pack.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := read(t, filepath.Join(dest, pack.ManifestName))
	if err := write(t, dest, pack.CreateOptions{}); !errors.Is(err, pack.ErrExists) {
		t.Errorf("existing destination: %v", err)
	}
	if err := write(t, dest, pack.CreateOptions{Overwrite: true, Codec: pack.Raw{}}); err != nil {
		t.Errorf("overwrite: %v", err)
	}
	if bytes.Equal(before, read(t, filepath.Join(dest, pack.ManifestName))) {
		t.Error("overwrite changed nothing")
	}
	other := filepath.Join(dir, "home")
	if err := os.MkdirAll(other, 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(other, "letter"), []byte("dear"))
	if err := write(t, other, pack.CreateOptions{Overwrite: true}); !errors.Is(err, pack.ErrExists) {
		t.Errorf("a directory that is not a package: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	w, err := pack.Create(filepath.Join(dir, "p"), pack.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddTensor("x", sample(t)["half"]); err != nil {
		t.Fatal(err)
	}
	if err := w.AddTensor("x", sample(t)["half"]); err == nil {
		t.Error("a name was used twice")
	}
	for _, bad := range []string{"../x", "/x", "a//b", "", pack.ManifestName, "weights.bin", `a\b`, "c:x"} {
		if err := w.AddFile(bad, strings.NewReader("x")); err == nil {
			t.Errorf("file name %q accepted", bad)
		}
	}
	w.Abort()
	w.Abort()
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// A writer that is killed leaves a temporary directory; the next one removes
// it, but not that of a writer that lives.
func TestKilledWriter(t *testing.T) {
	if dest := os.Getenv("HFCOMPRESS_TEST_KILLED_WRITER"); dest != "" {
		w, err := pack.Create(dest, pack.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.AddTensor("x", sample(t)["wide"]); err != nil {
			t.Fatal(err)
		}
		fmt.Println("writing")
		select {}
	}
	dir := t.TempDir()
	dest := filepath.Join(dir, "p")
	live, err := pack.Create(dest, pack.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Abort()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
	cmd.Env = append(os.Environ(), "HFCOMPRESS_TEST_KILLED_WRITER="+dest)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Fatalf("expected the remains of one writer beside a living one: %v", entries)
	}
	if err := write(t, dest, pack.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 { // the package, the living writer
		t.Errorf("remains were not removed, or too much was: %v", entries)
	}
}

func FuzzParseManifest(f *testing.F) {
	dest := filepath.Join(f.TempDir(), "p")
	if err := write(f, dest, pack.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	good := read(f, filepath.Join(dest, pack.ManifestName))
	f.Add(good)
	f.Add([]byte(`{"schema":1}`))
	f.Add([]byte(`{"schema":2}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := pack.ParseManifest(data, pack.Limits{})
		if err != nil {
			return
		}
		if again, err := m.Encode(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("an accepted manifest is not canonical: %v", err)
		}
	})
}

func FuzzZstdDecode(f *testing.F) {
	var buf bytes.Buffer
	if err := (pack.Zstd{}).Encode(&buf, sample(f)["half"]); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes(), 154)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, stored []byte, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		_ = pack.Zstd{}.Decode(make([]byte, n&^1), tensor.BF16, stored)
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	dest := filepath.Join(dir, "model")

	w, err := pack.Create(dest, pack.CreateOptions{})
	if err != nil {
		panic(err)
	}
	defer w.Abort()
	x, _ := tensor.FromFloat32s([]float32{1, 2, 3, 4}, 2, 2)
	if err := w.AddTensor("weight", x); err != nil {
		panic(err)
	}
	for _, name := range []string{pack.ConfigName, pack.ExamplesName, pack.OutputsName, pack.ReportName, pack.PageName} {
		if err := w.AddFile(name, strings.NewReader("{}")); err != nil {
			panic(err)
		}
	}
	if _, err := w.Seal(&pack.Manifest{Status: "no_reduction", Architecture: "mine"}); err != nil {
		panic(err)
	}
	if err := w.Publish(); err != nil {
		panic(err)
	}

	p, err := pack.Open(dest, pack.Limits{})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	y, err := p.Tensor("weight")
	fmt.Println(y, tensor.BitEqual(x, y), err)
	// Output: F32[2,2] true <nil>
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func put(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}
