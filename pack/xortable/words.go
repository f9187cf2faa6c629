package xortable

import (
	"encoding/binary"
	"fmt"

	"github.com/hfcompress/compress/tensor"
)

// wordBits returns the width of an element that can be coded: a real float of
// two, four or eight bytes.
func wordBits(d tensor.DType) (uint, error) {
	switch d {
	case tensor.F16, tensor.BF16:
		return 16, nil
	case tensor.F32:
		return 32, nil
	case tensor.F64:
		return 64, nil
	}
	return 0, fmt.Errorf("%w: XOR tables hold F16, BF16, F32 or F64, not %v", tensor.ErrDType, d)
}

// loadWord reads element i of elements that are bits wide.
func loadWord(b []byte, i int, bits uint) uint64 {
	switch bits {
	case 8:
		return uint64(b[i])
	case 16:
		return uint64(binary.LittleEndian.Uint16(b[2*i:]))
	case 32:
		return uint64(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return binary.LittleEndian.Uint64(b[8*i:])
}

// storeWord writes the low bits of v as element i.
func storeWord(b []byte, i int, bits uint, v uint64) {
	switch bits {
	case 8:
		b[i] = byte(v)
	case 16:
		binary.LittleEndian.PutUint16(b[2*i:], uint16(v))
	case 32:
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	default:
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
}

// xorWord flips the bits of v in element i.
func xorWord(b []byte, i int, bits uint, v uint64) {
	switch bits {
	case 16:
		p := b[2*i:]
		binary.LittleEndian.PutUint16(p, binary.LittleEndian.Uint16(p)^uint16(v))
	case 32:
		p := b[4*i:]
		binary.LittleEndian.PutUint32(p, binary.LittleEndian.Uint32(p)^uint32(v))
	default:
		p := b[8*i:]
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^v)
	}
}

// lowMask has the n lowest bits set, n ≤ 64.
func lowMask(n uint) uint64 {
	if n >= 64 {
		return ^uint64(0)
	}
	return 1<<n - 1
}
