package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz/lzma"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// anatomy is where the fields of a float lie. Mantissa bits are counted from the
// lowest.
type anatomy struct{ width, expBits, mantBits int }

// anatomyOf returns false for types without a sign, exponent and mantissa of
// their own.
func anatomyOf(d tensor.DType) (anatomy, bool) {
	switch d {
	case tensor.F8E4M3, tensor.F8E4M3FNUZ:
		return anatomy{1, 4, 3}, true
	case tensor.F8E5M2, tensor.F8E5M2FNUZ:
		return anatomy{1, 5, 2}, true
	case tensor.F16:
		return anatomy{2, 5, 10}, true
	case tensor.BF16:
		return anatomy{2, 8, 7}, true
	case tensor.F32:
		return anatomy{4, 8, 23}, true
	case tensor.F64:
		return anatomy{8, 11, 52}, true
	}
	return anatomy{}, false
}

// fields are the elements of a tensor taken apart.
type fields struct {
	anatomy
	sign []byte // packed, the first element in the highest bit
	exp  []uint16
	mant []uint64
}

func takeApart(a anatomy, raw []byte) *fields {
	n := len(raw) / a.width
	f := &fields{anatomy: a, exp: make([]uint16, n), mant: make([]uint64, n)}
	signs := make([]byte, n)
	for i := range n {
		v := element(raw[i*a.width:], a.width)
		signs[i] = byte(v >> (8*a.width - 1))
		f.exp[i] = uint16(v >> a.mantBits & (1<<a.expBits - 1))
		f.mant[i] = v & (1<<a.mantBits - 1)
	}
	f.sign = packBits(signs)
	return f
}

