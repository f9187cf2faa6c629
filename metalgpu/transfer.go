package metalgpu

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/tensor"
)

// stagingBytes bounds the host memory through which uploads and downloads go.
const stagingBytes = 4 << 20

// upload fills buffers from host memory in blocks.
type upload struct {
	device *device
	list   driver.Commands
	stage  driver.Buffer
}

func (d *device) newUpload() (*upload, error) {
	list, err := d.drv.Begin()
	if err != nil {
		return nil, err
	}
	stage, err := d.memory.take(stagingBytes, driver.Host)
	if err != nil {
		list.Close()
		return nil, err
	}
	return &upload{d, list, stage}, nil
}

func (u *upload) close() {
	u.list.Close()
	u.device.memory.give(u.stage)
}

// fill writes size bytes to dst, which fill makes block by block: it is called
// with the block and how many bytes came before, always a multiple of unit. Whole
// words are copied, so up to three bytes behind the last are undefined.
func (u *upload) fill(dst driver.Buffer, size, unit int64, fill func(block []byte, at int64) error) error {
	step := stagingBytes / unit * unit
	if step%4 != 0 {
		step -= unit // there are two or more, and no odd ones but of one byte
	}
	for at := int64(0); at < size; at += step {
		n := min(step, size-at)
		if err := fill(u.stage.Bytes()[:n], at); err != nil {
			return err
		}
		u.list.Copy(dst, at, u.stage, 0, (n+3)&^3)
		if err := u.device.submit(context.Background(), u.list); err != nil {
			return err
		}
	}
	return nil
}

// bytes uploads data as it is to a buffer of its own.
func (u *upload) bytes(data []byte) (driver.Buffer, error) {
	size := int64(len(data))
	b, err := u.device.memory.take(size, driver.Device)
	if err != nil {
		return nil, err
	}
	err = u.fill(b, size, 1, func(block []byte, at int64) error { copy(block, data[at:]); return nil })
	if err != nil {
		u.device.memory.give(b)
		return nil, err
	}
	return b, nil
}

func (d *device) Upload(t *tensor.Tensor, use nn.Use) (nn.Array, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	if !computes(t.DType()) {
		return nil, fmt.Errorf("upload: %w %v: the gpu device computes with F32, BF16 and F16 weights", tensor.ErrDType, t.DType())
	}
	u, err := d.newUpload()
	if err != nil {
		return nil, fmt.Errorf("upload: %w", err)
	}
	defer u.close()
	var a *array
	switch use {
	case nn.AsVector:
		a, err = u.vector(t)
	case nn.AsMatrix, nn.AsTransposed:
		if shape := t.Shape(); len(shape) != 2 {
			return nil, fmt.Errorf("upload: %w: the weight of a linear map has two axes, have %v", tensor.ErrShape, shape)
		}
		a, err = u.matrix(t, use == nn.AsTransposed)
	default:
		return nil, fmt.Errorf("upload: unknown use %d", use)
	}
	if err != nil {
		return nil, fmt.Errorf("upload: %w", err)
	}
	return a, nil
}

// vector uploads the values widened to float32.
func (u *upload) vector(t *tensor.Tensor) (*array, error) {
	d := u.device
	size := 4 * int64(t.Len())
	if size > d.memory.bufferLimit {
		return nil, fmt.Errorf("%w: %d bytes, expected at most %d", ErrLimit, size, d.memory.bufferLimit)
	}
	b, err := d.memory.take(size, driver.Device)
	if err != nil {
		return nil, err
	}
	if err := u.fill(b, size, 4, func(block []byte, at int64) error { widen(block, t, int(at/4)); return nil }); err != nil {
		d.memory.give(b)
		return nil, err
	}
	return &array{device: d, shape: t.Shape().Clone(), dtype: t.DType(), buffer: b, resident: d.memory.adopt(b)}, nil
}

// part is a run of a matrix's or a table's rows in a buffer of its own.
type part struct {
	buffer      driver.Buffer
	first, rows int
}

