package tensor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ErrShape is wrapped by every error about a shape that is malformed, too large
// or not the one expected.
var ErrShape = errors.New("bad shape")

// Shape lists the extent of each axis, outermost first. The empty shape is a
// scalar, with one element.
type Shape []int

// Elements returns the number of elements: the product of all extents. A
// negative extent, or a product that does not fit an int, gives an error that
// wraps [ErrShape]; an extent of 0 anywhere makes the product 0 however large
// the others are.
func (s Shape) Elements() (int, error) {
	n, empty := 1, false
	for _, d := range s {
		switch {
		case d < 0:
			return 0, fmt.Errorf("%w: negative extent %d", ErrShape, d)
		case d == 0:
			empty = true
		}
	}
	if empty {
		return 0, nil
	}
	for _, d := range s {
		if n > math.MaxInt/d {
			return 0, fmt.Errorf("%w: %v has too many elements", ErrShape, s)
		}
		n *= d
	}
	return n, nil
}

// Bytes returns the bytes that a dense tensor of this shape and type occupies.
// Sub-byte types must fill whole bytes.
func (s Shape) Bytes(d DType) (int, error) {
	n, err := s.Elements()
	if err != nil {
		return 0, err
	}
	bits := d.Bits()
	if bits == 0 {
		return 0, fmt.Errorf("%w %v", ErrDType, d)
	}
	if n > math.MaxInt/bits {
		return 0, fmt.Errorf("%w: %v of %v is too large", ErrShape, s, d)
	}
	if n*bits%8 != 0 {
		return 0, fmt.Errorf("%w: %v of %v does not fill whole bytes", ErrShape, s, d)
	}
	return n * bits / 8, nil
}

// Equal reports whether both shapes have the same rank and extents.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// Clone returns a copy that shares nothing with s.
func (s Shape) Clone() Shape { return append(Shape{}, s...) }

// String writes the shape as safetensors does: "[84,512]", and "[]" for a
// scalar.
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	return b.String()
}
