package kerneltest

import (
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// unaries names the functions; those from exactUnaries differ in the last place
// now and then from the CPU device's, which computes in float64.
var unaries = []string{nn.SiLU: "SiLU", nn.GELU: "GELU", nn.GELUTanh: "GELUTanh", nn.ReLU: "ReLU", nn.Tanh: "Tanh",
	nn.Sigmoid: "Sigmoid", nn.GELUStepwise: "GELUStepwise", nn.GELUTanhStepwise: "GELUTanhStepwise"}

func elements(g *gen) []Case {
	var list []Case
	for number, t := range types {
		for f := range unaries {
			list = append(list, g.unary(nn.Unary(f), number, t))
		}
		for _, name := range []string{"add", "mul", "scale", "cast"} {
			list = append(list, g.element(name, number, t))
		}
		for _, stepwise := range []bool{false, true} {
			list = append(list, g.rotary(number, t, stepwise))
		}
	}
	return list
}

func (g *gen) unary(f nn.Unary, number int, t tensor.DType) Case {
	n := g.between(1, 700)
	x := g.floats(n, spice(g.IntN(3)), t)
	if g.coin() {
		for i := range x {
			x[i] = rounded(3*x[i], t)
		}
	}
	want := onCPU(func(s nn.Session) []nn.Array { return []nn.Array{s.Map(f, s.FromHost(host(x, t, 1, n)))} })[0]
	c := Case{
		Name:    fmt.Sprintf("map %s %s of %d", unaries[f], typeNames[number], n),
		Buffers: [][]uint32{words(x), blank(n)},
		Steps:   []Step{step("map", []int{0, 1}, n, int(f), number)},
		Want:    map[int][]uint32{1: want},
	}
	return c
}

func (g *gen) element(name string, number int, t tensor.DType) Case {
	n := g.between(1, 700)
	s := spice(g.IntN(3))
	x, y := g.floats(n, s, t), g.floats(n, s, t)
	c := g.floats(1, varied, tensor.F32)[0]
	if name == "cast" { // from any type
		x = g.floats(n, s, types[g.IntN(3)])
		if t == tensor.F32 {
			x = g.floats(n, s, t)
		}
	}
	from := tensor.F32
	want := onCPU(func(s nn.Session) []nn.Array {
		a, b := s.FromHost(host(x, t, 1, n)), s.FromHost(host(y, t, 1, n))
		switch name {
		case "add":
			return []nn.Array{s.Add(a, b)}
		case "mul":
			return []nn.Array{s.Mul(a, b)}
		case "scale":
			return []nn.Array{s.Scale(a, c)}
		}
		return []nn.Array{s.Cast(s.FromHost(host(x, from, 1, n)), t)}
	})[0]
	out := Case{Name: fmt.Sprintf("%s %s of %d", name, typeNames[number], n), Buffers: [][]uint32{words(x), words(y), blank(n)}, Want: map[int][]uint32{2: want}}
	switch name {
	case "scale":
		out.Steps = []Step{step(name, []int{0, 2}, n, c, number)}
	case "cast":
		out.Steps = []Step{step(name, []int{0, 2}, n, number)}
	default:
		out.Steps = []Step{step(name, []int{0, 1, 2}, n, number)}
	}
	return out
}

func (g *gen) rotary(number int, t tensor.DType, stepwise bool) Case {
	rows, heads, size := g.between(1, 6), g.between(1, 4), g.between(2, 24)
	pairs := g.between(1, size/2)
	style := nn.RotaryStyle(g.IntN(2))
	s := g.spice()
	table := tensor.F32
	if stepwise {
		table = t
	}
	x := g.floats(rows*heads*size, s, t)
	cos, sin := g.floats(rows*pairs, s, table), g.floats(rows*pairs, s, table)
	want := onCPU(func(sn nn.Session) []nn.Array {
		return []nn.Array{sn.Rotary(sn.FromHost(host(x, t, rows, heads*size)), sn.FromHost(host(cos, table, rows, pairs)),
			sn.FromHost(host(sin, table, rows, pairs)), heads, style)}
	})[0]
	return Case{
		Name:    fmt.Sprintf("rotary %s %d×%d×%d pairs %d style %d stepwise %t", typeNames[number], rows, heads, size, pairs, style, stepwise),
		Buffers: [][]uint32{words(x), words(cos), words(sin), blank(len(x))},
		Steps:   []Step{step("rotary", []int{0, 1, 2, 3}, rows, heads*size, size, pairs, int(style), stepwise && t != tensor.F32, number)},
		Want:    map[int][]uint32{3: want},
	}
}
