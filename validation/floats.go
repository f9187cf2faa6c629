package validation

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/x448/float16"

	"github.com/hfcompress/compress/tensor"
)

// blockElements bounds the float64 scratch of a comparison.
const blockElements = 1024

// hasValues reports whether values of d can be read as float64.
func hasValues(d tensor.DType) bool {
	switch d {
	case tensor.F16, tensor.BF16, tensor.F32, tensor.F64:
		return true
	}
	return false
}

// readFloats converts len(dst) elements of t from element from on. The
// conversion is exact for every supported type.
func readFloats(dst []float64, t *tensor.Tensor, from int) {
	b := t.Bytes()[from*t.DType().Size():]
	switch t.DType() {
	case tensor.F32:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		}
	case tensor.BF16:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16))
		}
	case tensor.F16:
		for i := range dst {
			// The library quiets signalling NaNs on the way, which values may; bits are
			// compared on the stored bytes.
			dst[i] = float64(float16.Frombits(binary.LittleEndian.Uint16(b[2*i:])).Float32())
		}
	case tensor.F64:
		for i := range dst {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
}

// wordText writes element i for people: its value and its bits.
func wordText(t *tensor.Tensor, i int) string {
	size := t.DType().Size()
	if size == 0 {
		return "?"
	}
	b := t.Bytes()[i*size : (i+1)*size]
	var bits uint64
	for k := size - 1; k >= 0; k-- {
		bits = bits<<8 | uint64(b[k])
	}
	var value string
	switch d := t.DType(); {
	case hasValues(d):
		var v [1]float64
		readFloats(v[:], t, i)
		value = fmt.Sprintf("%.9g", v[0])
		if d == tensor.F64 {
			value = fmt.Sprintf("%.17g", v[0])
		}
	case d == tensor.I8 || d == tensor.I16 || d == tensor.I32 || d == tensor.I64:
		shift := uint(64 - 8*size)
		value = fmt.Sprint(int64(bits<<shift) >> shift)
	case d.IsFloat():
		return fmt.Sprintf("0x%0*x", 2*size, bits)
	default:
		value = fmt.Sprint(bits)
	}
	return fmt.Sprintf("%s (0x%0*x)", value, 2*size, bits)
}
