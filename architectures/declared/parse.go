package declared

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/strictjson"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Version is the version of architecture files that this package reads.
const Version = 1

// Bounds on what a file may ask for. They keep every product of two sizes, in
// bytes, within 63 bits.
const (
	maxFileBytes = 1 << 20
	maxName      = 200
	maxRows      = 1 << 24
	maxWidth     = 1 << 20
	maxPositions = 1 << 24 // float32 counts exactly up to here
	maxBlocks    = 64
	maxBranches  = 64
	maxChain     = 64
	maxDepth     = 6
	maxRepeat    = 1 << 10
	maxRepeated  = 16 << 20 // bytes of a repetition's steps, times its count
	maxNodes     = 1 << 14  // layers and steps, repetitions counted
	maxOutputs   = 64
	maxPatterns  = 256
)

type rawLayer = json.RawMessage

// dtypes are the element types in which a model may compute.
var dtypes = map[string]tensor.DType{"F32": tensor.F32, "BF16": tensor.BF16, "F16": tensor.F16}

// ReadFile reads an architecture file; see [Parse]. It also returns the bytes,
// which a package keeps.
func ReadFile(path string) (*Blueprint, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	b, err := Parse(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, data, nil
}

// Parse reads an architecture file. Every error wraps [ErrFile] and names the
// place in the file: unknown or repeated keys, null, sizes out of bounds, widths
// that do not fit, values that nothing made or nothing reads, tensors that are
// bound to two shapes.
func Parse(data []byte) (*Blueprint, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrFile, maxFileBytes)
	}
	if err := strictjson.Check(data, strictjson.Options{NoNull: true}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	p := &parser{b: &Blueprint{}, bound: map[string]*binding{}}
	p.file(newReader(data, &p.err))
	if p.err != nil {
		return nil, p.err
	}
	return p.b, nil
}

// parser turns a file into a blueprint.
type parser struct {
	b   *Blueprint
	err error
	// nodes counts layers and steps, and bound what each tensor is bound to.
	nodes int
	bound map[string]*binding
	// user is the block being parsed, empty in the steps, and index the number of
	// the repetition, -1 outside of one.
	user  string
	index int
}

// binding is a tensor's place in the file.
type binding struct {
	path  string
	param int
	users map[string]bool
}

func (p *parser) file(r *reader) {
	b := p.b
	if v := r.integer("version", required, 0, maxRows); p.err == nil && v != Version {
		r.fail("version", "%d; this program reads version %d", v, Version)
	}
	p.index = -1
	b.name = r.name("name")
	b.dtype = dtypes[r.choice("dtype", "F32", "BF16", "F16")]
	b.vocabulary = r.integer("vocabulary", required, 1, maxRows)
	b.maxPositions = r.integer("max_positions", 0, 1, maxPositions)
	b.pad = r.integer("pad", 0, 0, max(0, b.vocabulary-1))
	b.masks = r.flag("mask")
	_ = r.text("comment", false)
	b.keep, b.ignore = r.texts("keep", maxPatterns), r.texts("ignore", maxPatterns)

	scope := map[string]int{}
	r.objects("blocks", maxBlocks, func(o *reader) { p.block(o, scope) })
	if p.err == nil && len(b.blocks) == 0 {
		r.fail("blocks", "expected at least one block")
	}
	p.user = ""
	p.steps(r, "steps", scope, true)
	r.objects("outputs", maxOutputs, func(o *reader) { p.output(o, scope) })
	if p.err == nil && len(b.outputs) == 0 {
		r.fail("outputs", "expected at least one output")
	}
	r.done()
	if p.err == nil {
		p.unread()
	}
	p.removals()
}

// block parses a finite block, whose outputs become values.
func (p *parser) block(r *reader, scope map[string]int) {
	k := block{path: r.name("path")}
	p.user = "block " + k.path
	for _, other := range p.b.blocks {
		if p.err == nil && other.path == k.path {
			r.fail("path", "%s is used twice", quote(k.path))
		}
	}
	if c := r.text("contract", true); p.err == nil && c != architectures.TokenIndicesOnly {
		r.wrong("contract", quote(architectures.TokenIndicesOnly))
	}
	k.refusal = r.text("refuse", false)
	_ = r.text("comment", false)
	e := r.object("embedding")
	k.width = e.integer("width", required, 1, maxWidth)
	k.embedding = p.tensor(e, "tensor", true, p.b.vocabulary, k.width)
	e.done()
	var width int
	k.prefix, width = p.layers(r, "layers", k.width)
	r.objects("branches", maxBranches, func(o *reader) {
		br := branch{name: o.name("name")}
		br.layers, br.width = p.layers(o, "layers", width)
		o.done()
		k.branches = append(k.branches, br)
		p.value(o, "name", scope, k.path+"."+br.name, value{width: br.width, shown: k.path + "." + br.name})
	})
	if p.err == nil && len(k.branches) == 0 {
		r.fail("branches", "expected at least one branch")
	}
	if r.has("residual") {
		k.residual = r.name("residual")
		p.value(r, "residual", scope, k.path+"."+k.residual, value{width: k.width, shown: k.path + "." + k.residual})
	}
	r.done()
	p.b.blocks = append(p.b.blocks, k)
}

