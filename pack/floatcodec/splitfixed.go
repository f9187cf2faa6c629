package floatcodec

import "encoding/binary"

// The layouts that most weights have get code of their own: with constants in
// place of a layout's fields, the compiler keeps a group in registers. Each
// function handles the first groups*8 elements; see split and merge for what it
// does.

const (
	lanes16 = 0x0001000100010001
	lanes32 = 0x0000000100000001
)

var (
	f16Layout  = layout{2, 5, 6}
	f32Layout  = layout{4, 8, 9}
	e4m3Layout = layout{1, 4, 5}
	e5m2Layout = layout{1, 5, 6}
)

// splitGroups splits complete groups and returns how many; 0 for layouts
// without code of their own.
func (s *splitter) splitGroups(src []byte, groups int, sym []byte, low [][]byte) (done int, over bool) {
	switch s.layout {
	case f16Layout:
		splitF16(src, groups, sym, low[0], low[1])
	case f32Layout:
		over = splitF32(src, groups, sym, low[0], low[1], low[2], s.negBase)
	case e4m3Layout:
		splitF8(src, groups, sym, low[0], 2)
	case e5m2Layout:
		splitF8(src, groups, sym, low[0], 1)
	default:
		return 0, false
	}
	return groups, over
}

// mergeGroups is the inverse of splitGroups.
func (s *splitter) mergeGroups(dst []byte, groups int, sym []byte, low [][]byte) int {
	switch s.layout {
	case f16Layout:
		mergeF16(dst, groups, sym, low[0], low[1])
	case f32Layout:
		mergeF32(dst, groups, sym, low[0], low[1], low[2], s.swar.base)
	case e4m3Layout:
		mergeF8(dst, groups, sym, low[0], 2)
	case e5m2Layout:
		mergeF8(dst, groups, sym, low[0], 1)
	default:
		return 0
	}
	return groups
}

func splitF16(src []byte, groups int, sym, field, plane []byte) {
	src, sym, field, plane = src[:groups*16], sym[:groups*8], field[:groups*8], plane[:groups*8]
	for len(src) >= 16 && len(sym) >= 8 && len(field) >= 8 && len(plane) >= 8 {
		a, b := binary.LittleEndian.Uint64(src), binary.LittleEndian.Uint64(src[8:])
		y := a>>9&(lanes16*0x3f) | b>>9&(lanes16*0x3f)<<8
		f := a>>8&lanes16 | a>>14&(lanes16*2) | (b>>8&lanes16|b>>14&(lanes16*2))<<8
		p := a&(lanes16*0xff) | b&(lanes16*0xff)<<8
		binary.LittleEndian.PutUint64(sym, y)
		binary.LittleEndian.PutUint64(field, f)
		binary.LittleEndian.PutUint64(plane, p)
		src, sym, field, plane = src[16:], sym[8:], field[8:], plane[8:]
	}
}

func mergeF16(dst []byte, groups int, sym, field, plane []byte) {
	dst, sym, field, plane = dst[:groups*16], sym[:groups*8], field[:groups*8], plane[:groups*8]
	for len(dst) >= 16 && len(sym) >= 8 && len(field) >= 8 && len(plane) >= 8 {
		y, f, p := binary.LittleEndian.Uint64(sym), binary.LittleEndian.Uint64(field), binary.LittleEndian.Uint64(plane)
		a := y&(lanes16*0x3f)<<9 | f&lanes16<<8 | f&(lanes16*2)<<14 | p&(lanes16*0xff)
		y, f, p = y>>8, f>>8, p>>8
		b := y&(lanes16*0x3f)<<9 | f&lanes16<<8 | f&(lanes16*2)<<14 | p&(lanes16*0xff)
		binary.LittleEndian.PutUint64(dst, a)
		binary.LittleEndian.PutUint64(dst[8:], b)
		dst, sym, field, plane = dst[16:], sym[8:], field[8:], plane[8:]
	}
}

func splitF32(src []byte, groups int, sym, field, high, lowest []byte, neg uint64) bool {
	const m = lanes32 * 0xff
	var over uint64
	src, sym, field = src[:groups*32], sym[:groups*8], field[:groups*8]
	high, lowest = high[:groups*8], lowest[:groups*8]
	for len(src) >= 32 && len(sym) >= 8 && len(field) >= 8 && len(high) >= 8 && len(lowest) >= 8 {
		var y, f, h, l uint64
		for k := range 4 {
			q := binary.LittleEndian.Uint64(src[8*k:])
			z := (q>>22&(lanes32*0x1ff) + neg) & (lanes32 * 0x1ff)
			over |= z
			sh := 8 * k & 63
			y |= z & m << sh
			f |= (q>>16&(lanes32*0x3f) | q>>25&(lanes32*0x40)) << sh
			h |= q >> 8 & m << sh
			l |= q & m << sh
		}
		binary.LittleEndian.PutUint64(sym, y)
		binary.LittleEndian.PutUint64(field, f)
		binary.LittleEndian.PutUint64(high, h)
		binary.LittleEndian.PutUint64(lowest, l)
		src, sym, field, high, lowest = src[32:], sym[8:], field[8:], high[8:], lowest[8:]
	}
	return over&(lanes32*0x100) != 0
}

