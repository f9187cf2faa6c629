package fmath

import "math"

// The two 16-bit formats are computed with as float32 values that the format
// has. Widening is exact for every bit pattern, payloads of NaNs included, and
// narrowing gives the pattern back.

// BF16 returns the value of a bfloat16 pattern.
func BF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// F16 returns the value of an IEEE 754 binary16 pattern.
func F16(b uint16) float32 {
	sign, exp, frac := uint32(b&0x8000)<<16, uint32(b>>10&0x1f), uint32(b&0x3ff)
	switch exp {
	case 0: // zero or subnormal: a multiple of 2^−24, exact in float32
		return math.Float32frombits(math.Float32bits(float32(frac)*0x1p-24) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// RoundBF16 returns the bfloat16 value nearest to x, ties to even. A NaN keeps
// its upper bits, and is quiet.
func RoundBF16(x float32) float32 {
	b := math.Float32bits(x)
	if x != x {
		if b&0xffff == 0 {
			return x
		}
		return math.Float32frombits(b&^0xffff | 0x400000)
	}
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// RoundF16 returns the binary16 value nearest to x, ties to even; what is too
// large becomes infinite. A NaN keeps its upper bits, and is quiet.
func RoundF16(x float32) float32 {
	b := math.Float32bits(x)
	switch a := b & 0x7fffffff; {
	case a > 0x7f800000:
		if b&0x1fff == 0 {
			return x
		}
		return math.Float32frombits(b&^0x1fff | 0x400000)
	case a >= 0x477ff000: // from 65520 on, half way to what would follow the largest
		return math.Float32frombits(b&0x80000000 | 0x7f800000)
	case a < 0x38800000: // below 2^−14: multiples of 2^−24, which is the unit in the last place near ¾
		r := (math.Float32frombits(a) + 0.75) - 0.75
		return math.Float32frombits(math.Float32bits(r) | b&0x80000000)
	}
	return math.Float32frombits((b + 0xfff + b>>13&1) &^ 0x1fff)
}

// BF16Bits returns the pattern of a value that bfloat16 has.
func BF16Bits(x float32) uint16 { return uint16(math.Float32bits(x) >> 16) }

// F16Bits returns the pattern of a value that binary16 has.
func F16Bits(x float32) uint16 {
	b := math.Float32bits(x)
	sign, a := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case a >= 0x7f800000:
		return sign | 0x7c00 | uint16(a>>13&0x3ff)
	case a < 0x38800000:
		return sign | uint16(math.Float32frombits(a)*0x1p24)
	}
	return sign | uint16(a>>13-112<<10)
}

// RoundBF16s replaces each x by [RoundBF16] of it.
func RoundBF16s(x []float32) {
	for i := roundBF16s(x); i < len(x); i++ {
		x[i] = RoundBF16(x[i])
	}
}

// RoundF16s replaces each x by [RoundF16] of it.
func RoundF16s(x []float32) {
	for i := roundF16s(x); i < len(x); i++ {
		x[i] = RoundF16(x[i])
	}
}

// WidenBF16 sets dst to the values of as many patterns.
func WidenBF16(dst []float32, src []uint16) {
	src = src[:len(dst)]
	done := widenBF16(dst, src)
	for i, b := range src[done:] {
		dst[done+i] = BF16(b)
	}
}

// WidenF16 sets dst to the values of as many patterns.
func WidenF16(dst []float32, src []uint16) {
	src = src[:len(dst)]
	done := widenF16(dst, src)
	for i, b := range src[done:] {
		dst[done+i] = F16(b)
	}
}
