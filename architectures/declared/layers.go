package declared

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// The operations of layers. All of them are row-local: a row of the result is a
// function of one row.
const (
	opLinear     = "linear"
	opLayerNorm  = "layernorm"
	opRMSNorm    = "rmsnorm"
	opActivation = "activation"
	opNormalize  = "normalize"
	opScale      = "scale"
	opColumns    = "columns"
	opSum        = "sum"
	opProduct    = "product"
)

// layer is a parsed row-local layer of known widths.
type layer struct {
	op           string
	in, out      int
	weight, bias string
	eps          float32
	function     nn.Unary
	by           float32
	start        int
	transposed   bool
	of           [][]layer
}

// functions maps the names of elementwise functions to what a device computes.
var functions = map[string]nn.Unary{
	"silu": nn.SiLU, "gelu": nn.GELU, "gelu_tanh": nn.GELUTanh, "relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid,
	"gelu_stepwise": nn.GELUStepwise, "gelu_tanh_stepwise": nn.GELUTanhStepwise,
}

// layers parses a chain of layers for rows of a width and returns the width of
// the result.
func (p *parser) layers(r *reader, key string, width int) ([]layer, int) {
	return p.chain(r.at(key), r.list(key, maxChain), width, 0)
}

func (p *parser) chain(path string, all []rawLayer, width, depth int) ([]layer, int) {
	var out []layer
	for i, v := range all {
		r := child(fmt.Sprintf("%s[%d]", path, i), v, &p.err)
		if p.nodes++; p.nodes > maxNodes {
			r.failAt(r.path, "more than %d layers and steps in all", maxNodes)
		}
		if p.err != nil {
			return nil, width
		}
		l := p.layer(r, width, depth)
		if r.done(); p.err != nil {
			return nil, width
		}
		out = append(out, l)
		width = l.out
	}
	return out, width
}

