package compress

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/validation"
)

// outputDigests maps output names to the SHA-256 of dtype, shape and bytes.
type outputDigests map[string]string

// digestOutputs hashes every output of one call.
func digestOutputs(out architectures.Outputs) outputDigests {
	d := make(outputDigests, len(out))
	for _, o := range out {
		h := sha256.New()
		writeField(h, []byte(o.Tensor.DType().String()))
		writeField(h, []byte(o.Tensor.Shape().String()))
		writeField(h, o.Tensor.Bytes())
		d[o.Name] = hex.EncodeToString(h.Sum(nil))
	}
	return d
}

// writeField hashes a length before its bytes, so that no two lists of fields
// look alike.
func writeField(h hash.Hash, data []byte) {
	fmt.Fprintf(h, "%d:", len(data))
	h.Write(data)
}

// recordedOutputs are the digests of a model's outputs on one example.
type recordedOutputs struct {
	Example string        `json:"example"`
	SHA256  outputDigests `json:"sha256"`
}

// record runs a model on every example and keeps the digests of its outputs.
// progress may be nil.
func record(ctx context.Context, model architectures.Model, examples []validation.Example, progress func(done, total int, example string)) ([]recordedOutputs, error) {
	recorded := make([]recordedOutputs, 0, len(examples))
	for i, e := range examples {
		out, err := model.Forward(ctx, e.Inputs)
		if err != nil {
			return nil, fmt.Errorf("example %q: %w", e.Name, err)
		}
		recorded = append(recorded, recordedOutputs{e.Name, digestOutputs(out)})
		if progress != nil {
			progress(i+1, len(examples), e.Name)
		}
	}
	return recorded, nil
}
