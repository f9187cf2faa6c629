package floatcodec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

// gaussian returns n elements of type d drawn from a normal distribution whose
// scale changes from row to row, as weights do.
func gaussian(d tensor.DType, n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	w := d.Size()
	out := make([]byte, n*w)
	scale := 0.02
	for i := range n {
		if i%512 == 0 {
			scale = 0.02 * math.Exp2(r.NormFloat64())
		}
		v := r.NormFloat64() * scale
		var x uint64
		switch d {
		case tensor.F64:
			x = math.Float64bits(v)
		case tensor.F32:
			x = uint64(math.Float32bits(float32(v)))
		case tensor.BF16:
			x = uint64(math.Float32bits(float32(v)) >> 16)
		case tensor.F16:
			x = smallFloat(v, 5, 10)
		case tensor.F8E4M3:
			x = smallFloat(v*64, 4, 3)
		case tensor.F8E5M2:
			x = smallFloat(v*64, 5, 2)
		default:
			x = uint64(int64(v * 1000))
		}
		storeElement(out[i*w:], w, x)
	}
	return out
}

// smallFloat truncates v to a float of the given format; values out of range
// become the nearest end.
func smallFloat(v float64, exp, mant int) uint64 {
	b := math.Float64bits(v)
	e := int(b>>52&0x7ff) - 1023 + 1<<(exp-1) - 1
	m := b >> (52 - mant) & (1<<mant - 1)
	if e <= 0 {
		e, m = 0, 0
	}
	e = min(e, 1<<exp-2)
	return b>>63<<(exp+mant) | uint64(e)<<mant | m
}

func randomBytes(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

var testTypes = []tensor.DType{
	tensor.BF16, tensor.F16, tensor.F32, tensor.F64, tensor.F8E4M3, tensor.F8E5M2,
	tensor.I8, tensor.I16, tensor.I32, tensor.I64, tensor.Bool, tensor.F4, tensor.C64, tensor.F8E8M0,
}

func roundTrip(t *testing.T, d tensor.DType, shape tensor.Shape, raw []byte, opts Options) []byte {
	t.Helper()
	before := bytes.Clone(raw)
	prefix := []byte("prefix")
	enc, err := Encode(prefix, d, shape, raw, opts)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(raw, before) {
		t.Fatal("Encode changed its input")
	}
	if !bytes.HasPrefix(enc, prefix) {
		t.Fatal("Encode lost dst")
	}
	enc = enc[len(prefix):]
	dec, err := Decode([]byte("x"), enc, Limits{})
	if err != nil {
		t.Fatalf("%v %v, %d bytes: %v", d, opts.Level, len(raw), err)
	}
	if !bytes.Equal(dec[1:], raw) {
		for i := range raw {
			if dec[1+i] != raw[i] {
				t.Fatalf("%v %v, %d bytes: byte %d is %02x, want %02x", d, opts.Level, len(raw), i, dec[1+i], raw[i])
			}
		}
	}
	if limit := len(raw) + 9*(len(raw)/ChunkElements+1) + 32; len(enc) > limit {
		t.Errorf("%v %v: %d bytes became %d", d, opts.Level, len(raw), len(enc))
	}
	return enc
}

func TestRoundTrip(t *testing.T) {
	for _, d := range testTypes {
		for _, level := range []Level{Fast, Dense, Max} {
			t.Run(fmt.Sprintf("%v/%v", d, level), func(t *testing.T) {
				w := max(d.Size(), 1)
				for _, n := range []int{0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1000, 1024, 1025, 5000, ChunkElements - 1, ChunkElements, ChunkElements + 1, 3*ChunkElements + 77} {
					for extra := range min(w, 2) {
						raw := append(gaussianOr(d, n, uint64(n)), randomBytes(extra*(w-1), 5)...)
						roundTrip(t, d, nil, raw, Options{Level: level})
						if n < 2000 {
							roundTrip(t, d, nil, randomBytes(n*w+extra, uint64(n)), Options{Level: level})
						}
					}
				}
			})
		}
	}
}

func TestRoundTripOfShapes(t *testing.T) {
	for d := tensor.Bool; d <= tensor.C64; d++ {
		for _, level := range []Level{Fast, Dense, Max} {
			for _, shape := range []tensor.Shape{{}, {0}, {0, 5}, {1, 8}, {40, 24}, {8, 1}, {2, 3, 8}, {5, 4, 3, 2}, {200, 336}} {
				n, err := shape.Elements()
				if err != nil {
					t.Fatal(err)
				}
				raw := randomBytes(int(n)*d.Bits()/8, uint64(n))
				if d == tensor.C64 && len(shape) == 2 { // floats of scales by row and column
					raw = gaussian(tensor.F32, 2*int(n), 3)
				}
				roundTrip(t, d, shape, raw, Options{Level: level})
			}
		}
	}
}

func gaussianOr(d tensor.DType, n int, seed uint64) []byte {
	if d.Size() == 0 {
		return randomBytes(n, seed)
	}
	return gaussian(d, n, seed)
}

func TestSpecialValues(t *testing.T) {
	// every 16-bit pattern, in order and scattered
	all := make([]byte, 1<<17)
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(all[2*i:], uint16(i))
	}
	scattered := make([]byte, 1<<17)
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(scattered[2*i:], uint16(i*40503))
	}
	zeros := make([]byte, 4*ChunkElements)
	sparse := gaussian(tensor.F32, ChunkElements, 1)
	for i := range ChunkElements {
		if i%10 != 0 {
			clear(sparse[4*i : 4*i+4])
		}
	}
	outliers := gaussian(tensor.BF16, ChunkElements, 2)
	for i := 0; i < ChunkElements; i += 1000 {
		binary.LittleEndian.PutUint16(outliers[2*i:], 0x7f80+uint16(i/1000)) // infinity, NaNs
	}
	outliers = append(outliers, outliers...)
	for _, level := range []Level{Fast, Dense, Max} {
		for _, d := range testTypes {
			for _, raw := range [][]byte{all, scattered, zeros, sparse, outliers} {
				roundTrip(t, d, nil, raw, Options{Level: level})
			}
		}
	}
}