// rows uploads n rows of rowBytes each, as many to a buffer as the device lets.
func (u *upload) rows(n int, rowBytes int64, fill func(block []byte, first int) error) ([]part, error) {
	d := u.device
	if rowBytes > min(d.memory.bufferLimit, stagingBytes/2) && n > 0 {
		return u.wideRows(n, rowBytes, fill)
	}
	per := n
	if rowBytes > 0 {
		per = int(min(int64(n), d.memory.bufferLimit/max(rowBytes, 1)))
	}
	var parts []part
	for first := 0; first < n; first += per {
		rows := min(per, n-first)
		size := int64(rows) * rowBytes
		b, err := d.memory.take(size, driver.Device)
		if err == nil && rowBytes > 0 {
			err = u.fill(b, size, rowBytes, func(block []byte, at int64) error {
				return fill(block, first+int(at/rowBytes))
			})
			if err != nil {
				d.memory.give(b)
			}
		}
		if err != nil {
			for _, p := range parts {
				d.memory.give(p.buffer)
			}
			return nil, err
		}
		parts = append(parts, part{b, first, rows})
	}
	return parts, nil
}

// wideRows is rows for rows that are wider than the staging buffer: each goes
// through host memory of its own.
func (u *upload) wideRows(n int, rowBytes int64, fill func(block []byte, first int) error) ([]part, error) {
	d := u.device
	if rowBytes > d.memory.bufferLimit {
		return nil, fmt.Errorf("%w: a row of %d bytes, expected at most %d", ErrLimit, rowBytes, d.memory.bufferLimit)
	}
	var parts []part
	row := make([]byte, rowBytes)
	for first := range n {
		err := fill(row, first)
		var b driver.Buffer
		if err == nil {
			b, err = u.bytes(row)
		}
		if err != nil {
			for _, p := range parts {
				d.memory.give(p.buffer)
			}
			return nil, err
		}
		parts = append(parts, part{b, first, 1})
	}
	return parts, nil
}

func (d *device) adoptParts(parts []part) *resident {
	buffers := make([]driver.Buffer, len(parts))
	for i, p := range parts {
		buffers[i] = p.buffer
	}
	return d.memory.adopt(buffers...)
}

// matrix uploads the weight of a linear map as [out, in], in its type.
func (u *upload) matrix(t *tensor.Tensor, transposed bool) (*array, error) {
	out, in := t.Shape()[0], t.Shape()[1]
	data, size := t.Bytes(), t.DType().Size()
	fill := func(block []byte, first int) error {
		copy(block, data[first*in*size:])
		return nil
	}
	if transposed {
		out, in = in, out
		fill = func(block []byte, first int) error {
			turn(block, data, in, out, first, size)
			return nil
		}
	}
	parts, err := u.rows(out, int64(in)*int64(size), fill)
	if err != nil {
		return nil, err
	}
	d := u.device
	return &array{device: d, shape: tensor.Shape{out, in}, dtype: t.DType(), matrix: parts, isMatrix: true, resident: d.adoptParts(parts)}, nil
}

// turn writes rows of [out, in] from first on to block, from data [in, out].
func turn(block, data []byte, in, out, first, size int) {
	if in == 0 {
		return
	}
	rows := len(block) / (in * size)
	for k := range in {
		src := data[(k*out+first)*size:]
		for o := range rows {
			copy(block[(o*in+k)*size:][:size], src[o*size:])
		}
	}
}

// computes reports whether activations can have the type.
func computes(d tensor.DType) bool {
	return d == tensor.F32 || d == tensor.BF16 || d == tensor.F16
}

// widen writes elements of t from at on to block as float32, keeping all bits.
func widen(block []byte, t *tensor.Tensor, at int) {
	dst := floats(block)
	switch t.DType() {
	case tensor.BF16:
		fmath.WidenBF16(dst, t.Uint16s()[at:at+len(dst)])
	case tensor.F16:
		fmath.WidenF16(dst, t.Uint16s()[at:at+len(dst)])
	default:
		copy(dst, t.Float32s()[at:])
	}
}

// narrow writes the float32 values of block to the elements of t from at on; it
// is the inverse of widen.
func narrow(t *tensor.Tensor, at int, block []byte) {
	src := floats(block)
	switch t.DType() {
	case tensor.BF16:
		for i, dst := 0, t.Uint16s()[at:]; i < len(src); i++ {
			dst[i] = fmath.BF16Bits(src[i])
		}
	case tensor.F16:
		for i, dst := 0, t.Uint16s()[at:]; i < len(src); i++ {
			dst[i] = fmath.F16Bits(src[i])
		}
	default:
		copy(t.Float32s()[at:], src)
	}
}