func element(b []byte, width int) uint64 {
	switch width {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// packBits puts eight values of 0 or 1 in a byte.
func packBits(bits []byte) []byte {
	out := make([]byte, (len(bits)+7)/8)
	for i, b := range bits {
		out[i/8] |= b << (7 - i%8)
	}
	return out
}

func (f *fields) plane(k int) []byte {
	bits := make([]byte, len(f.mant))
	for i, m := range f.mant {
		bits[i] = byte(m >> k & 1)
	}
	return packBits(bits)
}

// debiased writes exponents relative to the most frequent one, two bytes each.
func (f *fields) debiased() []byte {
	var counts [1 << 11]int
	most := uint16(0)
	for _, e := range f.exp {
		counts[e]++
	}
	for e := range counts {
		if counts[e] > counts[most] {
			most = uint16(e)
		}
	}
	out := make([]byte, 0, 2*len(f.exp))
	for _, e := range f.exp {
		out = binary.LittleEndian.AppendUint16(out, e-most)
	}
	return out
}

// mantissas writes mantissas as whole words of the fewest bytes, a power of two.
func (f *fields) mantissas(m []uint64) []byte {
	width := 1
	for 8*width < f.mantBits {
		width *= 2
	}
	out := make([]byte, 0, width*len(m))
	for _, v := range m {
		for k := range width {
			out = append(out, byte(v>>(8*k)))
		}
	}
	return out
}

// grouped returns the mantissas in the order of their exponents, and how many
// there are of each.
func (f *fields) grouped() (m []uint64, counts []byte) {
	next := make([]int, 1<<f.expBits+1)
	for _, e := range f.exp {
		next[e+1]++
	}
	for e := range 1 << f.expBits {
		counts = binary.LittleEndian.AppendUint32(counts, uint32(next[e+1]))
		next[e+1] += next[e]
	}
	m = make([]uint64, len(f.mant))
	for i, e := range f.exp {
		m[next[e]] = f.mant[i]
		next[e]++
	}
	return m, counts
}

// parts are the stored bytes of a method: of fields where it keeps them apart.
type parts struct{ Sign, Exponent, Mantissa, Whole int64 }

func (p parts) total() int64 { return p.Sign + p.Exponent + p.Mantissa + p.Whole }

// method is one way to store a tensor. decode may be nil.
type method struct {
	name   string
	ours   bool
	floats bool // needs fields
	encode func(d tensor.DType, shape tensor.Shape, raw []byte) (parts, []byte, error)
	decode func(enc []byte, size int) error
}

// methodsToCompare are general compressors on the whole buffer, the three ways to
// give fields to LZMA, and the levels of the float codec.
func methodsToCompare() []method {
	whole := func(name string, pack func([]byte) ([]byte, error)) method {
		return method{name: name, encode: func(_ tensor.DType, _ tensor.Shape, raw []byte) (parts, []byte, error) {
			b, err := pack(raw)
			return parts{Whole: int64(len(b))}, b, err
		}}
	}
	byField := func(name string, mantissa func(f *fields) ([][]byte, error)) method {
		return method{name: name, floats: true, encode: func(d tensor.DType, _ tensor.Shape, raw []byte) (parts, []byte, error) {
			a, _ := anatomyOf(d)
			f := takeApart(a, raw)
			var p parts
			streams, err := mantissa(f)
			if err != nil {
				return p, nil, err
			}
			for i, s := range append([][]byte{f.sign, f.debiased()}, streams...) {
				b, err := packLZMA(s)
				if err != nil {
					return p, nil, err
				}
				switch i {
				case 0:
					p.Sign += int64(len(b))
				case 1:
					p.Exponent += int64(len(b))
				default:
					p.Mantissa += int64(len(b))
				}
			}
			return p, nil, nil
		}}
	}
	list := []method{
		whole("gzip -9", packGzip),
		whole("zstd -3", packZstd(zstd.SpeedDefault)),
		whole("zstd best", packZstd(zstd.SpeedBestCompression)),
		whole("LZMA", packLZMA),
		byField("plain", func(f *fields) ([][]byte, error) { return [][]byte{f.mantissas(f.mant)}, nil }),
		byField("bitplane", func(f *fields) ([][]byte, error) {
			var out [][]byte
			for k := range f.mantBits {
				out = append(out, f.plane(k))
			}
			return out, nil
		}),
		byField("group_by_exp", func(f *fields) ([][]byte, error) {
			m, counts := f.grouped()
			return [][]byte{f.mantissas(m), counts}, nil
		}),
	}
	for level := floatcodec.Fast; level <= floatcodec.Max; level++ {
		list = append(list, method{name: level.String(), ours: true,
			encode: func(d tensor.DType, shape tensor.Shape, raw []byte) (parts, []byte, error) {
				b, err := floatcodec.Encode(nil, d, shape, raw, floatcodec.Options{Level: level})
				return parts{Whole: int64(len(b))}, b, err
			},
			decode: func(enc []byte, size int) error {
				out, err := floatcodec.Decode(nil, enc, floatcodec.Limits{MaxSize: max(int64(size), 1)})
				if err == nil && len(out) != size {
					err = fmt.Errorf("%d bytes came back as %d", size, len(out))
				}
				return err
			}})
	}
	return list
}

func packGzip(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	return finish(&b, w, raw)
}

func packZstd(level zstd.EncoderLevel) func([]byte) ([]byte, error) {
	return func(raw []byte) ([]byte, error) {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer e.Close()
		return e.EncodeAll(raw, nil), nil
	}
}

func packLZMA(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	// That of the usual preset, 6. A smaller one would be faster on small tensors,
	// but this writer also finds less with it.
	w, err := lzma.WriterConfig{DictCap: 8 << 20, SizeInHeader: true, Size: int64(len(raw))}.NewWriter(&b)
	if err != nil {
		return nil, err
	}
	return finish(&b, w, raw)
}

func finish(b *bytes.Buffer, w io.WriteCloser, raw []byte) ([]byte, error) {
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// measured is what a method did with some bytes.
type measured struct {
	parts          parts
	encode, decode time.Duration
}

func (m *method) measure(d tensor.DType, shape tensor.Shape, raw []byte) (measured, error) {
	var out measured
	start := time.Now()
	p, enc, err := m.encode(d, shape, raw)
	out.parts, out.encode = p, time.Since(start)
	if err != nil || m.decode == nil {
		return out, err
	}
	start = time.Now()
	err = m.decode(enc, len(raw))
	out.decode = time.Since(start)
	return out, err
}
