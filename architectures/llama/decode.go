package llama

import (
	"context"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
)

// maxCacheValues bounds a decoder's keys and values, at 256 GiB.
const maxCacheValues = 1 << 36

// Decoder runs a batch of sequences a few positions at a time and keeps the keys
// and values of the positions before. It belongs to one goroutine; a model may
// have many.
type Decoder struct {
	m     *Model
	cache *cache
}

// NewDecoder returns a decoder for batch sequences of at most capacity
// positions, none of them filled.
func (m *Model) NewDecoder(batch, capacity int) (*Decoder, error) {
	if batch < 1 || batch > maxCallTokens {
		return nil, fmt.Errorf("%w: a batch of %d; expected 1 to %d", ErrInput, batch, maxCallTokens)
	}
	if capacity < 1 || capacity > maxPositions {
		return nil, fmt.Errorf("%w: a capacity of %d positions; expected 1 to %d", ErrInput, capacity, maxPositions)
	}
	width := m.cfg.KVHeads * m.cfg.HeadDim
	values := 2 * float64(width) * float64(m.cfg.Layers) * float64(batch) * float64(capacity)
	if values > maxCacheValues {
		return nil, fmt.Errorf("%w: %d sequences of %d positions: %.0f values of keys and values; the limit is %d",
			ErrInput, batch, capacity, values, int64(maxCacheValues))
	}
	d := &Decoder{m: m, cache: &cache{batch: batch}}
	for range m.layers {
		kv, err := m.dev.NewKVCache(batch, width, capacity)
		if err != nil {
			return nil, err
		}
		d.cache.layers = append(d.cache.layers, kv)
	}
	return d, nil
}

// Len returns the number of positions held.
func (d *Decoder) Len() int { return d.cache.len() }

// Capacity returns the number of positions that there is room for.
func (d *Decoder) Capacity() int { return d.cache.layers[0].Capacity() }

// Truncate drops the positions from n on, so that another continuation can be
// tried from there.
func (d *Decoder) Truncate(n int) {
	if n < d.Len() {
		d.cache.truncate(max(n, 0))
	}
}

// Step appends the positions of in and returns their outputs, as
// [Model.Forward] would on the whole sequences so far: input_ids is [batch,
// steps], attention_mask covers the new positions only (those before keep
// theirs), and position_ids count on from Len by default. With output_attentions
// the weights are [batch, heads, steps, Len]. After an error the decoder is as it
// was before.
func (d *Decoder) Step(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	return d.step(ctx, in, false)
}

func (d *Decoder) step(ctx context.Context, in architectures.Inputs, lastOnly bool) (architectures.Outputs, error) {
	before := d.Len()
	k, err := d.check(in)
	if err != nil {
		return nil, err
	}
	k.lastOnly = lastOnly
	d.cache.extend(k)
	out, err := d.m.run(ctx, k, d.cache)
	if err != nil {
		d.cache.truncate(before)
		return nil, err
	}
	return out, nil
}

// check parses a step's inputs against the decoder's state.
func (d *Decoder) check(in architectures.Inputs) (*call, error) {
	k, err := d.m.cfg.parse(in, d.Len())
	if err != nil {
		return nil, err
	}
	if k.batch != d.cache.batch {
		return nil, fmt.Errorf("%w: %s: expected %d sequences, found %d", ErrInput, inputIDs, d.cache.batch, k.batch)
	}
	if room := d.Capacity() - d.Len(); k.length > room {
		return nil, fmt.Errorf("%w: %s: %d positions, but the cache has room for %d of %d", ErrInput, inputIDs, k.length, room, d.Capacity())
	}
	return k, nil
}

// cache is the keys and values of all layers, and which positions are visible.
type cache struct {
	batch  int
	layers []nn.KVCache
	// seen has one row of flags per sequence; hides counts the false ones.
	seen  [][]bool
	hides int
}

// len is the number of positions that every layer holds.
func (c *cache) len() int { return c.layers[len(c.layers)-1].Len() }

// visible is the number of positions that the mask covers; while a call is under
// way, layers that it has not reached yet hold fewer.
func (c *cache) visible() int { return len(c.seen[0]) }

// extend appends the call's mask.
func (c *cache) extend(k *call) {
	if c.seen == nil {
		c.seen = make([][]bool, c.batch)
	}
	for b := range c.seen {
		for t := range k.length {
			see := k.mask == nil || k.mask[b*k.length+t]
			c.seen[b] = append(c.seen[b], see)
			if !see {
				c.hides++
			}
		}
	}
}

// truncate drops positions in every layer and in the mask.
func (c *cache) truncate(n int) {
	for _, l := range c.layers {
		if l.Len() > n {
			l.Truncate(n)
		}
	}
	c.hides = 0
	for b := range c.seen {
		c.seen[b] = c.seen[b][:min(n, len(c.seen[b]))]
		for _, see := range c.seen[b] {
			if !see {
				c.hides++
			}
		}
	}
}

// mask returns the mask [batch, visible] in the form that attention takes.
func (c *cache) mask() []bool {
	if c.hides == 0 {
		return nil
	}
	return slices.Concat(c.seen...)
}
