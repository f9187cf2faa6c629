package t5

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
)

// Names of the decoder's inputs.
const (
	decoderIDs  = "decoder_input_ids"
	decoderMask = "decoder_attention_mask"
)

// parse checks in and returns the calls of both stacks; dec is nil for an encoder
// alone.
func (m *Model) parse(in architectures.Inputs) (enc, dec *batch.Call, err error) {
	c := &m.cfg
	names := []string{batch.IDs, batch.Mask}
	if !c.EncoderOnly {
		names = append(names, decoderIDs, decoderMask)
	}
	if err := batch.CheckNames(in, names); err != nil {
		return nil, nil, err
	}
	enc = &batch.Call{Hidden: in.Flags[batch.FlagHidden], Attentions: in.Flags[batch.FlagAttentions]}
	if enc.Batch, enc.Length, enc.IDs, err = batch.Tokens(in, batch.IDs, c.VocabSize); err != nil {
		return nil, nil, err
	}
	if enc.Mask, err = batch.ParseMask(batch.Mask, in.Tensors[batch.Mask], enc.Batch, enc.Length); err != nil {
		return nil, nil, err
	}
	if c.EncoderOnly {
		return enc, nil, enc.CheckOutputs(float64(c.HiddenSize), float64(c.HiddenSize)*float64(c.EncoderLayers+1),
			float64(c.Heads)*float64(c.EncoderLayers)*float64(enc.Length))
	}
	dec = &batch.Call{Hidden: enc.Hidden, Attentions: enc.Attentions}
	if in.Tensors[decoderIDs] == nil {
		dec.Batch, dec.Length = enc.Batch, enc.Length
		for b := range enc.Batch {
			dec.IDs = append(dec.IDs, c.StartToken)
			dec.IDs = append(dec.IDs, enc.IDs[b*enc.Length:(b+1)*enc.Length-1]...)
		}
	} else if dec.Batch, dec.Length, dec.IDs, err = batch.Tokens(in, decoderIDs, c.VocabSize); err != nil {
		return nil, nil, err
	}
	if dec.Batch != enc.Batch {
		return nil, nil, fmt.Errorf("%w: %s: expected %d sequences like %s, found %d", ErrInput, decoderIDs, enc.Batch, batch.IDs, dec.Batch)
	}
	if dec.Mask, err = batch.ParseMask(decoderMask, in.Tensors[decoderMask], dec.Batch, dec.Length); err != nil {
		return nil, nil, err
	}
	if err := enc.CheckOutputs(0, float64(c.HiddenSize)*float64(c.EncoderLayers+1),
		float64(c.Heads)*float64(c.EncoderLayers)*float64(enc.Length)); err != nil {
		return nil, nil, err
	}
	return enc, dec, dec.CheckOutputs(float64(c.VocabSize), float64(c.HiddenSize)*float64(c.DecoderLayers+1),
		float64(c.Heads)*float64(c.DecoderLayers)*float64(enc.Length+dec.Length))
}

