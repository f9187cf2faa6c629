package fmath

// Exps replaces each x by [Exp] of it.
func Exps(x []float32) {
	done := exps(x)
	for i, v := range x[done:] {
		x[done+i] = Exp(v)
	}
}

// SiLUs sets dst to [SiLU] of each value of src, which has the same length and
// may be dst itself.
func SiLUs(dst, src []float32) {
	dst = dst[:len(src)]
	done := silus(dst, src)
	for i, v := range src[done:] {
		dst[done+i] = SiLU(v)
	}
}

// GELUs sets dst to [GELU] of each value of src, which has the same length and
// may be dst itself.
func GELUs(dst, src []float32) {
	dst = dst[:len(src)]
	done := gelus(dst, src)
	for i, v := range src[done:] {
		dst[done+i] = GELU(v)
	}
}

// GELUTanhs sets dst to [GELUTanh] of each value of src, which has the same
// length and may be dst itself.
func GELUTanhs(dst, src []float32) {
	dst = dst[:len(src)]
	done := geluTanhs(dst, src)
	for i, v := range src[done:] {
		dst[done+i] = GELUTanh(v)
	}
}
