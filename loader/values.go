package loader

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/hfcompress/compress/tensor"
)

// blockBytes is how much of a tensor is looked at at a time; a multiple of every
// element width.
const blockBytes = 1 << 20

// values checks what takes reading: ties bit by bit, and non-finite values.
// Tensors that already disagree in shape or type are left out.
func (s *strictRun) values(params []Param, ties map[string][]string, good map[string]bool, policy Policy) error {
	buffers := [2][]byte{make([]byte, blockBytes), make([]byte, blockBytes)}
	for i := range params {
		p := &params[i]
		if !good[p.Name] || p.Ignored {
			continue
		}
		// Each present member of a group is compared with the first present one.
		if base := firstGood(ties[p.Name], good); base != "" && base != p.Name {
			if err := s.compareBits(p.Name, base, buffers); err != nil {
				return err
			}
		}
		if policy.NonFinite == AllowNonFinite {
			continue
		}
		if err := s.checkFinite(p.Name, buffers[0]); err != nil {
			return err
		}
	}
	return nil
}

func firstGood(group []string, good map[string]bool) string {
	for _, name := range group {
		if good[name] {
			return name
		}
	}
	return ""
}

func (s *strictRun) compareBits(name, base string, buffers [2][]byte) error {
	a, err := s.c.Info(name)
	if err != nil {
		return err
	}
	b, err := s.c.Info(base)
	if err != nil {
		return err
	}
	if a.DType != b.DType {
		s.add(TieConflict, name, fmt.Sprintf("the bits of %s, %s", quote(base), b.DTypeName), a.DTypeName)
		return nil
	}
	ra, err := s.c.Reader(name)
	if err != nil {
		return err
	}
	rb, err := s.c.Reader(base)
	if err != nil {
		return err
	}
	for at := int64(0); at < ra.Size(); {
		n := min(blockBytes, ra.Size()-at)
		x, y := buffers[0][:n], buffers[1][:n]
		if _, err := io.ReadFull(ra, x); err != nil {
			return err
		}
		if _, err := io.ReadFull(rb, y); err != nil {
			return err
		}
		if !bytes.Equal(x, y) {
			i := 0
			for x[i] == y[i] {
				i++
			}
			width := max(a.DType.Size(), 1)
			e := i / width * width
			s.add(TieConflict, name, fmt.Sprintf("the bits of %s, %#x at element %d", quote(base), bigEndian(y[e:e+width]), (at+int64(i))/int64(width)),
				fmt.Sprintf("%#x", bigEndian(x[e:e+width])))
			return nil
		}
		at += n
	}
	return nil
}

// bigEndian turns stored bytes into the order in which numbers are printed.
func bigEndian(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[len(b)-1-i] = b[i]
	}
	return out
}

func (s *strictRun) checkFinite(name string, buffer []byte) error {
	info, err := s.c.Info(name)
	if err != nil {
		return err
	}
	scan := finiteScan(info.DType)
	if scan == nil {
		return nil
	}
	r, err := s.c.Reader(name)
	if err != nil {
		return err
	}
	width := int64(info.DType.Size())
	bad, first, bits := 0, int64(-1), []byte(nil)
	for at := int64(0); at < r.Size(); {
		block := buffer[:min(blockBytes, r.Size()-at)]
		if _, err := io.ReadFull(r, block); err != nil {
			return err
		}
		n, i := scan(block)
		if n > 0 && first < 0 {
			first = at/width + int64(i)
			bits = bigEndian(block[int64(i)*width : (int64(i)+1)*width])
		}
		bad += n
		at += int64(len(block))
	}
	if bad > 0 {
		s.add(NonFiniteValue, name, "finite values",
			fmt.Sprintf("%d infinite or NaN, the first %#x at element %d", bad, bits, first))
	}
	return nil
}

// finiteScan returns a function that counts the elements of d in a block that
// are infinite or NaN, and gives the position of the first; nil when d has no
// such values. The tests are on bits alone.
func finiteScan(d tensor.DType) func(block []byte) (bad, first int) {
	switch d {
	case tensor.F64:
		const exponent = 0x7ff << 52
		return func(b []byte) (bad, first int) {
			for i := 0; i+8 <= len(b); i += 8 {
				if binary.LittleEndian.Uint64(b[i:])&exponent == exponent {
					if bad == 0 {
						first = i / 8
					}
					bad++
				}
			}
			return
		}
	case tensor.F32:
		return scan32(1)
	case tensor.C64: // two F32 an element
		return scan32(2)
	case tensor.F16:
		return scan16(0x7c00)
	case tensor.BF16:
		return scan16(0x7f80)
	case tensor.F8E5M2: // infinities and NaNs as in IEEE 754
		return scan8(func(c byte) bool { return c&0x7c == 0x7c })
	case tensor.F8E4M3: // OCP: no infinities, one NaN of each sign
		return scan8(func(c byte) bool { return c&0x7f == 0x7f })
	case tensor.F8E8M0: // OCP scale: one NaN
		return scan8(func(c byte) bool { return c == 0xff })
	case tensor.F8E4M3FNUZ, tensor.F8E5M2FNUZ: // negative zero stands for NaN
		return scan8(func(c byte) bool { return c == 0x80 })
	}
	return nil
}

func scan32(perElement int) func([]byte) (int, int) {
	const exponent = 0xff << 23
	return func(b []byte) (bad, first int) {
		last := -1
		for i := 0; i+4 <= len(b); i += 4 {
			if binary.LittleEndian.Uint32(b[i:])&exponent != exponent {
				continue
			}
			element := i / 4 / perElement
			if bad == 0 {
				first = element
			}
			if element != last {
				bad++
				last = element
			}
		}
		return
	}
}

func scan16(exponent uint16) func([]byte) (int, int) {
	return func(b []byte) (bad, first int) {
		for i := 0; i+2 <= len(b); i += 2 {
			if binary.LittleEndian.Uint16(b[i:])&exponent == exponent {
				if bad == 0 {
					first = i / 2
				}
				bad++
			}
		}
		return
	}
}

func scan8(nonFinite func(byte) bool) func([]byte) (int, int) {
	return func(b []byte) (bad, first int) {
		for i, c := range b {
			if nonFinite(c) {
				if bad == 0 {
					first = i
				}
				bad++
			}
		}
		return
	}
}
