package floatcodec

import "encoding/binary"

// Streams hold one byte per element. Complete groups of eight elements are
// stored in lane order: a 64-bit word holds 8/width elements, and byte k+width*i
// of a group belongs to element i of the group's word k. Splitting and merging
// then need shifts and masks alone, on all lanes of a word at once, with no
// shuffling of bytes. The elements after the last complete group keep their
// natural order.

// swar holds the constants with which a layout is split and merged: masks that
// repeat for every lane of a 64-bit word, and shifts.
type swar struct {
	ones     uint64 // the lowest bit of every lane
	symMask  uint64 // sym bits, at the bottom of each lane
	byteMask uint64 // eight bits, at the bottom of each lane
	overMask uint64 // the symbol's bits above the eighth
	restMask uint64 // the mantissa bits below the symbol
	signBit  uint64 // the lane's top bit; 0 when there is no sign to move
	symShift uint   // where the symbol starts in the element as stored
	signDown uint   // from the top bit to just below the symbol
	base     uint64 // the window's first symbol, in every lane
	negBase  uint64 // 2^sym - base, in every lane
	lanes    int
}

func newSwar(l layout, base int) swar {
	w := 8 * l.width
	var ones uint64
	for b := 0; b < 64; b += w {
		ones |= 1 << b
	}
	s := swar{ones: ones, lanes: 8 / l.width, symShift: uint(l.low())}
	s.symMask = ones * (1<<l.sym - 1)
	s.byteMask = ones * 0xff
	s.overMask = s.symMask &^ s.byteMask
	restBits := l.low()
	if l.exp > 0 {
		s.symShift-- // the sign lies above the exponent
		restBits--
		s.signBit = ones << (w - 1)
		s.signDown = uint(w - 1 - restBits)
	}
	s.restMask = ones * (1<<restBits - 1)
	s.base = ones * uint64(base)
	s.negBase = ones * ((1<<l.sym - uint64(base)) & (1<<l.sym - 1))
	return s
}

// splitter takes elements apart into streams and puts them together again.
type splitter struct {
	layout
	base int
	swar
}

func newSplitter(l layout, base int) *splitter { return &splitter{l, base, newSwar(l, base)} }

// split writes the symbols of n elements to sym and the bits below them to the
// streams of low (see layout.lowStreams), one byte per element. It reports
// whether some symbol falls outside the window; such elements have their symbol
// cut to eight bits and need an exception.
func (s *splitter) split(src []byte, n int, sym []byte, low [][]byte) (over bool) {
	if s.layout == bf16Layout {
		return s.splitBF16(src, n, sym, low[0])
	}
	groups := n / 8
	planes, hasField := s.planes(), s.field() > 0
	var overBits uint64
	gb := 8 * s.width
	var out [9]uint64 // the low streams' words, and the symbols' in the last
	done, over := s.splitGroups(src, groups, sym, low)
	for g := done; g < groups; g++ {
		in := src[g*gb : g*gb+gb]
		clear(out[:])
		for k := range s.width {
			q := binary.LittleEndian.Uint64(in[8*k:])
			sh := uint(8 * k)
			y := ((q >> s.symShift & s.symMask) + s.negBase) & s.symMask
			overBits |= y & s.overMask
			out[8] |= (y & s.byteMask) << sh
			rest := q&s.restMask | (q&s.signBit)>>s.signDown
			j := 0
			if hasField {
				out[0] |= (rest >> (8 * planes) & s.byteMask & fieldMask(s.field(), s.ones)) << sh
				j = 1
			}
			for p := planes - 1; p >= 0; p-- {
				out[j] |= (rest >> (8 * p) & s.byteMask) << sh
				j++
			}
		}
		binary.LittleEndian.PutUint64(sym[8*g:], out[8])
		for j := range low {
			binary.LittleEndian.PutUint64(low[j][8*g:], out[j])
		}
	}
	over = over || overBits != 0
	for i := groups * 8; i < n; i++ {
		y, rest := s.element(src[i*s.width:])
		if y > 255 {
			over = true
		}
		sym[i] = byte(y)
		j := 0
		if hasField {
			low[0][i] = byte(rest >> (8 * planes))
			j = 1
		}
		for p := planes - 1; p >= 0; p-- {
			low[j][i] = byte(rest >> (8 * p))
			j++
		}
	}
	return over
}