// Forward runs the model once on a whole batch. Errors about inputs wrap
// [ErrInput].
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (out architectures.Outputs, err error) {
	enc, dec, err := m.parse(in)
	if err != nil {
		return nil, err
	}
	p := run.Begin(ctx, m.dev, m.sessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	encoder := &pass{Pass: p, cfg: &m.cfg, stack: m.encoder, call: enc, keys: enc.Length, mask: enc.Mask}
	h, err := encoder.run()
	if err != nil {
		return nil, err
	}
	if dec == nil {
		last, err := p.Keep(h, enc.Batch, enc.Length, m.cfg.HiddenSize)
		if err != nil {
			return nil, err
		}
		return encoder.trace.Append(architectures.Outputs{{Name: "last_hidden_state", Tensor: last}}), nil
	}
	decoder := &pass{Pass: p, cfg: &m.cfg, stack: m.decoder, call: dec, keys: dec.Length, mask: dec.Mask,
		cross: &cross{h: h, keys: enc.Length, mask: enc.Mask}}
	if h, err = decoder.run(); err != nil {
		return nil, err
	}
	logits, err := p.Logits(dec, h, m.head, m.cfg.VocabSize)
	if err != nil {
		return nil, err
	}
	out = architectures.Outputs{{Name: "logits", Tensor: logits}}
	out = encoder.trace.AppendNamed(out, "encoder_hidden_states", "encoder_attentions")
	out = decoder.trace.AppendNamed(out, "decoder_hidden_states", "decoder_attentions")
	return decoder.cross.trace.AppendNamed(out, "", "cross_attentions"), nil
}

// pass is one run through a stack.
type pass struct {
	*run.Pass
	cfg   *Config
	stack *stack
	call  *batch.Call

	// keys is the number of positions that attention runs over, mask says which of
	// them are visible, and cache holds those in front of the call's, by layer.
	keys  int
	mask  []bool
	cache []nn.KVCache

	cross *cross // nil in an encoder
	bias  nn.Array
	trace run.Trace
}

// cross is what a decoder sees of the encoder: its result, or the keys and values
// made from it, by layer.
type cross struct {
	h     nn.Array
	cache []nn.KVCache
	keys  int
	mask  []bool
	trace run.Trace
}

// live lists what a pass needs in its next session.
func (p *pass) live(h *nn.Array) []*nn.Array {
	if p.cross != nil && p.cross.cache == nil {
		return []*nn.Array{h, &p.cross.h}
	}
	return []*nn.Array{h}
}

// run computes the stack up to its final norm.
func (p *pass) run() (nn.Array, error) {
	c, k := p.cfg, p.call
	host, err := p.stack.buckets.bias(p.stack.bias, c.Heads, p.keys-k.Length, k.Length, p.keys)
	if err != nil {
		return nil, err
	}
	p.Fix(&p.bias, host, c.DType)
	block := p.stack.block.Forward(p.S, k.IDs)
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	q, key, v, h := block[0], block[1], block[2], block[3]
	bytes := c.layerBytes(p)
	p.Use(bytes)
	for i := range p.stack.layers {
		l := &p.stack.layers[i]
		if i > 0 {
			if err := p.Room(bytes, p.live(&h)...); err != nil {
				return nil, err
			}
			x := l.norm.Forward(p.S, h)
			q, key, v = l.q.Forward(p.S, x), l.k.Forward(p.S, x), l.v.Forward(p.S, x)
		}
		if err := p.trace.KeepHidden(p.Pass, k, h, c.HiddenSize); err != nil {
			return nil, err
		}
		attended, err := p.attend(i, q, key, v)
		if err != nil {
			return nil, err
		}
		h = add(p.S, h, l.o.Forward(p.S, attended))
		if p.cross != nil {
			if attended, err = p.attendEncoder(i, l, h); err != nil {
				return nil, err
			}
			h = add(p.S, h, l.crossO.Forward(p.S, attended))
		}
		x := l.mlpNorm.Forward(p.S, h)
		inner := p.S.Map(c.Activation, l.gate.Forward(p.S, x))
		if l.up != nil {
			inner = p.S.Mul(inner, l.up.Forward(p.S, x))
		}
		h = add(p.S, h, project(p.S, l.down, inner))
		if err := p.S.Err(); err != nil {
			return nil, err
		}
	}
	h = p.stack.norm.Forward(p.S, h)
	return h, p.trace.KeepHidden(p.Pass, k, h, c.HiddenSize)
}

// attend is self-attention of layer i.
func (p *pass) attend(i int, q, key, v nn.Array) (nn.Array, error) {
	c, k := p.cfg, p.call
	in := nn.AttentionInput{
		Q: q, K: key, V: v, Batch: k.Batch, Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.HeadDim,
		Scale: 1, Causal: p.cross != nil, Mask: p.mask, Bias: p.bias, Weights: k.Attentions,
	}
	if p.cache != nil {
		p.S.Append(p.cache[i], key, v)
		in.K, in.V, in.Cache = nil, nil, p.cache[i]
	}
	out := p.S.Attention(in)
	return out.Context, p.trace.KeepAttention(p.Pass, k, out.Weights, c.Heads, p.keys)
}

// attendEncoder is cross-attention of layer i.
func (p *pass) attendEncoder(i int, l *layer, h nn.Array) (nn.Array, error) {
	c, k := p.cfg, p.call
	in := nn.AttentionInput{
		Q:     l.crossQ.Forward(p.S, l.crossNorm.Forward(p.S, h)),
		Batch: k.Batch, Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.HeadDim,
		Scale: 1, Mask: p.cross.mask, Weights: k.Attentions,
	}
	if p.cross.cache != nil {
		in.Cache = p.cross.cache[i]
	} else {
		in.K, in.V = l.crossK.Forward(p.S, p.cross.h), l.crossV.Forward(p.S, p.cross.h)
	}
	out := p.S.Attention(in)
	return out.Context, p.cross.trace.KeepAttention(p.Pass, k, out.Weights, c.Heads, p.cross.keys)
}

// layerBytes is about what the results of a layer occupy in a session.
func (c *Config) layerBytes(p *pass) float64 {
	n := float64(6*c.HiddenSize + 5*c.inner() + 4*c.IntermediateSize)
	if p.call.Attentions {
		n += float64(c.Heads) * float64(p.keys)
	}
	n *= float64(p.call.Rows())
	if p.cross != nil {
		n += float64(3*c.inner()) * float64(p.call.Rows()+p.call.Batch*p.cross.keys)
	}
	return 4 * n
}
