package esm

import (
	"fmt"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Where checkpoints keep the rotary frequencies: once, or beside every layer.
const (
	frequenciesName   = "esm.rotary_embeddings.inv_freq"
	frequenciesPrefix = "esm.encoder.layer."
	frequenciesSuffix = ".attention.self.rotary_embeddings.inv_freq"
)

// storedFrequencies is the tensor that the reference reads the rotary frequencies
// from: the one of the whole model or else that of the first layer by name; empty
// when the checkpoint has none. The frequencies of the published checkpoints were
// rounded to F16 once: those that the formula gives would move the outputs of a
// trained model by 5·10⁻⁴ of their size.
func storedFrequencies(have []string) string {
	first := ""
	for _, name := range have {
		if name == frequenciesName {
			return name
		}
		if strings.HasPrefix(name, frequenciesPrefix) && strings.HasSuffix(name, frequenciesSuffix) && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// frequencyParams declares the stored frequencies, and those beside the other
// layers, which are not read.
func (b *Blueprint) frequencyParams() []loader.Param {
	c := &b.cfg
	names := []string{frequenciesName, frequenciesPrefix + "*" + frequenciesSuffix}
	for i := range c.Layers {
		names = append(names, strings.TrimSuffix(layerName(i), ".")+frequenciesSuffix)
	}
	var out []loader.Param
	for _, name := range names {
		p := loader.Param{Name: name, Ignored: true}
		if name == b.frequencies {
			p = loader.Param{Name: name, Shape: tensor.Shape{c.headDim() / 2}, DTypes: []tensor.DType{c.DType}}
			if c.DType != tensor.F32 { // rounded when they are read
				p.DTypes = append(p.DTypes, tensor.F32)
			}
		}
		out = append(out, p)
	}
	return out
}

// readFrequencies returns the angle per position of each pair, in the type that
// the model computes in: the stored one, or by the formula.
func (b *Blueprint) readFrequencies(weights architectures.Weights) (freq []float32, err error) {
	c := &b.cfg
	if b.frequencies == "" {
		if freq, err = c.Rope.InverseFrequencies(); err != nil {
			return nil, err
		}
	} else {
		t, err := weights.Tensor(b.frequencies)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", b.frequencies, err)
		}
		if want := (tensor.Shape{c.headDim() / 2}); t == nil || !t.Shape().Equal(want) || t.DType() != c.DType && t.DType() != tensor.F32 {
			return nil, fmt.Errorf("tensor %s: %w: expected %s%v, found %v", b.frequencies, tensor.ErrShape, c.DType, want, t)
		}
		freq = append(freq, architectures.Floats(t)...) // weights may be mapped and go
	}
	rounding(c.DType)(freq)
	return freq, nil
}

// rotary returns cosines and sines, F32 in each type, since the reference turns
// in F32. In a 16-bit model they are rounded to its type, as the frequencies are:
// the reference keeps them as a tensor of the checkpoint.
func (m *Model) rotary(positions []int) (cos, sin *tensor.Tensor, err error) {
	if cos, sin, err = nn.RotaryTables(m.frequencies, positions); err != nil {
		return nil, nil, err
	}
	round := rounding(m.cfg.DType)
	round(cos.Float32s())
	round(sin.Float32s())
	return cos, sin, nil
}
