package floatcodec

import (
	"fmt"

	"github.com/hfcompress/compress/tensor"
)

// layout says how one element of width bytes falls into streams.
//
// An element with a sign s, exp exponent bits and a mantissa is reordered as
//
//	exponent | top mantissa bits | s | low mantissa bits
//
// The first sym bits are the symbol; below it lie a field of fewer than eight
// bits and whole byte planes. Integers (exp 0) have no sign to move: the symbol
// is the top byte, the rest are planes.
type layout struct {
	width int // bytes per element: 1, 2, 4 or 8
	exp   int // exponent bits; 0 for elements without float structure
	sym   int // bits in the symbol
}

// bf16Layout is the preferred layout of BF16, which has code of its own.
var bf16Layout = layout{2, 8, 9}

// low returns the bits below the symbol.
func (l layout) low() int { return 8*l.width - l.sym }

// planes returns the number of whole byte planes below the symbol.
func (l layout) planes() int { return l.low() / 8 }

// field returns the width in bits of the partial byte between the symbol and
// the planes; 0 if there is none.
func (l layout) field() int { return l.low() % 8 }

// lowStreams returns how many streams follow the symbols: the field, if any,
// then the planes from the highest to the lowest.
func (l layout) lowStreams() int {
	n := l.planes()
	if l.field() > 0 {
		n++
	}
	return n
}

// stride is the distance in symbols between two neighbouring exponents with
// the same mantissa bits.
func (l layout) stride() int {
	if l.exp == 0 {
		return 1
	}
	return 1 << (l.sym - l.exp)
}

// valid reports whether the codec knows l: the format admits these alone, so
// that each has been tested.
func (l layout) valid() error {
	for _, k := range knownLayouts {
		if l == k {
			return nil
		}
	}
	return fmt.Errorf("%w: unknown layout: %d bytes, %d exponent bits, %d symbol bits", ErrCorrupt, l.width, l.exp, l.sym)
}

var knownLayouts = []layout{
	{1, 0, 8}, {2, 0, 8}, {4, 0, 8}, {8, 0, 8}, // integers, and wide floats by bytes
	{1, 4, 5}, {1, 5, 6}, // F8_E4M3, F8_E5M2
	{2, 5, 6},            // F16
	{2, 8, 9}, {2, 8, 8}, // BF16
	{4, 8, 9}, {4, 8, 8}, // F32
	{8, 11, 12}, // F64
}

// layoutsFor returns the layouts to consider for elements of type d, the
// preferred one first.
func layoutsFor(d tensor.DType) []layout {
	switch d {
	case tensor.BF16:
		return []layout{{2, 8, 9}, {2, 8, 8}}
	case tensor.F16:
		return []layout{{2, 5, 6}}
	case tensor.F32, tensor.C64: // a complex number is two floats in a row
		return []layout{{4, 8, 9}, {4, 8, 8}}
	case tensor.F64:
		return []layout{{8, 11, 12}, {8, 0, 8}}
	case tensor.F8E4M3, tensor.F8E4M3FNUZ:
		return []layout{{1, 4, 5}, {1, 0, 8}}
	case tensor.F8E5M2, tensor.F8E5M2FNUZ:
		return []layout{{1, 5, 6}, {1, 0, 8}}
	case tensor.I16, tensor.U16:
		return []layout{{2, 0, 8}}
	case tensor.I32, tensor.U32:
		return []layout{{4, 0, 8}}
	case tensor.I64, tensor.U64:
		return []layout{{8, 0, 8}}
	default:
		return []layout{{1, 0, 8}}
	}
}
