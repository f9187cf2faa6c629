package tensor

import (
	"bytes"
	"fmt"
	"unsafe"
)

func init() {
	if x := uint16(1); *(*byte)(unsafe.Pointer(&x)) != 1 {
		panic("tensor: hosts must be little-endian")
	}
}

// Tensor is a dense, row-major, little-endian array in host memory. The
// exported methods never change dtype or shape; the bytes belong to whoever
// made the tensor and may be a read-only memory map, so callers must not write
// to tensors that they did not create. A Tensor is safe for concurrent reads.
type Tensor struct {
	dtype DType
	shape Shape
	data  []byte
}

// New returns a zero-filled tensor whose storage is aligned for any element
// type.
func New(d DType, shape ...int) (*Tensor, error) {
	n, err := Shape(shape).Bytes(d)
	if err != nil {
		return nil, err
	}
	return &Tensor{d, Shape(shape).Clone(), alignedBytes(n)}, nil
}

// FromBytes wraps data, which must have exactly the bytes that dtype and shape
// call for. The tensor keeps data; it does not copy, unless data is not aligned
// for its element type, which typed views need.
func FromBytes(d DType, shape Shape, data []byte) (*Tensor, error) {
	n, err := shape.Bytes(d)
	if err != nil {
		return nil, err
	}
	if len(data) != n {
		return nil, fmt.Errorf("%w: %v of %v needs %d bytes, have %d", ErrShape, shape, d, n, len(data))
	}
	if size := d.Size(); size > 1 && n > 0 && uintptr(unsafe.Pointer(&data[0]))%uintptr(size) != 0 {
		aligned := alignedBytes(n)
		copy(aligned, data)
		data = aligned
	}
	return &Tensor{d, shape.Clone(), data}, nil
}

// FromFloat32s wraps values as an F32 tensor of the given shape without
// copying.
func FromFloat32s(values []float32, shape ...int) (*Tensor, error) {
	return FromBytes(F32, shape, sliceBytes(values))
}

// FromInt64s wraps values as an I64 tensor of the given shape without copying.
func FromInt64s(values []int64, shape ...int) (*Tensor, error) {
	return FromBytes(I64, shape, sliceBytes(values))
}

// DType returns the element type.
func (t *Tensor) DType() DType { return t.dtype }

// Shape returns the shape; callers must not change it.
func (t *Tensor) Shape() Shape { return t.shape }

// Bytes returns the storage itself, not a copy.
func (t *Tensor) Bytes() []byte { return t.data }

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n, err := t.shape.Elements()
	if err != nil { // constructors checked it
		panic(err)
	}
	return n
}

// Float32s returns the elements of an F32 tensor as a view of its storage. It
// panics for any other element type: asking is a programming error, never a
// property of the input, since callers check [Tensor.DType] first.
func (t *Tensor) Float32s() []float32 { return view[float32](t, F32) }

// Int64s is [Tensor.Float32s] for I64 tensors.
func (t *Tensor) Int64s() []int64 { return view[int64](t, I64) }

// Uint16s returns the bit patterns of a BF16, F16, U16 or I16 tensor.
func (t *Tensor) Uint16s() []uint16 { return view[uint16](t, U16, I16, F16, BF16) }

// Uint32s returns the bit patterns of an F32, U32 or I32 tensor.
func (t *Tensor) Uint32s() []uint32 { return view[uint32](t, U32, I32, F32) }

// Row returns the bytes of row i along the first axis.
func (t *Tensor) Row(i int) []byte {
	w := len(t.data) / t.shape[0]
	return t.data[i*w : (i+1)*w : (i+1)*w]
}

// Reshape returns a view of the same storage with another shape of the same
// number of elements.
func (t *Tensor) Reshape(shape ...int) (*Tensor, error) {
	return FromBytes(t.dtype, shape, t.data)
}

// Clone returns a copy with storage of its own.
func (t *Tensor) Clone() *Tensor {
	data := alignedBytes(len(t.data))
	copy(data, t.data)
	return &Tensor{t.dtype, t.shape.Clone(), data}
}

// BitEqual reports whether a and b have the same element type, shape and bytes.
// +0 and −0 differ, and so do two NaNs with different payloads.
func BitEqual(a, b *Tensor) bool {
	return a.dtype == b.dtype && a.shape.Equal(b.shape) && bytes.Equal(a.data, b.data)
}

// String describes the tensor without its values, as "F32[84,512]".
func (t *Tensor) String() string { return t.dtype.String() + t.shape.String() }

func view[T any](t *Tensor, allowed ...DType) []T {
	for _, d := range allowed {
		if t.dtype == d {
			if len(t.data) == 0 {
				return nil
			}
			var zero T
			return unsafe.Slice((*T)(unsafe.Pointer(&t.data[0])), len(t.data)/int(unsafe.Sizeof(zero)))
		}
	}
	panic(fmt.Sprintf("tensor: %v read as %v", t.dtype, allowed[0]))
}

func sliceBytes[T any](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}

// alignedBytes allocates n bytes aligned for any element type: the runtime
// aligns []byte only as its size class happens to.
func alignedBytes(n int) []byte {
	return sliceBytes(make([]uint64, (n+7)/8))[:n:n]
}
