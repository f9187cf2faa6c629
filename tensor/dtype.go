package tensor

import (
	"errors"
	"fmt"
)

// DType is an element type of the safetensors format. The zero value is
// [Invalid].
type DType uint8

// Element types, named as safetensors headers spell them.
const (
	Invalid DType = iota
	Bool
	U8
	I8
	F8E4M3
	F8E5M2
	F8E8M0
	F8E4M3FNUZ
	F8E5M2FNUZ
	F4
	F6E2M3
	F6E3M2
	I16
	U16
	F16
	BF16
	I32
	U32
	F32
	I64
	U64
	F64
	C64
)

// ErrDType is wrapped by every error about an element type that is unknown or
// not the one expected.
var ErrDType = errors.New("unsupported dtype")

type dtypeInfo struct {
	name  string
	bits  int
	float bool
}

var dtypes = [...]dtypeInfo{
	Invalid:    {"INVALID", 0, false},
	Bool:       {"BOOL", 8, false},
	U8:         {"U8", 8, false},
	I8:         {"I8", 8, false},
	F8E4M3:     {"F8_E4M3", 8, true},
	F8E5M2:     {"F8_E5M2", 8, true},
	F8E8M0:     {"F8_E8M0", 8, true},
	F8E4M3FNUZ: {"F8_E4M3FNUZ", 8, true},
	F8E5M2FNUZ: {"F8_E5M2FNUZ", 8, true},
	F4:         {"F4", 4, true},
	F6E2M3:     {"F6_E2M3", 6, true},
	F6E3M2:     {"F6_E3M2", 6, true},
	I16:        {"I16", 16, false},
	U16:        {"U16", 16, false},
	F16:        {"F16", 16, true},
	BF16:       {"BF16", 16, true},
	I32:        {"I32", 32, false},
	U32:        {"U32", 32, false},
	F32:        {"F32", 32, true},
	I64:        {"I64", 64, false},
	U64:        {"U64", 64, false},
	F64:        {"F64", 64, true},
	C64:        {"C64", 64, false},
}

var dtypeByName = func() map[string]DType {
	m := make(map[string]DType, len(dtypes))
	for d := Bool; int(d) < len(dtypes); d++ {
		m[dtypes[d].name] = d
	}
	return m
}()

// ParseDType returns the element type that a safetensors header calls name.
// An unknown name gives an error that wraps [ErrDType].
func ParseDType(name string) (DType, error) {
	if d, ok := dtypeByName[name]; ok {
		return d, nil
	}
	if len(name) > 32 { // do not echo hostile text at length
		name = name[:32] + "…"
	}
	return Invalid, fmt.Errorf("%w %q", ErrDType, name)
}

// String returns the name that safetensors headers use, such as "BF16".
func (d DType) String() string {
	if int(d) < len(dtypes) {
		return dtypes[d].name
	}
	return fmt.Sprintf("DType(%d)", uint8(d))
}

// Bits returns the width of one element in bits; 0 for [Invalid].
func (d DType) Bits() int {
	if int(d) < len(dtypes) {
		return dtypes[d].bits
	}
	return 0
}

// Size returns the width of one element in bytes, or 0 for [Invalid] and for
// the types that are narrower than a byte.
func (d DType) Size() int {
	if b := d.Bits(); b%8 == 0 {
		return b / 8
	}
	return 0
}

// IsFloat reports whether d is a real floating-point type.
func (d DType) IsFloat() bool { return int(d) < len(dtypes) && dtypes[d].float }

// MarshalText writes the safetensors name, so that JSON holds "F32" and not a
// number.
func (d DType) MarshalText() ([]byte, error) {
	if d == Invalid || int(d) >= len(dtypes) {
		return nil, fmt.Errorf("%w: cannot write %v", ErrDType, d)
	}
	return []byte(d.String()), nil
}

// UnmarshalText is the inverse of [DType.MarshalText].
func (d *DType) UnmarshalText(text []byte) error {
	v, err := ParseDType(string(text))
	if err != nil {
		return err
	}
	*d = v
	return nil
}
