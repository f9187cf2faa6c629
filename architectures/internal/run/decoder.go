package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/nn"
)

// maxCacheValues bounds a decoder's keys and values, at 256 GiB in float32.
const maxCacheValues = 1 << 36

// Causal is what a decoder needs of a model.
type Causal struct {
	Dev nn.Device
	// Layers is the number of caches and Width that of keys and of values.
	Layers, Width int
	Limits        batch.Limits
	// EndTokens ends a generated sequence; Fill is the id of hidden positions.
	EndTokens []int
	Fill      int
	// Run evaluates a checked call behind the positions that the cache holds.
	Run func(ctx context.Context, k *batch.Call, c *Cache) (architectures.Outputs, error)
}

// Decoder runs a batch of sequences a few positions at a time and keeps the keys
// and values of the positions before. It belongs to one goroutine; a model may
// have many.
type Decoder struct {
	m     *Causal
	cache *Cache
}

// NewDecoder returns a decoder for batch sequences of at most capacity
// positions, none of them filled.
func (m *Causal) NewDecoder(sequences, capacity int) (*Decoder, error) {
	if sequences < 1 || sequences > batch.MaxTokens {
		return nil, fmt.Errorf("%w: a batch of %d; expected 1 to %d", batch.ErrInput, sequences, batch.MaxTokens)
	}
	if capacity < 1 || capacity > batch.MaxPositions {
		return nil, fmt.Errorf("%w: a capacity of %d positions; expected 1 to %d", batch.ErrInput, capacity, batch.MaxPositions)
	}
	values := 2 * float64(m.Width) * float64(m.Layers) * float64(sequences) * float64(capacity)
	if values > maxCacheValues {
		return nil, fmt.Errorf("%w: %d sequences of %d positions: %.0f values of keys and values; the limit is %d",
			batch.ErrInput, sequences, capacity, values, int64(maxCacheValues))
	}
	d := &Decoder{m: m, cache: &Cache{batch: sequences}}
	for range m.Layers {
		kv, err := m.Dev.NewKVCache(sequences, m.Width, capacity)
		if err != nil {
			return nil, err
		}
		d.cache.Layers = append(d.cache.Layers, kv)
	}
	return d, nil
}

// Len returns the number of positions held.
func (d *Decoder) Len() int { return d.cache.len() }

// Capacity returns the number of positions that there is room for.
func (d *Decoder) Capacity() int { return d.cache.Layers[0].Capacity() }

// Truncate drops the positions from n on, so that another continuation can be
// tried from there.
func (d *Decoder) Truncate(n int) {
	if n < d.Len() {
		d.cache.truncate(max(n, 0))
	}
}

// Step appends the positions of in and returns their outputs, as the model's
// Forward would on the whole sequences so far: input_ids is [batch, steps],
// attention_mask covers the new positions only (those before keep theirs), and
// position_ids count on from Len by default. With output_attentions the weights
// are [batch, heads, steps, Len]. After an error the decoder is as it was before.
func (d *Decoder) Step(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	return d.step(ctx, in, false)
}

func (d *Decoder) step(ctx context.Context, in architectures.Inputs, lastOnly bool) (architectures.Outputs, error) {
	before := d.Len()
	k, err := d.check(in)
	if err != nil {
		return nil, err
	}
	k.LastOnly = lastOnly
	d.cache.extend(k)
	out, err := d.m.Run(ctx, k, d.cache)
	if err != nil {
		d.cache.truncate(before)
		return nil, err
	}
	return out, nil
}

// check parses a step's inputs against the decoder's state.
func (d *Decoder) check(in architectures.Inputs) (*batch.Call, error) {
	k, err := d.m.Limits.Parse(in, d.Len())
	if err != nil {
		return nil, err
	}
	if k.Batch != d.cache.batch {
		return nil, fmt.Errorf("%w: %s: expected %d sequences, found %d", batch.ErrInput, batch.IDs, d.cache.batch, k.Batch)
	}
	if room := d.Capacity() - d.Len(); k.Length > room {
		return nil, fmt.Errorf("%w: %s: %d positions, but the cache has room for %d of %d", batch.ErrInput, batch.IDs, k.Length, room, d.Capacity())
	}
	return k, nil
}

// Cache is the keys and values of all layers, and which positions are visible.
type Cache struct {
	Layers []nn.KVCache

	batch int
	// seen has one row of flags per sequence; hides counts the false ones.
	seen  [][]bool
	hides int
}

// len is the number of positions that every layer holds.
func (c *Cache) len() int { return c.Layers[len(c.Layers)-1].Len() }

// Visible is the number of positions that the mask covers; while a call is under
// way, layers that it has not reached yet hold fewer.
func (c *Cache) Visible() int { return len(c.seen[0]) }

// extend appends the call's mask.
func (c *Cache) extend(k *batch.Call) {
	if c.seen == nil {
		c.seen = make([][]bool, c.batch)
	}
	for b := range c.seen {
		for t := range k.Length {
			see := k.Mask == nil || k.Mask[b*k.Length+t]
			c.seen[b] = append(c.seen[b], see)
			if !see {
				c.hides++
			}
		}
	}
}

// truncate drops positions in every layer and in the mask.
func (c *Cache) truncate(n int) {
	for _, l := range c.Layers {
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

// Mask returns the mask [batch, Visible] in the form that attention takes.
func (c *Cache) Mask() []bool {
	if c.hides == 0 {
		return nil
	}
	return slices.Concat(c.seen...)
}

// Keys is the number of positions that attention runs over, and the mask of
// them, for a call with or without a cache.
func Keys(k *batch.Call, c *Cache) (keys int, mask []bool) {
	if c == nil {
		return k.Length, k.Mask
	}
	return c.Visible(), c.Mask()
}

// Attend gives attention its keys and values: those of the call, or with a cache
// those of all positions after appending to it.
func (c *Cache) Attend(s nn.Session, layer int, in nn.AttentionInput) nn.AttentionOutput {
	if c != nil {
		s.Append(c.Layers[layer], in.K, in.V)
		in.K, in.V, in.Cache = nil, nil, c.Layers[layer]
	}
	return s.Attention(in)
}
