package llama

import (
	"context"

	"github.com/hfcompress/compress/architectures/internal/run"
)

// Decoder runs a batch of sequences a few positions at a time and keeps the keys
// and values of the positions before. It belongs to one goroutine; a model may
// have many.
type Decoder = run.Decoder

// causal is the model as decoders see it.
func (m *Model) causal() *run.Causal {
	return &run.Causal{
		Dev: m.dev, Layers: len(m.layers), Width: m.cfg.KVHeads * m.cfg.HeadDim,
		Limits: m.cfg.limits(), EndTokens: m.cfg.EndTokens, Fill: m.cfg.fillToken(),
		Run: m.run,
	}
}

// NewDecoder returns a decoder for batch sequences of at most capacity
// positions, none of them filled.
func (m *Model) NewDecoder(batch, capacity int) (*Decoder, error) {
	return m.causal().NewDecoder(batch, capacity)
}

// Generate continues each prompt by up to maxNew tokens, each the most likely
// one, and returns prompts and continuations together. A sequence ends with one
// of the configuration's end tokens, which is included. Prompts may differ in
// length: shorter ones are padded on the left, hidden from attention, and their
// positions count from their first token.
func (m *Model) Generate(ctx context.Context, prompts [][]int, maxNew int) ([][]int, error) {
	return m.causal().Generate(ctx, prompts, maxNew)
}