// packs reports whether there is a kernel for splitPacked.
func (s *splitter) packs() bool {
	switch s.layout {
	case bf16Layout:
		return haveFieldKernels
	case f16Layout, f32Layout, e4m3Layout:
		return haveWideKernels
	}
	return false
}

// packSlack is how much splitPacked writes beyond the packed fields.
const packSlack = 8

// splitPacked is split for 64*blocks elements, of which it packs the fields. planes
// are the other low streams.
func (s *splitter) splitPacked(src []byte, blocks int, sym, packed []byte, planes [][]byte) (over bool) {
	n := 64 * blocks
	_, _, _ = src[n*s.width-1], sym[n-1], packed[n/8*s.field()+packSlack-1]
	for _, p := range planes {
		_ = p[n-1]
	}
	switch s.layout {
	case bf16Layout:
		if !haveWideKernels {
			return splitFieldsBF16(&sym[0], &packed[0], &src[0], blocks, s.negBase) != 0
		}
		return splitWideBF16(&sym[0], &packed[0], &src[0], blocks, s.negBase) != 0
	case f16Layout:
		splitWideF16(&sym[0], &packed[0], &planes[0][0], &src[0], blocks)
	case f32Layout:
		return splitWideF32(&sym[0], &packed[0], &planes[0][0], &planes[1][0], &src[0], blocks, s.negBase) != 0
	case e4m3Layout:
		splitWideE4M3(&sym[0], &packed[0], &src[0], blocks)
	}
	return false
}

// symbols is split for at most blockLen elements of which only the symbols are
// of interest.
func (s *splitter) symbols(src []byte, n int, sym []byte) (over bool) {
	var low [8][]byte
	if n == blockLen && s.packs() {
		var waste [3][blockLen]byte
		for i := range s.planes() {
			low[i] = waste[i+1][:]
		}
		return s.splitPacked(src, blockLen/64, sym, waste[0][:], low[:s.planes()])
	}
	var waste [8][blockLen]byte
	for i := range s.lowStreams() {
		low[i] = waste[i][:n]
	}
	return s.split(src, n, sym, low[:s.lowStreams()])
}

func fieldMask(bits int, ones uint64) uint64 { return ones * (1<<bits - 1) }

// splitBF16 is split for nine symbol bits of BF16, where constants let the
// compiler keep everything in registers.
func (s *splitter) splitBF16(src []byte, n int, sym, field []byte) bool {
	const ones = 0x0001000100010001
	var over uint64
	neg := s.negBase
	groups := n / 8
	src0, sym0, field0 := src[:groups*16], sym[:groups*8], field[:groups*8]
	for len(src0) >= 16 && len(sym0) >= 8 && len(field0) >= 8 {
		a := binary.LittleEndian.Uint64(src0)
		b := binary.LittleEndian.Uint64(src0[8:])
		ya := (a>>6&(ones*0x1ff) + neg) & (ones * 0x1ff)
		yb := (b>>6&(ones*0x1ff) + neg) & (ones * 0x1ff)
		over |= ya | yb
		binary.LittleEndian.PutUint64(sym0, ya&(ones*0xff)|yb&(ones*0xff)<<8)
		fa := a&(ones*0x3f) | a>>9&(ones*0x40)
		fb := b&(ones*0x3f) | b>>9&(ones*0x40)
		binary.LittleEndian.PutUint64(field0, fa|fb<<8)
		src0, sym0, field0 = src0[16:], sym0[8:], field0[8:]
	}
	out := over&(ones*0x100) != 0
	for i := groups * 8; i < n; i++ {
		y, rest := s.element(src[i*2:])
		out = out || y > 255
		sym[i], field[i] = byte(y), byte(rest)
	}
	return out
}

// element returns the symbol of the first element of b, relative to the window,
// and the bits below it.
func (s *splitter) element(b []byte) (sym int, rest uint64) {
	x := loadElement(b, s.width)
	one := uint64(1)
	mask := one<<s.sym - 1
	y := (x>>s.symShift&mask + (one<<s.sym - uint64(s.base))) & mask
	w := 8 * s.width
	if s.exp == 0 {
		return int(y), x & (one<<s.low() - 1)
	}
	return int(y), x&(one<<s.symShift-1) | x>>(w-1)<<s.symShift
}

// over reports whether some symbol of a group of eight elements falls outside the
// window.
func (s *splitter) over(group []byte) bool {
	var bits uint64
	for len(group) >= 8 {
		bits |= (binary.LittleEndian.Uint64(group)>>s.symShift&s.symMask + s.negBase) & s.overMask
		group = group[8:]
	}
	return bits != 0
}

