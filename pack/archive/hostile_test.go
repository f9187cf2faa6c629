package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// sampleArchives returns an archive of a few kilobytes with streams of every kind, and its
// base.
func sampleArchives(t testing.TB) (base, delta []byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	w := make([]byte, 4000)
	for i := 0; i < len(w); i += 2 {
		binary.LittleEndian.PutUint16(w[i:], uint16(math.Float32bits(float32(rng.NormFloat64()))>>16))
	}
	flags := make([]byte, 1000)
	for i := range flags {
		flags[i] = byte(rng.Uint32())
	}
	file := func() []byte {
		head := `{"w":{"dtype":"BF16","shape":[20,80],"data_offsets":[0,3200]},"v":{"dtype":"BF16","shape":[400],"data_offsets":[3200,4000]},` +
			`"f":{"dtype":"U8","shape":[1000],"data_offsets":[4001,5001]}}`
		out := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
		return slices.Concat(out, []byte(head), w, []byte{1}, flags)
	}
	make := func(o Options) []byte {
		var buf bytes.Buffer
		a, err := NewWriter(&buf, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []struct {
			name string
			data []byte
		}{
			{"a.json", []byte(strings.Repeat(`{"a": 1}`, 30))},
			{"b/empty", nil},
			{"m.safetensors", file()},
		} {
			if err := a.AddFile(t.Context(), f.name, 0o644, bytes.NewReader(f.data), int64(len(f.data))); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	base = make(Options{})
	r, err := NewReader(bytes.NewReader(base), int64(len(base)), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(w); i += 2 {
		w[i] += byte(rng.IntN(2))
	}
	for i := range flags {
		flags[i] ^= byte(rng.IntN(2) * 0x42)
	}
	delta = make(Options{Base: r})
	kinds := map[byte]bool{}
	both, err := NewReader(bytes.NewReader(delta), int64(len(delta)), ReadOptions{Base: r})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slices.Concat(r.x.streams, both.x.streams) {
		kinds[s.kind] = true
	}
	if len(kinds) != kindJoined+1 {
		t.Fatalf("the samples use the kinds %v", kinds)
	}
	return base, delta
}

// check opens and verifies an archive.
func check(b []byte, base *Reader) error {
	r, err := NewReader(bytes.NewReader(b), int64(len(b)), ReadOptions{Base: base, Workers: 1})
	if err != nil {
		return err
	}
	_, err = r.Verify(context.Background(), nil)
	return err
}

func refused(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) || errors.Is(err, ErrLimit) || errors.Is(err, ErrBase)
}

func TestEveryBitFlip(t *testing.T) {
	first, second := sampleArchives(t)
	base, err := NewReader(bytes.NewReader(first), int64(len(first)), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, whole := range [][]byte{first, second} {
		b := bytes.Clone(whole)
		if err := check(b, base); err != nil {
			t.Fatal(err)
		}
		for at := range b {
			for bit := range 8 {
				b[at] ^= 1 << bit
				if err := check(b, base); !refused(err) {
					t.Errorf("archive %d: bit %d of byte %d of %d: %v", i, bit, at, len(b), err)
				}
				b[at] ^= 1 << bit
			}
		}
	}
}

func TestEveryTruncation(t *testing.T) {
	first, second := sampleArchives(t)
	base, err := NewReader(bytes.NewReader(first), int64(len(first)), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{first, second} {
		for n := range b {
			if err := check(b[:n], base); !refused(err) {
				t.Errorf("%d of %d bytes: %v", n, len(b), err)
			}
			if err := check(b[n:], base); n > 0 && !refused(err) {
				t.Errorf("from byte %d of %d: %v", n, len(b), err)
			}
		}
		if err := check(append(bytes.Clone(b), 0), base); !refused(err) {
			t.Errorf("a byte more: %v", err)
		}
	}
}

// reseal makes an archive of the stored streams of b and another index.
func reseal(b []byte, end int64, index []byte) []byte {
	out := slices.Concat(b[:end], index)
	tr := trailer{indexStored: int64(len(index)), indexRaw: int64(len(index)), total: int64(len(out)) + trailerSize}
	tr.digest = tr.sum(index)
	return append(out, tr.encode()...)
}

// Indexes with sound digests that say what must not be believed.
func TestHostileIndex(t *testing.T) {
	b, _ := sampleArchives(t)
	load := func() *Reader {
		r, err := NewReader(bytes.NewReader(b), int64(len(b)), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	end := load().end
	if err := check(reseal(b, end, load().x.encode()), nil); err != nil {
		t.Fatalf("resealed without a change: %v", err)
	}
	last := func(x *index) *file { return &x.files[len(x.files)-1] }
	joined := func(x *index) *stream {
		return &x.streams[slices.IndexFunc(x.streams, func(s stream) bool { return s.kind == kindJoined })]
	}
	for name, change := range map[string]func(x *index){
		"absurd stream":          func(x *index) { x.streams[0].size = 1 << 50 },
		"absurd file":            func(x *index) { x.files[0].size = 1 << 50 },
		"absurd tensor":          func(x *index) { x.tensors[0].shape = tensor.Shape{1 << 30, 1 << 30, 1 << 30} },
		"stream of 1 TiB":        func(x *index) { x.streams[0].size, x.files[0].size = 1<<40, 1<<40 },
		"absurd table":           func(x *index) { x.streams[0].table = 1 << 40 },
		"absurd data":            func(x *index) { x.streams[0].data = 1 << 40 },
		"overlap":                func(x *index) { x.streams[0].data-- },
		"gap":                    func(x *index) { x.streams[len(x.streams)-1].table-- },
		"unknown kind":           func(x *index) { x.streams[0].kind = kindRank + 1 },
		"nothing to join":        func(x *index) { x.streams[0].kind = kindJoined },
		"joined to others":       func(x *index) { x.streams[1].kind, x.streams[1].data = kindJoined, 0 },
		"not joined":             func(x *index) { joined(x).kind = kindBytes },
		"too much joined":        func(x *index) { joined(x).size = 1 << 40 },
		"swapped when joined":    func(x *index) { s := joined(x); s.size, x.streams[s.head].size = x.streams[s.head].size, s.size },
		"base without base":      func(x *index) { x.streams[0].kind = kindULP },
		"other kind":             func(x *index) { x.streams[0].kind = kindFloat },
		"wrong stream digest":    func(x *index) { x.streams[0].digest[0] ^= 1 },
		"wrong file digest":      func(x *index) { last(x).digest[0] ^= 1 },
		"swapped segments":       func(x *index) { s := last(x).segments; s[1], s[2] = s[2], s[1] },
		"repeated segment":       func(x *index) { last(x).segments[1] = last(x).segments[0] },
		"lost stream":            func(x *index) { x.files[0].segments = nil; x.files[0].size = 0 },
		"file twice":             func(x *index) { x.files[1].name = x.files[0].name },
		"tensor twice":           func(x *index) { x.tensors[1].name = x.tensors[0].name },
		"tensor of another type": func(x *index) { x.tensors[0].dtype = tensor.F32 },
		"tensor of other shape":  func(x *index) { x.tensors[0].shape = tensor.Shape{1999} },
		"many axes":              func(x *index) { x.tensors[0].shape = make(tensor.Shape, 17) },
		"absolute name":          func(x *index) { x.files[0].name = "/etc/passwd" },
		"parent name":            func(x *index) { x.files[0].name = "../a" },
		"inner parent name":      func(x *index) { x.files[0].name = "a/../../b" },
		"backslash name":         func(x *index) { x.files[0].name = `..\a` },
		"drive name":             func(x *index) { x.files[0].name = "C:a" },
		"device name":            func(x *index) { x.files[0].name = "nul.txt" },
		"control name":           func(x *index) { x.files[0].name = "a\x00b" },
		"empty name":             func(x *index) { x.files[0].name = "" },
		"not UTF-8":              func(x *index) { x.files[0].name = "\xff" },
		"special mode":           func(x *index) { x.files[0].mode = 0o4755 },
	} {
		r := load()
		change(r.x)
		if err := check(reseal(b, end, r.x.encode()), nil); !refused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Names that only unpacking has to fear.
	for _, names := range [][3]string{{"a.json", "A.JSON", "m"}, {"a", "a/b", "m"}, {"a/b", "A", "m"}, {"ſ", "S", "m"}} {
		r := load()
		for i := range r.x.files {
			r.x.files[i].name = names[i]
		}
		packed := reseal(b, end, r.x.encode())
		r, err := NewReader(bytes.NewReader(packed), int64(len(packed)), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := r.Unpack(t.Context(), dir, UnpackOptions{}); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", names, err)
		}
		wantEmpty(t, dir)
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Sizes and counts above a limit are refused as that, before anything is read.
func TestLimits(t *testing.T) {
	b, _ := sampleArchives(t)
	for name, l := range map[string]Limits{
		"index":  {IndexBytes: 100},
		"files":  {Files: 2},
		"tensor": {Tensors: 2},
		"rank":   {Rank: 1},
		"file":   {FileBytes: 5000},
		"total":  {TotalBytes: 5000},
		"table":  {TableBytes: 5},
	} {
		if _, err := NewReader(bytes.NewReader(b), int64(len(b)), ReadOptions{Limits: l}); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := NewReader(bytes.NewReader(b), int64(len(b)), ReadOptions{Limits: Limits{TensorBytes: 3199}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tensor("w"); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	if _, err := r.Tensor("f"); err != nil {
		t.Error(err)
	}
	// A tensor of 1 GiB in some kilobytes: its table has not that many chunks.
	r.limits = Limits{}.withDefaults()
	s := &r.x.streams[r.tensorStream(0)]
	r.x.streams[s.head].total += 1<<30 - s.size
	s.size = 1 << 30
	r.x.tensors[0].shape = tensor.Shape{1 << 29}
	if _, err := r.Tensor("w"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), `tensor "w"`) {
		t.Error(err)
	}
}

// Faults name the file and the tensor.
func TestFaultsAreNamed(t *testing.T) {
	b, _ := sampleArchives(t)
	r, err := NewReader(bytes.NewReader(b), int64(len(b)), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := r.x.streams[r.tensorStream(0)]
	b = bytes.Clone(b)
	b[s.offset+s.data/2] ^= 4
	r, err = NewReader(bytes.NewReader(b), int64(len(b)), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, verify := r.Verify(t.Context(), nil)
	_, whole := r.Tensor("w")
	f, err := r.OpenFile("m.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	_, streamed := io.ReadAll(f)
	for _, err := range []error{verify, whole, streamed} {
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), `file "m.safetensors"`) || !strings.Contains(err.Error(), `tensor "w"`) {
			t.Error(err)
		}
	}
	dir := t.TempDir()
	if err := r.Unpack(t.Context(), dir, UnpackOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	wantEmpty(t, dir)
	if err := r.Unpack(t.Context(), filepath.Join(dir, "new"), UnpackOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	wantEmpty(t, dir)
}

func FuzzReader(f *testing.F) {
	first, second := sampleArchives(f)
	f.Add(first)
	f.Add(second)
	f.Add([]byte(Magic))
	base, err := NewReader(bytes.NewReader(first), int64(len(first)), ReadOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := Limits{TotalBytes: 8 << 20, FileBytes: 8 << 20}
		for _, base := range []*Reader{nil, base} {
			r, err := NewReader(bytes.NewReader(b), int64(len(b)), ReadOptions{Base: base, Limits: limits, Workers: 2})
			if err != nil {
				if !refused(err) {
					t.Error(err)
				}
				continue
			}
			if _, err := r.Verify(context.Background(), nil); err != nil && !refused(err) {
				t.Error(err)
			}
		}
	})
}

// FuzzIndex gives readers indexes whose digests hold, over stored streams that
// are sound.
func FuzzIndex(f *testing.F) {
	first, second := sampleArchives(f)
	base, err := NewReader(bytes.NewReader(first), int64(len(first)), ReadOptions{})
	if err != nil {
		f.Fatal(err)
	}
	delta, err := NewReader(bytes.NewReader(second), int64(len(second)), ReadOptions{Base: base})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(base.x.encode())
	f.Add(delta.x.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, stored := range []struct {
			b   []byte
			end int64
		}{{first, base.end}, {second, delta.end}} {
			packed := reseal(stored.b, stored.end, b)
			r, err := NewReader(bytes.NewReader(packed), int64(len(packed)),
				ReadOptions{Base: base, Limits: Limits{TotalBytes: 8 << 20}, Workers: 1})
			if err != nil {
				if !refused(err) {
					t.Error(err)
				}
				continue
			}
			if !bytes.Equal(r.x.encode(), b) {
				t.Error("an index has two spellings")
			}
			if _, err := r.Verify(context.Background(), nil); err != nil && !refused(err) {
				t.Error(err)
			}
			for _, info := range r.Tensors() {
				if _, err := r.Tensor(info.File + ":" + info.Name); err != nil && !refused(err) && !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
			}
		}
	})
}

// FuzzRoundTrip packs anything, as any file may come.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"), uint8(1))
	f.Add(slices.Concat([]byte{62, 0, 0, 0, 0, 0, 0, 0}, []byte(`{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[2,18]},"b":5}`)[:62], make([]byte, 30)), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, level uint8) {
		var buf bytes.Buffer
		w, err := NewWriter(&buf, Options{Level: floatcodec.Level(level % 3), Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x.safetensors", "y"} {
			if err := w.AddFile(t.Context(), name, 0o600, bytes.NewReader(data), int64(len(data))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x.safetensors", "y"} {
			file, err := r.OpenFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%d bytes came back as %d (%v)", len(data), len(got), err)
			}
		}
		if _, err := r.Verify(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}
