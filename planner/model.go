package planner

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Checkpoint is what a plan is made from.
type Checkpoint struct {
	// Name tells several checkpoints of a repository apart, such as "transformer";
	// empty when there is one.
	Name string
	// Config is the text of config.json, nil when there is none.
	Config []byte
	// Files are the safetensors files.
	Files []File
	// Tensors are all tensors of the files.
	Tensors []Tensor
}

// File is a safetensors file.
type File struct {
	Name string `json:"name"`
	// Size is its length in bytes, header included.
	Size int64 `json:"size"`
}

// Tensor is an entry of a header.
type Tensor struct {
	Name string
	// DType is the element type as the header spells it. Types that package tensor
	// does not know are counted and never planned for.
	DType string
	Shape tensor.Shape
	// Bytes is the length of the values.
	Bytes int64
}

// FromLoader describes an open checkpoint. Only its headers are looked at.
func FromLoader(c *loader.Checkpoint, config []byte) (Checkpoint, error) {
	out := Checkpoint{Config: config}
	for _, f := range c.Files() {
		out.Files = append(out.Files, File{f.Name, f.Size})
	}
	for _, name := range c.Names() {
		info, err := c.Info(name)
		if err != nil {
			return Checkpoint{}, err
		}
		out.Tensors = append(out.Tensors, Tensor{name, info.DTypeName, info.Shape, info.Bytes()})
	}
	return out, nil
}

// Amount counts stored elements and their bytes.
type Amount struct {
	Values int64 `json:"values"`
	Bytes  int64 `json:"bytes"`
}

func (a Amount) plus(b Amount) Amount  { return Amount{a.Values + b.Values, a.Bytes + b.Bytes} }
func (a Amount) minus(b Amount) Amount { return Amount{a.Values - b.Values, a.Bytes - b.Bytes} }
func (a Amount) times(n int64) Amount  { return Amount{a.Values * n, a.Bytes * n} }

// model is a checkpoint with its names indexed.
type model struct {
	tensors []Tensor
	values  []int64
	index   map[string]int
	total   Amount
	config  config
	parsed  architectures.Config // zero without a config
}

func newModel(c Checkpoint) (*model, error) {
	m := &model{tensors: c.Tensors, values: make([]int64, len(c.Tensors)), index: make(map[string]int, len(c.Tensors))}
	for i, t := range c.Tensors {
		n, err := t.Shape.Elements()
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if _, twice := m.index[t.Name]; twice {
			return nil, fmt.Errorf("tensor %q is listed twice", t.Name)
		}
		if t.Bytes < 0 || m.total.Bytes+t.Bytes < m.total.Bytes || m.total.Values+int64(n) < m.total.Values {
			return nil, fmt.Errorf("tensor %q: the sum of all sizes is too large", t.Name)
		}
		m.index[t.Name], m.values[i] = i, int64(n)
		m.total = m.total.plus(Amount{int64(n), t.Bytes})
	}
	if c.Config == nil {
		return m, nil
	}
	parsed, err := architectures.ParseConfig(c.Config)
	if err != nil {
		return nil, err
	}
	m.parsed = parsed
	if err := json.Unmarshal(c.Config, &m.config); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	return m, nil
}

func (m *model) amount(at int) Amount { return Amount{m.values[at], m.tensors[at].Bytes} }

func (m *model) sum(at []int) Amount {
	var a Amount
	for _, i := range at {
		a = a.plus(m.amount(i))
	}
	return a
}

// find returns the tensors that match any of the patterns, each once, in file
// order.
func (m *model) find(patterns ...string) []int {
	var all []int
	for _, p := range patterns {
		all = append(all, m.match(p)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (m *model) match(p string) []int {
	if at, ok := m.index[p]; ok {
		return []int{at}
	}
	c := compile(p)
	var out []int
	for i, t := range m.tensors {
		if c.match(t.Name) {
			out = append(out, i)
		}
	}
	return out
}

// has reports whether each pattern matches at least one tensor.
func (m *model) has(patterns ...string) bool {
	for _, p := range patterns {
		if len(m.match(p)) == 0 {
			return false
		}
	}
	return true
}

// config is config.json, looked at field by field.
type config map[string]any

// text returns a field that is a string.
func (c config) text(key string) string {
	s, _ := c[key].(string)
	return s
}

// number returns a field that is an integer, or 0.
func (c config) number(key string) int64 {
	f, _ := c[key].(float64)
	if f != float64(int64(f)) || f < 0 || f > 1<<52 {
		return 0
	}
	return int64(f)
}

// truth returns a field that is true or false, or otherwise when it is absent.
func (c config) truth(key string, otherwise bool) bool {
	if b, ok := c[key].(bool); ok {
		return b
	}
	return otherwise
}