// join is the inverse of element: sym is relative to the window.
func (s *splitter) join(dst []byte, sym int, rest uint64) {
	one := uint64(1)
	y := (uint64(sym) + uint64(s.base)) & (one<<s.sym - 1)
	x := y<<s.symShift | rest
	if s.exp > 0 {
		sign := rest >> s.symShift & 1
		x = y<<s.symShift | rest&(one<<s.symShift-1) | sign<<(8*s.width-1)
	}
	storeElement(dst, s.width, x)
}

// merge is the inverse of split for n elements whose symbols all lie in the
// window.
func (s *splitter) merge(dst []byte, n int, sym []byte, low [][]byte) {
	if s.layout == bf16Layout {
		s.mergeBF16(dst, n, sym, low[0])
		return
	}
	groups := n / 8
	planes, hasField := s.planes(), s.field() > 0
	gb := 8 * s.width
	var in [8]uint64
	for g := s.mergeGroups(dst, groups, sym, low); g < groups; g++ {
		out := dst[g*gb : g*gb+gb]
		q := binary.LittleEndian.Uint64(sym[8*g:])
		for j := range low {
			in[j] = binary.LittleEndian.Uint64(low[j][8*g:])
		}
		for k := range s.width {
			sh := uint(8 * k)
			y := (q>>sh&s.byteMask + s.swar.base) & s.symMask
			var rest uint64
			j := 0
			if hasField {
				rest = (in[0] >> sh & s.byteMask) << (8 * planes)
				j = 1
			}
			for p := planes - 1; p >= 0; p-- {
				rest |= (in[j] >> sh & s.byteMask) << (8 * p)
				j++
			}
			x := y<<s.symShift | rest&s.restMask | rest<<s.signDown&s.signBit
			binary.LittleEndian.PutUint64(out[8*k:], x)
		}
	}
	for i := groups * 8; i < n; i++ {
		s.join(dst[i*s.width:], int(sym[i]), s.restAt(low, i))
	}
}

// restAt gathers the bits below the symbol of the element whose bytes lie at
// index i of the streams.
func (s *splitter) restAt(low [][]byte, i int) uint64 {
	var rest uint64
	for _, b := range low {
		rest = rest<<8 | uint64(b[i])
	}
	return rest
}

func (s *splitter) mergeBF16(dst []byte, n int, sym, field []byte) {
	const ones = 0x0001000100010001
	base := s.swar.base
	groups := n / 8
	dst0, sym0, field0 := dst[:groups*16], sym[:groups*8], field[:groups*8]
	for len(dst0) >= 16 && len(sym0) >= 8 && len(field0) >= 8 {
		y := binary.LittleEndian.Uint64(sym0)
		f := binary.LittleEndian.Uint64(field0)
		a := (y&(ones*0xff)+base)&(ones*0x1ff)<<6 | f&(ones*0x3f) | f&(ones*0x40)<<9
		y >>= 8
		f >>= 8
		b := (y&(ones*0xff)+base)&(ones*0x1ff)<<6 | f&(ones*0x3f) | f&(ones*0x40)<<9
		binary.LittleEndian.PutUint64(dst0, a)
		binary.LittleEndian.PutUint64(dst0[8:], b)
		dst0, sym0, field0 = dst0[16:], sym0[8:], field0[8:]
	}
	for i := groups * 8; i < n; i++ {
		s.join(dst[i*2:], int(sym[i]), uint64(field[i]))
	}
}

// streamIndex returns where the bytes of element i lie in the streams of n
// elements.
func (s *splitter) streamIndex(i, n int) int {
	if i >= n&^7 {
		return i
	}
	lanes := 8 / s.width
	e := i & 7
	return i&^7 + e/lanes + s.width*(e%lanes)
}

// elementIndex is the inverse of streamIndex.
func (s *splitter) elementIndex(i, n int) int {
	if i >= n&^7 {
		return i
	}
	lanes := 8 / s.width
	b := i & 7
	return i&^7 + lanes*(b%s.width) + b/s.width
}

func loadElement(b []byte, width int) uint64 {
	switch width {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	default:
		return binary.LittleEndian.Uint64(b)
	}
}

func storeElement(b []byte, width int, x uint64) {
	switch width {
	case 1:
		b[0] = byte(x)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(x))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(x))
	default:
		binary.LittleEndian.PutUint64(b, x)
	}
}
