package t5

import (
	"context"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
)

// GenerateFrom reads each input with the encoder and returns what the decoder
// writes, without the start token: up to maxNew tokens, each the most likely one.
// A sequence ends with one of the configuration's end tokens, which is included.
// Inputs may differ in length: shorter ones are padded on the right and hidden.
func (m *Model) GenerateFrom(ctx context.Context, inputs [][]int, maxNew int) ([][]int, error) {
	if m.decoder == nil {
		return nil, fmt.Errorf("%w: an encoder alone writes nothing", ErrInput)
	}
	if maxNew < 0 || maxNew > batch.MaxTokens {
		return nil, fmt.Errorf("%w: %d new tokens; expected 0 to %d", ErrInput, maxNew, batch.MaxTokens)
	}
	enc, err := m.pad(inputs)
	if err != nil {
		return nil, err
	}
	out := make([][]int, len(inputs))
	if maxNew == 0 {
		return out, nil
	}
	w, err := m.newWriter(ctx, enc, maxNew)
	if err != nil {
		return nil, err
	}
	ids := slices.Repeat([]int{m.cfg.StartToken}, enc.Batch)
	done := make([]bool, enc.Batch)
	for made := 1; ; made++ {
		logits, err := w.step(ctx, ids)
		if err != nil {
			return nil, err
		}
		open := 0
		for i := range out {
			if done[i] { // the batch goes on; this row's results are not used
				ids[i] = max(m.cfg.PadToken, 0)
				continue
			}
			if ids[i], err = run.Argmax(logits[i*m.cfg.VocabSize : (i+1)*m.cfg.VocabSize]); err != nil {
				return nil, fmt.Errorf("sequence %d after %d tokens: %w", i, len(out[i]), err)
			}
			out[i] = append(out[i], ids[i])
			if done[i] = slices.Contains(m.cfg.EndTokens, ids[i]); !done[i] {
				open++
			}
		}
		if open == 0 || made == maxNew {
			return out, nil
		}
	}
}

// pad packs inputs of different lengths, aligned on the left.
func (m *Model) pad(inputs [][]int) (*batch.Call, error) {
	longest := 0
	for i, in := range inputs {
		if len(in) == 0 {
			return nil, fmt.Errorf("%w: input %d is empty", ErrInput, i)
		}
		longest = max(longest, len(in))
	}
	if len(inputs) == 0 || longest > batch.MaxTokens || len(inputs) > batch.MaxTokens/longest {
		return nil, fmt.Errorf("%w: %d inputs of up to %d tokens; expected 1 to %d tokens", ErrInput, len(inputs), longest, batch.MaxTokens)
	}
	k := &batch.Call{Batch: len(inputs), Length: longest}
	hides := false
	for b, in := range inputs {
		for t := range longest {
			id, seen := max(m.cfg.PadToken, 0), t < len(in)
			if seen {
				id = in[t]
			}
			if id < 0 || id >= m.cfg.VocabSize {
				return nil, fmt.Errorf("%w: id %d of input %d at position %d; valid ids are 0 to %d", ErrInput, id, b, t, m.cfg.VocabSize-1)
			}
			k.IDs, k.Mask = append(k.IDs, id), append(k.Mask, seen)
			hides = hides || !seen
		}
	}
	if !hides {
		k.Mask = nil
	}
	return k, nil
}

// writer is a decoder with its caches.
type writer struct {
	m     *Model
	batch int
	cache []nn.KVCache
	cross *cross
}

// newWriter runs the encoder and keeps the keys and values that the decoder sees
// of it.
func (m *Model) newWriter(ctx context.Context, enc *batch.Call, capacity int) (w *writer, err error) {
	p := run.Begin(ctx, m.dev, m.sessionBytes)
	defer p.End(&err)
	encoder := &pass{Pass: p, cfg: &m.cfg, stack: m.encoder, call: enc, keys: enc.Length, mask: enc.Mask}
	h, err := encoder.run()
	if err != nil {
		return nil, err
	}
	w = &writer{m: m, batch: enc.Batch, cross: &cross{keys: enc.Length, mask: enc.Mask}}
	for i := range m.decoder.layers {
		l := &m.decoder.layers[i]
		own, err := m.dev.NewKVCache(enc.Batch, m.cfg.inner(), capacity)
		if err != nil {
			return nil, err
		}
		seen, err := m.dev.NewKVCache(enc.Batch, m.cfg.inner(), enc.Length)
		if err != nil {
			return nil, err
		}
		if err := p.Room(8*float64(enc.Rows()*m.cfg.inner()), &h); err != nil {
			return nil, err
		}
		p.S.Append(seen, l.crossK.Forward(p.S, h), l.crossV.Forward(p.S, h))
		w.cache, w.cross.cache = append(w.cache, own), append(w.cross.cache, seen)
	}
	return w, p.S.Err()
}

// step appends one token per sequence and returns the logits of the next ones.
func (w *writer) step(ctx context.Context, ids []int) (logits []float32, err error) {
	p := run.Begin(ctx, w.m.dev, w.m.sessionBytes)
	defer p.End(&err)
	call := &batch.Call{Batch: w.batch, Length: 1, IDs: ids}
	decoder := &pass{Pass: p, cfg: &w.m.cfg, stack: w.m.decoder, call: call, keys: w.cache[0].Len() + 1, cache: w.cache, cross: w.cross}
	h, err := decoder.run()
	if err != nil {
		return nil, err
	}
	t, err := p.Logits(call, h, w.m.head, w.m.cfg.VocabSize)
	if err != nil {
		return nil, err
	}
	return architectures.Floats(t), nil
}
