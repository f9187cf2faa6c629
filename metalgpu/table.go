package metalgpu

import (
	"fmt"
	"unsafe"
	"weak"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// table is an uploaded [nn.RowSource].
type table struct {
	device      *device
	rows, width int
	dtype       tensor.DType
	// source decodes rows on the host, for types that the device does not compute
	// with. Otherwise the rows lie in plain or packed.
	source    nn.RowSource
	plain     []part
	packed    *packedTable
	residents []*resident
}

func (t *table) NumRows() int        { return t.rows }
func (t *table) Width() int          { return t.width }
func (t *table) DType() tensor.DType { return t.dtype }

// packedTable is a table of pack/xortable in its stored form.
type packedTable struct {
	base, codes, offsets, low, columns, high driver.Buffer
	bits                                     uint32 // of an element
	offsetWords                              uint32
	lowBits, columnBits, highBits            uint32
	slots                                    uint32
}

func (d *device) UploadRows(src nn.RowSource) (nn.Table, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	if src.DType().Size() == 0 || src.NumRows() < 0 || src.Width() < 0 {
		return nil, fmt.Errorf("upload rows: %w: [%d,%d] of %v", tensor.ErrShape, src.NumRows(), src.Width(), src.DType())
	}
	t := &table{device: d, rows: src.NumRows(), width: src.Width(), dtype: src.DType()}
	if !computes(t.dtype) {
		t.source = src
		return t, nil
	}
	u, err := d.newUpload()
	if err != nil {
		return nil, fmt.Errorf("upload rows: %w", err)
	}
	defer u.close()
	if route, ok := src.(*xortable.Route); ok && route != nil {
		done, err := u.packed(t, route.Storage())
		if err != nil {
			return nil, fmt.Errorf("upload rows: %w", err)
		}
		if done {
			return t, nil
		}
	}
	size := t.width * t.dtype.Size()
	t.plain, err = u.rows(t.rows, int64(size), func(block []byte, first int) error {
		for i := 0; size > 0 && i < len(block)/size; i++ {
			if err := src.DecodeRow(block[i*size:(i+1)*size:(i+1)*size], first+i); err != nil {
				return fmt.Errorf("row %d: %w", first+i, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("upload rows: %w", err)
	}
	t.residents = append(t.residents, d.adoptParts(t.plain))
	return t, nil
}

// packed uploads the stored form of a table, the base only if it is not there
// yet. It reports false, having done nothing, where a piece is larger than a
// buffer can be, or indices into it than 32 bits.
func (u *upload) packed(t *table, s xortable.Storage) (bool, error) {
	d := u.device
	for _, b := range [][]byte{s.Base, s.Codes, s.Offsets, s.Low, s.Columns, s.High} {
		if int64(len(b)) > d.memory.bufferLimit {
			return false, nil
		}
	}
	base, err := u.sharedBytes(s.Base)
	if err != nil {
		return false, err
	}
	t.residents = append(t.residents, base)
	if s.Mode == xortable.Same || s.Mode == xortable.Full {
		t.plain = []part{{base.buffers[0], 0, t.rows}}
		return true, nil
	}
	p := &packedTable{
		base: base.buffers[0], bits: uint32(8 * t.dtype.Size()), offsetWords: uint32(s.OffsetBits / 32),
		lowBits: uint32(s.LowBits), columnBits: uint32(s.ColumnBits), highBits: uint32(s.HighBits), slots: uint32(s.Slots),
	}
	var own []driver.Buffer
	for _, piece := range []struct {
		data []byte
		to   *driver.Buffer
	}{{s.Codes, &p.codes}, {s.Offsets, &p.offsets}, {s.Low, &p.low}, {s.Columns, &p.columns}, {s.High, &p.high}} {
		*piece.to = d.dummy
		if len(piece.data) == 0 {
			continue
		}
		if *piece.to, err = u.bytes(piece.data); err != nil {
			for _, b := range own {
				d.memory.give(b)
			}
			return false, err
		}
		own = append(own, *piece.to)
	}
	t.packed = p
	t.residents = append(t.residents, d.memory.adopt(own...))
	return true, nil
}

// sharedBytes uploads data, or finds what an earlier call uploaded of it.
func (u *upload) sharedBytes(data []byte) (*resident, error) {
	d := u.device
	d.sharedLock.Lock()
	defer d.sharedLock.Unlock()
	key := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	if r := d.shared[key].Value(); r != nil && len(r.host) == len(data) {
		return r, nil
	}
	for k, w := range d.shared {
		if w.Value() == nil {
			delete(d.shared, k)
		}
	}
	b, err := u.bytes(data)
	if err != nil {
		return nil, err
	}
	r := d.memory.adopt(b)
	r.host = data
	d.shared[key] = weak.Make(r)
	return r, nil
}

// kernelType is how kernels name an element type.
func kernelType(d tensor.DType) string {
	switch d {
	case tensor.BF16:
		return "bf16"
	case tensor.F16:
		return "f16"
	}
	return "f32"
}

func (s *session) Gather(x nn.Table, ids []int) nn.Array {
	const op = "gather"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	t, ok := x.(*table)
	if !ok || t == nil || t.device != s.device {
		return s.fail(op, fmt.Errorf("%w: the table belongs to another device", nn.ErrOperand))
	}
	for _, id := range ids {
		if id < 0 || id >= t.rows {
			if t.rows == 0 {
				return s.fail(op, fmt.Errorf("%w: token id %d of an empty table", nn.ErrIndex, id))
			}
			return s.fail(op, fmt.Errorf("%w: token id %d is outside 0..%d", nn.ErrIndex, id, t.rows-1))
		}
	}
	if t.source != nil {
		return s.gatherHost(op, t, ids)
	}
	out := s.make(op, t.dtype, len(ids), t.width)
	if out == nil || len(ids) == 0 || t.width == 0 {
		return s.finish(op, out)
	}
	list := make([]uint32, len(ids))
	for i, id := range ids {
		list[i] = uint32(id)
	}
	index := s.constant(op, list)
	n, width := uint32(len(ids)), uint32(t.width)
	s.hold(t)
	for _, p := range t.plain {
		s.run(op, "gather_"+kernelType(t.dtype), 0, []driver.Buffer{p.buffer, index, out.buffer},
			n, width, 0, uint32(p.first), uint32(p.rows))
	}
	if p := t.packed; p != nil {
		s.decode(op, p, t.dtype, index, out.buffer, n, width)
	}
	return s.finish(op, out)
}

// decode decodes rows of a packed table on the device.
func (s *session) decode(op string, p *packedTable, dtype tensor.DType, index, out driver.Buffer, n, width uint32) {
	shift := uint32(0)
	if dtype == tensor.BF16 {
		shift = 16
	}
	if p.lowBits > 0 {
		s.run(op, "xor_low", 0, []driver.Buffer{p.base, p.low, index, out}, n, width, p.bits, p.lowBits, shift)
		if p.slots > 0 {
			s.run(op, "xor_high", 0, []driver.Buffer{p.columns, p.high, index, out},
				n, width, p.bits, p.lowBits, p.slots, p.columnBits, p.highBits, shift)
		}
	} else {
		s.run(op, "xor_codes", 0, []driver.Buffer{p.base, p.codes, p.offsets, index, out}, n, width, p.bits, p.offsetWords, shift)
		s.run(op, "xor_entries", 0, []driver.Buffer{p.codes, p.offsets, index, out}, n, width, p.bits, p.offsetWords, shift)
	}
	if dtype == tensor.F16 {
		s.run(op, "widen_f16", 0, []driver.Buffer{out}, n*width)
	}
}

// gatherHost gathers rows that the device does not compute with.
func (s *session) gatherHost(op string, t *table, ids []int) nn.Array {
	shape := tensor.Shape{len(ids), t.width}
	host, err := tensor.New(t.dtype, shape...)
	if err != nil {
		return s.fail(op, err)
	}
	size := t.width * t.dtype.Size()
	for i, id := range ids {
		if err := t.source.DecodeRow(host.Bytes()[i*size:(i+1)*size:(i+1)*size], id); err != nil {
			return s.fail(op, fmt.Errorf("row of token id %d: %w", id, err))
		}
	}
	return &array{device: s.device, session: s, shape: shape, dtype: t.dtype, other: host}
}
