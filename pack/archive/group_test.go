package archive_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// smallTensors is a file like those of small convolutional networks: many small
// tensors of several types in turn, some equal, constant, empty or sparse.
func smallTensors(rng *rand.Rand, n int) ([]byte, []part) {
	var parts []part
	add := func(name string, d tensor.DType, count int, data []byte) {
		parts = append(parts, part{name: name, dtype: d, shape: []int{count}, data: data})
	}
	for i := range n {
		count := 16 << rng.IntN(10)
		add(fmt.Sprint(i, ".weight"), tensor.BF16, count, bf16(rng, count))
		add(fmt.Sprint(i, ".bias"), tensor.F32, 1+i, f32(rng, 1+i))
		add(fmt.Sprint(i, ".batches"), tensor.I64, 1, binary.LittleEndian.AppendUint64(nil, uint64(1000+i)))
		add(fmt.Sprint(i, ".ones"), tensor.BF16, 500+i, bytes.Repeat([]byte{0x80, 0x3f}, 500+i))
		add(fmt.Sprint(i, ".zeros"), tensor.F32, 64, make([]byte, 256))
		add(fmt.Sprint(i, ".none"), tensor.F32, 0, nil)
	}
	return safetensors(parts, []byte("end")), parts
}

func TestSmallTensors(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	file, parts := smallTensors(rng, 60)
	other, _ := smallTensors(rng, 5)
	files := map[string][]byte{"a/m.safetensors": file, "b.safetensors": other, "c/m.safetensors": file}
	for level := floatcodec.Fast; level <= floatcodec.Max; level++ {
		t.Run(level.String(), func(t *testing.T) {
			packed := packTree(t, files, archive.Options{Level: level, Workers: 1})
			if again := packTree(t, files, archive.Options{Level: level, Workers: 5}); !bytes.Equal(again, packed) {
				t.Error("the bytes depend on the number of workers")
			}
			r := open(t, packed, archive.ReadOptions{Workers: 3})
			wantFiles(t, r, files)
			if _, err := r.Verify(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			// Backwards, so that nothing is helped by what was read before.
			for i := len(parts) - 1; i >= 0; i-- {
				p := &parts[i]
				got, err := r.Tensor("a/m.safetensors:" + p.name)
				if err != nil || !bytes.Equal(got.Bytes(), p.data) {
					t.Fatalf("%s differs (%v)", p.name, err)
				}
				s, err := r.TensorReader("a/m.safetensors:" + p.name)
				if err != nil {
					t.Fatal(err)
				}
				if len(p.data) > 0 {
					at := rng.IntN(len(p.data))
					b := make([]byte, 1+rng.IntN(len(p.data)-at))
					if _, err := s.ReadAt(b, int64(at)); err != nil || !bytes.Equal(b, p.data[at:at+len(b)]) {
						t.Fatalf("%s, bytes %d to %d differ (%v)", p.name, at, at+len(b), err)
					}
				}
			}
			// What each takes adds up to what all take, which is little for the second
			// copy of a file.
			sums := map[string]int64{}
			for _, info := range r.Tensors() {
				sums[info.File] += info.Stored
			}
			for _, f := range r.Files() {
				if rest := f.Stored - sums[f.Name]; rest < 0 || rest > 10<<10 {
					t.Errorf("%s takes %d bytes, its tensors %d", f.Name, f.Stored, sums[f.Name])
				}
			}
			if sums["c/m.safetensors"] != 0 {
				t.Errorf("the copy's tensors take %d bytes", sums["c/m.safetensors"])
			}
		})
	}
}

// Joined tensors are smaller than if each has a model of its own, and one that
// does not go with the others does not spoil them.
func TestJoinedTensorsAreSmaller(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	var parts []part
	total, alone := 0, 0
	for i := range 200 {
		p := part{name: fmt.Sprint(i), dtype: tensor.BF16, shape: []int{1000}, data: bf16(rng, 1000)}
		if i%10 == 0 {
			p.data = bytes.Repeat(bf16(rng, 10), 100)
		}
		parts = append(parts, p)
		total += len(p.data)
		enc, err := floatcodec.Encode(nil, p.dtype, nil, p.data, floatcodec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		alone += len(enc)
	}
	packed := packTree(t, map[string][]byte{"m.safetensors": safetensors(parts, nil)}, archive.Options{})
	// Each of them takes 32 bytes of digest and about as much for its names.
	t.Logf("%d bytes, %d each for itself, %d packed", total, alone, len(packed))
	if len(packed) > alone-200*20 {
		t.Errorf("%d bytes packed, %d each for itself", len(packed), alone)
	}
}

// A file may have segments of the archive and of its base with the same number;
// what was read of one must not be taken for the other.
func TestSegmentsOfBaseAndArchive(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	const n = 200_000
	old := []part{
		{name: "a", dtype: tensor.BF16, shape: []int{n}, data: bf16(rng, n)},
		{name: "b", dtype: tensor.BF16, shape: []int{n}, data: bf16(rng, n)},
		{name: "c", dtype: tensor.BF16, shape: []int{n}, data: bf16(rng, n)},
	}
	next := []part{
		{name: "new", dtype: tensor.BF16, shape: []int{n + 1}, data: bf16(rng, n+1)},
		old[0], old[1],
		{name: "newer", dtype: tensor.BF16, shape: []int{n + 2}, data: bf16(rng, n+2)},
		old[2],
	}
	base := open(t, packTree(t, map[string][]byte{"m.safetensors": safetensors(old, nil)}, archive.Options{}), archive.ReadOptions{})
	file := safetensors(next, nil)
	r := open(t, packTree(t, map[string][]byte{"m.safetensors": file}, archive.Options{Base: base}), archive.ReadOptions{Base: base})
	f, err := r.OpenFile("m.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	infos := r.Tensors()
	for _, a := range infos {
		for _, b := range infos {
			for _, info := range []archive.Tensor{a, b} {
				got := make([]byte, 100)
				if _, err := f.ReadAt(got, info.Offset+7); err != nil || !bytes.Equal(got, file[info.Offset+7:][:100]) {
					t.Fatalf("after %s: %s differs (%v)", a.Name, info.Name, err)
				}
			}
		}
	}
}
