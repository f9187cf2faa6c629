package planner

import (
	"fmt"
	"strings"

	"github.com/hfcompress/compress/internal/thousands"
	"github.com/hfcompress/compress/tensor"
)

// Names only suggest; these words are where an observation begins, never where
// a pass does.
var (
	embeddingWords  = []string{"embed", "wte", "word_emb"}
	modulationWords = []string{"mod", "adaln", "ada_ln", "norm", "scale_shift"}
)

const (
	// worthNoting is the least number of bytes that is worth a sentence.
	worthNoting = 1 << 16
	// mostObservations bounds the list for files with many kinds of tensors.
	mostObservations = 20
)

// group is tensors that differ in the numbers of their names alone.
type group struct {
	pattern string
	at      []int
}

// groups gathers the tensors of equal name pattern, type and shape, in file
// order.
func (m *model) groups() []group {
	index := map[string]int{}
	var out []group
	for i, t := range m.tensors {
		pattern := withoutNumbers(t.Name)
		key := fmt.Sprintf("%s %s %v", pattern, t.DType, t.Shape)
		at, ok := index[key]
		if !ok {
			at = len(out)
			index[key] = at
			out = append(out, group{pattern: pattern})
		}
		out[at].at = append(out[at].at, i)
	}
	return out
}

// withoutNumbers writes # for each number between dots.
func withoutNumbers(name string) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		if p != "" && strings.Trim(p, "0123456789") == "" {
			parts[i] = "#"
		}
	}
	return strings.Join(parts, ".")
}

func contains(name string, words []string) bool {
	name = strings.ToLower(name)
	for _, w := range words {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// unknown notes what can be said of a checkpoint without its family.
func (p *Plan) unknown(m *model) {
	p.Notes = append(p.Notes, fmt.Sprintf("unknown family: %s; what can be said from the tensors alone follows, and none of it is a plan", m.callsItself()))
	for _, g := range m.groups() {
		for _, look := range []func(*model, group) string{equalBuffers, tokenRows, wideRows, modulations} {
			says := look(m, g)
			if says == "" {
				continue
			}
			if len(p.Observations) == mostObservations {
				p.Notes = append(p.Notes, fmt.Sprintf("only the first %d observations are listed", mostObservations))
				return
			}
			p.Observations = append(p.Observations, Observation{says, g.pattern, len(g.at), m.sum(g.at)})
		}
	}
	if len(p.Observations) == 0 {
		p.Notes = append(p.Notes, "no tensor looks like an embedding, a modulation or a repeated buffer")
	}
}

// callsItself says how a configuration names its model.
func (m *model) callsItself() string {
	switch {
	case m.parsed.Raw == nil:
		return "there is no config.json"
	case m.config.text("_class_name") != "":
		return fmt.Sprintf("config.json has _class_name %.80q", m.config.text("_class_name"))
	case m.parsed.ModelType == "" && len(m.parsed.Architectures) == 0:
		return "config.json has neither model_type nor architectures"
	}
	architectures := m.parsed.Architectures
	if len(architectures) > 4 {
		architectures = architectures[:4]
	}
	return fmt.Sprintf("config.json has model_type %.80q and architectures %.200q", m.parsed.ModelType, architectures)
}

// equalBuffers notes tensors that look like masks or buffers of every layer.
func equalBuffers(m *model, g group) string {
	t := &m.tensors[g.at[0]]
	d, err := tensor.ParseDType(t.DType)
	buffer := err == nil && (d == tensor.Bool || d == tensor.U8 && len(t.Shape) >= 2) || len(t.Shape) >= 2 && t.Shape[0] == 1 && len(g.at) > 1
	if !buffer || t.Bytes*int64(len(g.at)) < worthNoting {
		return ""
	}
	if len(g.at) == 1 {
		return fmt.Sprintf("a %s%v of %s bytes may be a mask that can be computed: needs the bytes", t.DType, t.Shape, thousands.Group(t.Bytes))
	}
	return fmt.Sprintf("%d tensors %s%v may be equal; stored once they would save %s bytes: needs the bytes",
		len(g.at), t.DType, t.Shape, thousands.Group(t.Bytes*int64(len(g.at)-1)))
}

// tokenRows notes embeddings, and whether a table of the first layer's outputs
// could pay.
func tokenRows(m *model, g group) string {
	t := &m.tensors[g.at[0]]
	if len(g.at) != 1 || len(t.Shape) != 2 || size(t.DType) == 0 || !contains(t.Name, embeddingWords) || t.Shape[0] < 2 || t.Shape[1] < 2 {
		return ""
	}
	v, d := int64(t.Shape[0]), int64(t.Shape[1])
	says := fmt.Sprintf("if this is a token embedding that is normalised and read by linears, a table pays for fewer than %s ids in a layer whose MLP follows attention, and for fewer than about %s where it stands beside it; here are %s", thousands.Group(d), thousands.Group(d*11/4), thousands.Group(v))
	switch {
	case v < d:
		return says + ": it could pay"
	case 4*v < 11*d:
		return says + ": it could pay in the second case alone"
	}
	return says + ": refused"
}

// wideRows notes a wide table beside a projection to a narrower width.
func wideRows(m *model, g group) string {
	t := &m.tensors[g.at[0]]
	if len(g.at) != 1 || len(t.Shape) != 2 || size(t.DType) == 0 || t.Shape[0] < 4*t.Shape[1] || t.Bytes < worthNoting {
		return ""
	}
	for i := range m.tensors {
		w := &m.tensors[i]
		if len(w.Shape) != 2 || size(w.DType) == 0 || w.Shape[1] != t.Shape[1] || w.Shape[0]*2 > w.Shape[1] || w.Shape[0] < 16 || contains(w.Name, embeddingWords) {
			continue
		}
		saved := int64(t.Shape[0]) * (int64(t.Shape[1])*size(t.DType) - int64(w.Shape[0])*size(w.DType))
		if saved <= 0 {
			continue
		}
		return fmt.Sprintf("if only %s reads it, which makes %s columns of %s, a table of the results saves about %s bytes",
			w.Name, thousands.Group(int64(w.Shape[0])), thousands.Group(int64(w.Shape[1])), thousands.Group(saved))
	}
	return ""
}

// modulations notes linears that look like modulations by a timestep.
func modulations(m *model, g group) string {
	t := &m.tensors[g.at[0]]
	if len(g.at) < 2 || len(t.Shape) != 2 || size(t.DType) == 0 || !contains(t.Name, modulationWords) || t.Shape[0] <= t.Shape[1] || t.Shape[1] < 16 {
		return ""
	}
	sum := m.sum(g.at)
	return fmt.Sprintf("if the input of these %d linears is a function of a timestep alone, a table of T timesteps takes %s bytes each in place of %s bytes; it pays up to T = %s",
		len(g.at), thousands.Group(int64(t.Shape[0])*int64(len(g.at))*size(t.DType)), thousands.Group(sum.Bytes), thousands.Group(int64(t.Shape[1])-1))
}
