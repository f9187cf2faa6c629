package compress

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/validation"
)

// recordedOutputs are the digests of a model's outputs on one example.
type recordedOutputs struct {
	Example string            `json:"example"`
	SHA256  map[string]string `json:"sha256"`
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
		recorded = append(recorded, recordedOutputs{e.Name, validation.OutputDigests(out)})
		if progress != nil {
			progress(i+1, len(examples), e.Name)
		}
	}
	return recorded, nil
}

// recordedBy takes the digests from the comparison in which the model was the
// candidate, or nil when that did not see all examples.
func recordedBy(gate *validation.Report) []recordedOutputs {
	if gate == nil || gate.Compared != gate.Examples {
		return nil
	}
	var recorded []recordedOutputs
	for _, e := range gate.Results {
		if e.Digests == nil {
			return nil
		}
		recorded = append(recorded, recordedOutputs{e.Example, e.Digests})
	}
	return recorded
}
