package run

import (
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Logits applies a head to the result of the trunk, to the last position of each
// sequence only when the call asks for no more.
func (p *Pass) Logits(k *batch.Call, h nn.Array, head []nn.RowLocal, vocabulary int) (*tensor.Tensor, error) {
	length := k.Length
	if k.LastOnly {
		var err error
		if h, err = p.Pick(h, k.Batch, k.Length, k.Length-1); err != nil {
			return nil, err
		}
		length = 1
	}
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	return p.Keep(nn.Apply(p.S, head, h), k.Batch, length, vocabulary)
}
