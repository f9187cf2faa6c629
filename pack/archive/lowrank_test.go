package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

// adapted is a safetensors file of one matrix of normally distributed numbers, to
// which a product of that rank is added, and noise; rank 0 adds nothing.
func adapted(t testing.TB, d tensor.DType, rows, cols, rank int, noise float64) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(121, 1))
	data := make([]byte, 0, rows*cols*d.Size())
	w := make([]float32, rows*cols)
	for i := range w {
		w[i] = float32(rng.NormFloat64() * 0.05)
	}
	if d == tensor.BF16 { // of which the base is made
		for i := range w {
			w[i] = math.Float32frombits(math.Float32bits(w[i]) &^ 0xffff)
		}
	}
	a, b := make([]float64, rows*rank), make([]float64, cols*rank)
	for i := range a {
		a[i] = rng.NormFloat64()
	}
	for i := range b {
		b[i] = rng.NormFloat64() * 1e-3
	}
	for r := range rows {
		for c := range cols {
			v := float64(w[r*cols+c])
			for k := range rank {
				v += float64(a[r*rank+k] * b[c*rank+k])
			}
			if rank > 0 {
				v += float64(rng.NormFloat64() * noise)
			}
			bits := math.Float32bits(float32(v))
			if d == tensor.BF16 {
				data = binary.LittleEndian.AppendUint16(data, uint16((bits+0x7fff+bits>>16&1)>>16))
			} else {
				data = binary.LittleEndian.AppendUint32(data, bits)
			}
		}
	}
	header, err := json.Marshal(map[string]any{"w": map[string]any{"dtype": d.String(), "shape": []int{rows, cols}, "data_offsets": []int{0, len(data)}}})
	if err != nil {
		t.Fatal(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

func packOne(t testing.TB, file []byte, o Options) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddFile(context.Background(), "m.safetensors", 0o644, bytes.NewReader(file), int64(len(file))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func openOne(t testing.TB, b []byte, base *Reader) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b), int64(len(b)), ReadOptions{Base: base})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A merged adapter takes little more than its two matrices, however many workers
// look for them; every bit comes back, from any part.
func TestProducts(t *testing.T) {
	for _, tc := range []struct {
		name       string
		dtype      tensor.DType
		rows, cols int
		rank       int
		noise      float64
		most       float64 // bits for each element
	}{
		{"adapter F32", tensor.F32, 300, 700, 4, 0, 2.5},
		{"adapter BF16", tensor.BF16, 300, 700, 4, 0, 1.5},
		{"narrow F32", tensor.F32, 1500, 65, 1, 0, 2},
		{"adapter and noise F32", tensor.F32, 400, 512, 2, 2e-4, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := openOne(t, packOne(t, adapted(t, tc.dtype, tc.rows, tc.cols, 0, 0), Options{}), nil)
			next := adapted(t, tc.dtype, tc.rows, tc.cols, tc.rank, tc.noise)
			packed := packOne(t, next, Options{Base: base, Workers: 1})
			if other := packOne(t, next, Options{Base: base, Workers: 3}); !bytes.Equal(packed, other) {
				t.Error("the bytes depend on the number of workers")
			}
			r := openOne(t, packed, base)
			if _, err := r.Verify(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			info, err := r.Lookup("w")
			if err != nil {
				t.Fatal(err)
			}
			bits := float64(info.Stored) * 8 / float64(tc.rows*tc.cols)
			t.Logf("%s, %.3f bits", info.Method, bits)
			if info.Method != "rank" || bits > tc.most {
				t.Errorf("stored as %s with %.3f bits for each element, want rank and %.1f at most", info.Method, bits, tc.most)
			}
			part := make([]byte, 1000)
			at, err := r.TensorReader("w")
			if err != nil {
				t.Fatal(err)
			}
			for _, off := range []int64{0, 77, info.Size / 2, info.Size - 1000} {
				if _, err := at.ReadAt(part, off); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(part, next[info.Offset+off:][:1000]) {
					t.Errorf("1000 bytes at %d differ", off)
				}
			}
		})
	}
}

// Elements that are no numbers, and sums that are none, stay as they are; others
// are rounded to the nearest even.
func TestAddElement(t *testing.T) {
	for _, tc := range []struct {
		width      int
		bits, want uint32
		x          float32
	}{
		{4, 0x3f800000, 0x40000000, 1},
		{4, 0x7f800000, 0x7f800000, 1},
		{4, 0xffc00001, 0xffc00001, 1},
		{4, 0x7f7fffff, 0x7f7fffff, math.MaxFloat32},
		{4, 0x3f800000, 0x3f800000, float32(math.NaN())},
		{4, 0x3f800000, 0x3f800000, float32(math.Inf(-1))},
		{4, 0x00000001, 0x00000002, math.SmallestNonzeroFloat32},
		{2, 0x3f80, 0x3f80, 0x1p-8}, // a tie, to even
		{2, 0x3f81, 0x3f82, 0x1p-8},
		{2, 0x3f80, 0x3f81, 0x1.8p-8},
		{2, 0x7f7f, 0x7f7f, math.MaxFloat32},
		{2, 0x7f7f, 0x7f7f, 0x1p119}, // rounds to infinity
		{2, 0x7f80, 0x7f80, 1},
		{2, 0xffff, 0xffff, 1},
	} {
		b := binary.LittleEndian.AppendUint32(nil, tc.bits)[:tc.width]
		addElement(b, tc.width, tc.x)
		if got := binary.LittleEndian.Uint32(append(b, 0, 0, 0, 0)[:4]); tc.width == 4 && got != tc.want || tc.width == 2 && got&0xffff != tc.want {
			t.Errorf("%x + %g gives %x, want %x", tc.bits, tc.x, got, tc.want)
		}
	}
}

// Every flipped bit and every cut of a stream with a product is found.
func TestProductsDamaged(t *testing.T) {
	base := openOne(t, packOne(t, adapted(t, tensor.BF16, 64, 64, 0, 0), Options{}), nil)
	packed := packOne(t, adapted(t, tensor.BF16, 64, 64, 1, 0), Options{Base: base})
	if i, err := openOne(t, packed, base).Lookup("w"); err != nil || i.Method != "rank" {
		t.Fatalf("stored as %q (%v)", i.Method, err)
	}
	for bit := range 8 * len(packed) {
		b := bytes.Clone(packed)
		b[bit/8] ^= 1 << (bit % 8)
		if err := check(b, base); err == nil || !refused(err) {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
	for n := range packed {
		if err := check(packed[:n], base); err == nil || !refused(err) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

// Products that do not fit what they are added to are refused before anything is
// allocated for them.
func TestHostileProducts(t *testing.T) {
	good := &product{rank: 2, cols: 10, bytes: 3, a: make([]float32, 40), b: make([]float32, 20)}
	stored := good.append(nil)
	if _, rest, err := parseProduct(stored, 200); err != nil || len(rest) != 0 {
		t.Fatalf("%d bytes left, %v", len(rest), err)
	}
	for name, tc := range map[string]struct {
		b        []byte
		elements int64
	}{
		"cut":              {stored[:len(stored)-1], 200},
		"nothing":          {nil, 200},
		"columns alone":    {stored[:1], 200},
		"other elements":   {stored, 201},
		"more rows":        {stored, 10 << 40},
		"no columns":       {append([]byte{0}, stored[1:]...), 200},
		"no rank":          {append([]byte{10, 0}, stored[2:]...), 200},
		"a large rank":     {append([]byte{10, topRank + 1}, stored[2:]...), 200},
		"bytes of nothing": {append([]byte{10, 2, 1}, stored[3:]...), 200},
		"too many bytes":   {append([]byte{10, 2, 5}, stored[3:]...), 200},
	} {
		if _, _, err := parseProduct(tc.b, tc.elements); !refused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The search gives the same numbers on every machine; the digest is of those that
// amd64 gives.
func TestDeterminismOfProducts(t *testing.T) {
	base := openOne(t, packOne(t, adapted(t, tensor.F32, 80, 96, 0, 0), Options{}), nil)
	next := adapted(t, tensor.F32, 80, 96, 3, 1e-5)
	info, err := base.Lookup("w")
	if err != nil {
		t.Fatal(err)
	}
	w := &Writer{opts: Options{Base: base}}
	p, err := w.findProduct(&segment{dtype: tensor.F32, shape: tensor.Shape{80, 96}},
		source{mem: next[info.Offset:], size: info.Size}, int(base.tensorStream(0)))
	if err != nil {
		t.Fatal(err)
	}
	const want = "b2a0c50d507cf8d954b5dc63683baec0d6a2fa2ad91fff7603a3d5cbf1b0ab18"
	if got := Digest(sha256.Sum256(p.append(nil))).String(); p.rank != 3 || got != want {
		t.Errorf("rank %d with digest %s, want 3 and %s", p.rank, got, want)
	}
}