// value enters what a block or step makes and returns its number.
func (p *parser) value(r *reader, key string, scope map[string]int, name string, v value) int {
	if _, taken := scope[name]; taken && p.err == nil {
		r.fail(key, "%s is used twice", quote(name))
	}
	v.name, v.path = name, r.at(key)
	p.b.values = append(p.b.values, v)
	scope[name] = len(p.b.values) - 1
	return scope[name]
}

// use looks up a value by the name that a key gives.
func (p *parser) use(r *reader, key string, scope map[string]int) int {
	return p.find(r, key, r.text(key, true), scope)
}

func (p *parser) find(r *reader, key, name string, scope map[string]int) int {
	if p.err != nil {
		return 0
	}
	i, ok := scope[name]
	if !ok {
		r.fail(key, "there is no %s here; there are: %s", quote(name), some(slices.Sorted(maps.Keys(scope))))
		return 0
	}
	p.b.values[i].read = true
	return i
}

// some writes names for an error, at most a few.
func some(names []string) string {
	const most = 24
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// tensor binds a tensor by name to a shape. In a repetition {i} stands for its
// number.
func (p *parser) tensor(r *reader, key string, must bool, shape ...int) string {
	name := r.text(key, must)
	if name == "" || p.err != nil {
		return ""
	}
	if strings.Contains(name, "{i}") {
		if p.index < 0 {
			r.fail(key, "%s: {i} has a meaning in a repetition only", quote(name))
			return ""
		}
		name = strings.ReplaceAll(name, "{i}", fmt.Sprint(p.index))
	}
	if _, err := tensor.Shape(shape).Bytes(p.b.dtype); err != nil {
		r.fail(key, "%s: %v", quote(name), err)
		return ""
	}
	at := p.bound[name]
	if at == nil {
		at = &binding{path: r.at(key), param: len(p.b.params), users: map[string]bool{}}
		p.bound[name] = at
		p.b.params = append(p.b.params, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{p.b.dtype}})
	} else if have := p.b.params[at.param].Shape; !have.Equal(tensor.Shape(shape)) {
		r.fail(key, "%s is bound to shape %v here and to %v at %s", quote(name), tensor.Shape(shape), have, at.path)
	}
	at.users[p.user] = true
	return name
}

// array splits a JSON array.
func (p *parser) array(path string, v json.RawMessage) []json.RawMessage {
	o := &reader{path: path, fields: map[string]json.RawMessage{"": v}, known: map[string]bool{}, sink: &p.err}
	var all []json.RawMessage
	if p.err != nil {
		return nil
	}
	if json.Unmarshal(v, &all) != nil || len(all) > maxChain {
		o.failAt(path, "expected a list of at most %d layers, found %s", maxChain, snippet(v))
		return nil
	}
	return all
}

func (p *parser) output(r *reader, scope map[string]int) {
	o := output{name: r.name("name"), from: p.use(r, "from", scope)}
	for _, other := range p.b.outputs {
		if p.err == nil && other.name == o.name {
			r.fail("name", "%s is used twice", quote(o.name))
		}
	}
	if p.err == nil {
		o.decides = r.integer("decides", 0, 1, max(1, p.b.values[o.from].width-1))
	}
	r.done()
	p.b.outputs = append(p.b.outputs, o)
}

// unread refuses what was declared for nothing: it would be bound, loaded and
// counted, and never compared.
func (p *parser) unread() {
	for _, v := range p.b.values {
		if !v.read && !v.inner {
			p.err = fmt.Errorf("%w: %s: nothing reads %s", ErrFile, v.path, quote(v.name))
			return
		}
	}
}

// removals finds the tensors that only one block reads, and nothing else.
func (p *parser) removals() {
	for i := range p.b.blocks {
		k := &p.b.blocks[i]
		for _, param := range p.b.params {
			users := p.bound[param.Name].users
			if len(users) != 1 || !users["block "+k.path] {
				continue
			}
			if param.Name == k.embedding {
				k.owns = true
				if k.residual != "" {
					continue
				}
			}
			k.removes = append(k.removes, param.Name)
		}
	}
}

// branchOutputs lists the branches of a block as a compiled one has them.
func (k *block) branchOutputs(d tensor.DType) []nn.Output {
	var out []nn.Output
	for _, b := range k.branches {
		out = append(out, nn.Output{Name: b.name, Width: b.width, DType: d})
	}
	return out
}

// allOutputs lists the residual too.
func (k *block) allOutputs(d tensor.DType) []nn.Output {
	out := k.branchOutputs(d)
	if k.residual != "" {
		out = append(out, nn.Output{Name: k.residual, Width: k.width, DType: d})
	}
	return out
}