func mergeF32(dst []byte, groups int, sym, field, high, lowest []byte, base uint64) {
	const m = lanes32 * 0xff
	dst, sym, field = dst[:groups*32], sym[:groups*8], field[:groups*8]
	high, lowest = high[:groups*8], lowest[:groups*8]
	for len(dst) >= 32 && len(sym) >= 8 && len(field) >= 8 && len(high) >= 8 && len(lowest) >= 8 {
		y, f := binary.LittleEndian.Uint64(sym), binary.LittleEndian.Uint64(field)
		h, l := binary.LittleEndian.Uint64(high), binary.LittleEndian.Uint64(lowest)
		for k := range 4 {
			x := (y&m+base)&(lanes32*0x1ff)<<22 | f&(lanes32*0x3f)<<16 | f&(lanes32*0x40)<<25 | h&m<<8 | l&m
			binary.LittleEndian.PutUint64(dst[8*k:], x)
			y, f, h, l = y>>8, f>>8, h>>8, l>>8
		}
		dst, sym, field, high, lowest = dst[32:], sym[8:], field[8:], high[8:], lowest[8:]
	}
}

// splitF8 splits floats of eight bits with rest mantissa bits below the symbol.
func splitF8(src []byte, groups int, sym, field []byte, rest int) {
	src, sym, field = src[:groups*8], sym[:groups*8], field[:groups*8]
	below := uint64(lanes8 * (1<<rest - 1))
	symMask := uint64(lanes8 * (0x7f >> rest))
	sign := uint64(lanes8 << rest)
	r := uint(rest) & 7
	for len(src) >= 8 && len(sym) >= 8 && len(field) >= 8 {
		q := binary.LittleEndian.Uint64(src)
		binary.LittleEndian.PutUint64(sym, q>>r&symMask)
		binary.LittleEndian.PutUint64(field, q&below|q>>(7-r)&sign)
		src, sym, field = src[8:], sym[8:], field[8:]
	}
}

func mergeF8(dst []byte, groups int, sym, field []byte, rest int) {
	dst, sym, field = dst[:groups*8], sym[:groups*8], field[:groups*8]
	below := uint64(lanes8 * (1<<rest - 1))
	symMask := uint64(lanes8 * (0x7f >> rest))
	r := uint(rest) & 7
	for len(dst) >= 8 && len(sym) >= 8 && len(field) >= 8 {
		y, f := binary.LittleEndian.Uint64(sym), binary.LittleEndian.Uint64(field)
		x := y&symMask<<r | f&below | f<<(7-r)&(lanes8*0x80)
		binary.LittleEndian.PutUint64(dst, x)
		dst, sym, field = dst[8:], sym[8:], field[8:]
	}
}

// mergeBlockBF16 merges a block of symbols with packed fields. Constant indices
// spare checks.
func mergeBlockBF16(dst *[2 * blockLen]byte, sym *[blockLen]byte, packed *[blockLen / 8 * 7]byte, base uint64) {
	for u := range blockLen / 64 {
		d, y, p := (*[128]byte)(dst[128*u:]), (*[64]byte)(sym[64*u:]), (*[56]byte)(packed[56*u:])
		w := binary.LittleEndian.Uint64(p[0:])
		last := w >> 7 & lanes8
		mergeGroupBF16((*[16]byte)(d[0:]), binary.LittleEndian.Uint64(y[0:]), w, base)
		w = binary.LittleEndian.Uint64(p[8:])
		last |= w >> 7 & lanes8 << 1
		mergeGroupBF16((*[16]byte)(d[16:]), binary.LittleEndian.Uint64(y[8:]), w, base)
		w = binary.LittleEndian.Uint64(p[16:])
		last |= w >> 7 & lanes8 << 2
		mergeGroupBF16((*[16]byte)(d[32:]), binary.LittleEndian.Uint64(y[16:]), w, base)
		w = binary.LittleEndian.Uint64(p[24:])
		last |= w >> 7 & lanes8 << 3
		mergeGroupBF16((*[16]byte)(d[48:]), binary.LittleEndian.Uint64(y[24:]), w, base)
		w = binary.LittleEndian.Uint64(p[32:])
		last |= w >> 7 & lanes8 << 4
		mergeGroupBF16((*[16]byte)(d[64:]), binary.LittleEndian.Uint64(y[32:]), w, base)
		w = binary.LittleEndian.Uint64(p[40:])
		last |= w >> 7 & lanes8 << 5
		mergeGroupBF16((*[16]byte)(d[80:]), binary.LittleEndian.Uint64(y[40:]), w, base)
		w = binary.LittleEndian.Uint64(p[48:])
		last |= w >> 7 & lanes8 << 6
		mergeGroupBF16((*[16]byte)(d[96:]), binary.LittleEndian.Uint64(y[48:]), w, base)
		mergeGroupBF16((*[16]byte)(d[112:]), binary.LittleEndian.Uint64(y[56:]), last, base)
	}
}

// mergeGroupBF16 merges eight elements; the top bits of the fields are ignored.
func mergeGroupBF16(dst *[16]byte, y, f, base uint64) {
	a := (y&(lanes16*0xff)+base)&(lanes16*0x1ff)<<6 | f&(lanes16*0x3f) | f<<9&(lanes16*0x8000)
	b := (y>>8&(lanes16*0xff)+base)&(lanes16*0x1ff)<<6 | f>>8&(lanes16*0x3f) | f<<1&(lanes16*0x8000)
	binary.LittleEndian.PutUint64(dst[:], a)
	binary.LittleEndian.PutUint64(dst[8:], b)
}