func (p *parser) layer(r *reader, width, depth int) layer {
	l := layer{op: r.text("op", true), in: width, out: width}
	switch l.op {
	case opLinear:
		l.out = r.integer("out", required, 1, maxWidth)
		if l.transposed = r.flag("transposed"); l.transposed {
			l.weight = p.tensor(r, "weight", true, width, l.out)
		} else {
			l.weight = p.tensor(r, "weight", true, l.out, width)
		}
		l.bias = p.tensor(r, "bias", false, l.out)
	case opLayerNorm:
		l.eps = r.epsilon(1e-5)
		l.weight = p.tensor(r, "weight", false, width)
		l.bias = p.tensor(r, "bias", false, width)
	case opRMSNorm:
		l.eps = r.epsilon(1e-6)
		l.weight = p.tensor(r, "weight", true, width)
	case opActivation:
		name := r.text("function", true)
		var known bool
		if l.function, known = functions[name]; !known {
			r.wrong("function", "one of "+strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
		}
	case opNormalize:
		l.eps = r.epsilon(1e-12)
	case opScale:
		l.by = float32(r.number("by", math.NaN()))
	case opColumns:
		l.start = r.integer("start", 0, 0, width-1)
		l.out = r.integer("width", required, 1, max(1, width-l.start))
	case opSum, opProduct:
		p.combination(r, &l, depth)
	default:
		r.wrong("op", strings.Join([]string{opLinear, opLayerNorm, opRMSNorm, opActivation, opNormalize, opScale, opColumns, opSum, opProduct}, ", "))
	}
	return l
}

// combination parses the chains of a sum or product; an empty chain is the row
// itself.
func (p *parser) combination(r *reader, l *layer, depth int) {
	chains := r.list("of", maxChain)
	if p.err == nil && (len(chains) < 2 || depth >= maxDepth) {
		r.fail("of", "expected 2 or more chains of layers, nested at most %d deep, found %d", maxDepth, len(chains))
	}
	for i, v := range chains {
		path := fmt.Sprintf("%s[%d]", r.at("of"), i)
		chain, width := p.chain(path, p.array(path, v), l.in, depth+1)
		if i == 0 {
			l.out = width
		} else if p.err == nil && width != l.out {
			r.failAt(path, "has width %d, the first chain has %d", width, l.out)
		}
		l.of = append(l.of, chain)
	}
}

// build uploads the layer's weights.
func (u *uploader) layer(l layer) nn.RowLocal {
	if u.err != nil {
		return nil
	}
	switch l.op {
	case opLinear:
		use := nn.AsMatrix
		if l.transposed {
			use = nn.AsTransposed
		}
		n := &nn.Linear{WeightName: l.weight, BiasName: l.bias, Weight: u.upload(l.weight, use)}
		if l.bias != "" {
			n.Bias = u.upload(l.bias, nn.AsVector)
		}
		return n
	case opLayerNorm:
		n := &nn.LayerNorm{WeightName: l.weight, BiasName: l.bias, Eps: l.eps}
		if l.weight != "" {
			n.Weight = u.upload(l.weight, nn.AsVector)
		}
		if l.bias != "" {
			n.Bias = u.upload(l.bias, nn.AsVector)
		}
		return n
	case opRMSNorm:
		return &nn.RMSNorm{Weight: u.upload(l.weight, nn.AsVector), WeightName: l.weight, Eps: l.eps}
	case opActivation:
		return nn.Activation{Function: l.function}
	case opNormalize:
		return nn.RowNormalize{Eps: l.eps}
	case opScale:
		return nn.Scaled{Factor: l.by}
	case opColumns:
		return columns{l.start, l.out}
	}
	c := combined{product: l.op == opProduct}
	for _, chain := range l.of {
		c.of = append(c.of, u.layers(chain))
	}
	return c
}

func (u *uploader) layers(all []layer) []nn.RowLocal {
	var out []nn.RowLocal
	for _, l := range all {
		out = append(out, u.layer(l))
	}
	return out
}

// columns takes neighbouring columns of every row.
type columns struct{ start, width int }

func (l columns) Forward(s nn.Session, x nn.Array) nn.Array { return s.Columns(x, l.start, l.width) }
func (l columns) ParamNames() []string                      { return nil }
func (l columns) Describe() string                          { return opColumns }
func (l columns) OutDType(in tensor.DType) tensor.DType     { return in }

func (l columns) OutWidth(in int) (int, error) {
	if l.start+l.width > in {
		return 0, fmt.Errorf("%w: columns %d to %d of rows of width %d", tensor.ErrShape, l.start, l.start+l.width-1, in)
	}
	return l.width, nil
}

// combined adds or multiplies the results of chains, from the first to the last.
type combined struct {
	product bool
	of      [][]nn.RowLocal
}

func (l combined) Forward(s nn.Session, x nn.Array) nn.Array {
	var out nn.Array
	for i, chain := range l.of {
		y := x
		for _, layer := range chain {
			y = layer.Forward(s, y)
		}
		switch {
		case i == 0:
			out = y
		case l.product:
			out = s.Mul(out, y)
		default:
			out = s.Add(out, y)
		}
	}
	return out
}

func (l combined) OutWidth(in int) (int, error) {
	out := in
	for i, chain := range l.of {
		width := in
		for _, layer := range chain {
			var err error
			if width, err = layer.OutWidth(width); err != nil {
				return 0, err
			}
		}
		if i > 0 && width != out {
			return 0, fmt.Errorf("%w: chains of a %s have widths %d and %d", tensor.ErrShape, l.Describe(), out, width)
		}
		out = width
	}
	return out, nil
}

func (l combined) ParamNames() []string {
	var names []string
	for _, chain := range l.of {
		for _, layer := range chain {
			names = append(names, layer.ParamNames()...)
		}
	}
	return names
}

func (l combined) OutDType(in tensor.DType) tensor.DType { return in }

func (l combined) Describe() string {
	if l.product {
		return opProduct
	}
	return opSum
}

var (
	_ nn.RowLocal = columns{}
	_ nn.RowLocal = combined{}
	_ nn.Typed    = columns{}
	_ nn.Typed    = combined{}
)
