package finitepass

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// sessionBytes bounds what the calls of one session leave behind, since a
// session keeps its results until it is closed.
const sessionBytes = 16 << 20

// evaluator calls a block and brings the rows to the host. Calls that fit share
// a session; each is still a call of its own, with its own row count.
type evaluator struct {
	ctx     context.Context
	dev     nn.Device
	block   nn.TokenBlock
	outputs []nn.Output
	rowCost int // bytes that a row leaves in a session, roughly
	session nn.Session
	held    int
	calls   int
	rows    int64
}

func newEvaluator(ctx context.Context, dev nn.Device, block nn.TokenBlock) *evaluator {
	e := &evaluator{ctx: ctx, dev: dev, block: block, outputs: block.Outputs()}
	for _, o := range e.outputs {
		e.rowCost += o.Width * o.DType.Size()
	}
	if f, ok := block.(*nn.Fanout); ok {
		e.rowCost += 4 * f.Embedding.Width() * (1 + len(f.Prefix))
	}
	return e
}

// call returns one tensor [len(ids), width] per output.
func (e *evaluator) call(ids []int) ([]*tensor.Tensor, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	if e.session == nil {
		e.session = e.dev.Begin(e.ctx)
	}
	e.calls++
	e.rows += int64(len(ids))
	arrays := e.block.Forward(e.session, ids)
	if err := e.session.Err(); err != nil {
		return nil, err
	}
	if len(arrays) != len(e.outputs) {
		return nil, fmt.Errorf("%w: %d results, %d outputs declared", ErrBlock, len(arrays), len(e.outputs))
	}
	out := make([]*tensor.Tensor, len(arrays))
	for i, a := range arrays {
		out[i] = e.session.ToHost(a)
		if err := e.session.Err(); err != nil {
			return nil, err
		}
		want := tensor.Shape{len(ids), e.outputs[i].Width}
		if out[i] == nil || out[i].DType() != e.outputs[i].DType || !out[i].Shape().Equal(want) {
			return nil, fmt.Errorf("%w: output %q is %v, expected %v%v", ErrBlock, e.outputs[i].Name, out[i], e.outputs[i].DType, want)
		}
	}
	if e.held += max(1, len(ids)) * e.rowCost; e.held >= sessionBytes {
		return out, e.close()
	}
	return out, nil
}

// close ends the session; the next call begins another.
func (e *evaluator) close() error {
	if e.session == nil {
		return nil
	}
	err := e.session.Close()
	e.session, e.held = nil, 0
	return err
}

// identical returns n times the same id.
func identical(id, n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = id
	}
	return ids
}

// sameRows returns the first row of t that differs from row 0, or −1.
func sameRows(t *tensor.Tensor) int {
	for i := 1; i < t.Shape()[0]; i++ {
		if string(t.Row(i)) != string(t.Row(0)) {
			return i
		}
	}
	return -1
}

// exponentMask has the exponent bits of the four element types that outputs may
// have; a value with all of them set is not finite.
func exponentMask(d tensor.DType) (mask uint64, ok bool) {
	switch d {
	case tensor.F16:
		return 0x7c00, true
	case tensor.BF16:
		return 0x7f80, true
	case tensor.F32:
		return 0x7f80_0000, true
	case tensor.F64:
		return 0x7ff0_0000_0000_0000, true
	}
	return 0, false
}

// notFinite returns the index of the first NaN or infinity, or −1.
func notFinite(t *tensor.Tensor) int {
	mask, ok := exponentMask(t.DType())
	if !ok {
		return -1
	}
	b := t.Bytes()
	for i := range t.Len() {
		if word(b, i, t.DType().Size())&mask == mask {
			return i
		}
	}
	return -1
}

func word(b []byte, i, size int) uint64 {
	switch size {
	case 2:
		return uint64(binary.LittleEndian.Uint16(b[2*i:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return binary.LittleEndian.Uint64(b[8*i:])
}