func TestSize(t *testing.T) {
	for _, d := range testTypes[:10] {
		raw := gaussian(d, 16*ChunkElements, 3)
		for _, level := range []Level{Fast, Dense, Max} {
			enc := roundTrip(t, d, nil, raw, Options{Level: level})
			t.Logf("%v %v: %.3f bits per element", d, level, float64(len(enc))*8/float64(len(raw)/d.Size()))
		}
	}
}

func benchmark(b *testing.B, d tensor.DType, level Level) {
	raw := gaussian(d, 64*ChunkElements, 3)
	enc, err := Encode(nil, d, nil, raw, Options{Level: level})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		dst := make([]byte, 0, len(raw)+1000)
		for b.Loop() {
			Encode(dst, d, nil, raw, Options{Level: level})
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		dst := make([]byte, 0, len(raw))
		for b.Loop() {
			if _, err := Decode(dst, enc, Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func Benchmark(b *testing.B) {
	for _, d := range []tensor.DType{tensor.BF16, tensor.F16, tensor.F32, tensor.F8E4M3} {
		for level := Fast; level <= Max; level++ {
			b.Run(fmt.Sprintf("%v/%v", d, level), func(b *testing.B) { benchmark(b, d, level) })
		}
	}
}

// lowRank returns a BF16 matrix whose rows and columns differ in scale.
func lowRank(rows, cols int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 3))
	scales := make([]float64, cols)
	for i := range scales {
		scales[i] = math.Exp2(1.5 * r.NormFloat64())
	}
	out := make([]byte, 2*rows*cols)
	for i := range rows {
		row := 0.02 * math.Exp2(r.NormFloat64())
		for j := range cols {
			v := float32(r.NormFloat64() * row * scales[j])
			binary.LittleEndian.PutUint16(out[2*(i*cols+j):], uint16(math.Float32bits(v)>>16))
		}
	}
	return out
}

func TestContexts(t *testing.T) {
	raw := lowRank(300, 700, 1)
	sizes := map[Level]int{}
	for _, level := range []Level{Fast, Dense, Max} {
		sizes[level] = len(roundTrip(t, tensor.BF16, tensor.Shape{300, 700}, raw, Options{Level: level}))
		t.Logf("%v: %.3f bits per element", level, float64(sizes[level])*8/300/700)
	}
	if sizes[Max] >= sizes[Dense]*98/100 {
		t.Errorf("tables by row and column gain too little: %v", sizes)
	}
	m, err := train(tensor.BF16, tensor.Shape{300, 700}, raw, Options{Level: Max})
	if err != nil {
		t.Fatal(err)
	}
	if m.syms == nil || m.syms.ctx == nil {
		t.Error("no tables by row and column")
	}
	roundTrip(t, tensor.BF16, tensor.Shape{300, 700, 1}, raw, Options{Level: Max})
	roundTrip(t, tensor.BF16, tensor.Shape{2, 150, 700}, raw, Options{Level: Max})
	roundTrip(t, tensor.BF16, tensor.Shape{300, 701}, raw, Options{Level: Max}) // not this shape
}

// TestRepeatedValues encodes a Fourier basis of one chunk and a bit, whose values
// repeat at distances that Huffman codes cannot use.
func TestRepeatedValues(t *testing.T) {
	const rows, cols = 258, 256
	raw := make([]byte, 2*rows*cols)
	for k := range rows {
		for n := range cols {
			v := float32(math.Cos(2 * math.Pi * float64(k*n%cols) / cols))
			binary.LittleEndian.PutUint16(raw[2*(k*cols+n):], uint16(math.Float32bits(v)>>16))
		}
	}
	for _, level := range []Level{Fast, Dense, Max} {
		if enc := roundTrip(t, tensor.BF16, tensor.Shape{rows, 1, cols}, raw, Options{Level: level}); len(enc) > len(raw)/3 {
			t.Errorf("%v: %d bytes became %d", level, len(raw), len(enc))
		}
	}
}

// TestSplit compares splitting by words with splitting one element at a time.
func TestSplit(t *testing.T) {
	for _, l := range knownLayouts {
		for _, base := range []int{0, 3, 300} {
			if l.sym <= 8 && base > 0 {
				continue
			}
			const n = 8*9 + 5
			raw := randomBytes(n*l.width, uint64(base))
			s := newSplitter(l, base)
			sym, low := new(scratch).streams(l, n)
			over := s.split(raw, n, sym, low)
			wantOver := false
			for i := range n {
				y, rest := s.element(raw[i*l.width:])
				at := s.streamIndex(i, n)
				if s.elementIndex(at, n) != i {
					t.Fatalf("%v: element %d is at %d, which is element %d", l, i, at, s.elementIndex(at, n))
				}
				wantOver = wantOver || y > 255
				if sym[at] != byte(y) || s.restAt(low, at) != rest {
					t.Fatalf("%v, base %d: element %d: symbol %x, rest %x; want %x, %x", l, base, i, sym[at], s.restAt(low, at), byte(y), rest)
				}
				back := make([]byte, l.width)
				s.join(back, y, rest)
				if !bytes.Equal(back, raw[i*l.width:(i+1)*l.width]) {
					t.Fatalf("%v, base %d: element %d joined to %x", l, base, i, back)
				}
			}
			if over != wantOver {
				t.Errorf("%v, base %d: over is %v", l, base, over)
			}
			merged := make([]byte, len(raw))
			s.merge(merged, n, sym, low)
			for i := range n {
				y, _ := s.element(raw[i*l.width:])
				if y <= 255 && !bytes.Equal(merged[i*l.width:(i+1)*l.width], raw[i*l.width:(i+1)*l.width]) {
					t.Fatalf("%v, base %d: element %d merged to other bits", l, base, i)
				}
			}
		}
	}
}
