package kerneltest

import (
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

func norm(g *gen) []Case {
	var list []Case
	for number, t := range types {
		list = append(list, g.rms(number, t), g.layer(number, t), g.normalize(number, t))
	}
	return list
}

func (g *gen) size() int {
	if g.IntN(4) == 0 {
		return g.between(900, 2100)
	}
	return g.between(1, 60)
}

func (g *gen) rms(number int, t tensor.DType) Case {
	rows, groups, width := g.between(1, 5), g.between(1, 3), g.size()
	s, eps := g.spice(), float32(1e-6)
	x, w := g.floats(rows*groups*width, s, t), g.floats(width, s, t)
	want := onCPU(func(sn nn.Session) []nn.Array {
		return []nn.Array{sn.RMSNorm(sn.FromHost(host(x, t, rows, groups*width)), upload(host(w, t, width), nn.AsVector), eps)}
	})[0]
	return Case{
		Name:    fmt.Sprintf("rmsnorm %s %d×%d×%d", typeNames[number], rows, groups, width),
		Buffers: [][]uint32{words(x), words(w), blank(len(x))},
		Steps:   []Step{step("rmsnorm", []int{0, 1, 2}, rows*groups, width, eps, number)},
		Want:    map[int][]uint32{2: want},
	}
}

func (g *gen) layer(number int, t tensor.DType) Case {
	rows, width := g.between(1, 5), g.size()
	s, eps := g.spice(), float32(1e-5)
	x, w, b := g.floats(rows*width, s, t), g.floats(width, s, t), g.floats(width, s, t)
	hasW, hasB := g.coin(), g.coin()
	want := onCPU(func(sn nn.Session) []nn.Array {
		var wa, ba nn.Array
		if hasW {
			wa = upload(host(w, t, width), nn.AsVector)
		}
		if hasB {
			ba = upload(host(b, t, width), nn.AsVector)
		}
		return []nn.Array{sn.LayerNorm(sn.FromHost(host(x, t, rows, width)), wa, ba, eps)}
	})[0]
	return Case{
		Name:    fmt.Sprintf("layernorm %s %d×%d w %t b %t", typeNames[number], rows, width, hasW, hasB),
		Buffers: [][]uint32{words(x), words(w), words(b), blank(len(x))},
		Steps:   []Step{step("layernorm", []int{0, 1, 2, 3}, rows, width, eps, hasW, hasB, number)},
		Want:    map[int][]uint32{3: want},
	}
}

func (g *gen) normalize(number int, t tensor.DType) Case {
	rows, width := g.between(1, 5), g.size()
	eps := float32(1e-12)
	x := g.floats(rows*width, g.spice(), t)
	if g.IntN(3) == 0 {
		clear(x[:width])
	}
	want := onCPU(func(sn nn.Session) []nn.Array {
		return []nn.Array{sn.RowNormalize(sn.FromHost(host(x, t, rows, width)), eps)}
	})[0]
	return Case{
		Name:    fmt.Sprintf("rownormalize %s %d×%d", typeNames[number], rows, width),
		Buffers: [][]uint32{words(x), blank(len(x))},
		Steps:   []Step{step("rownormalize", []int{0, 1}, rows, width, eps, number)},
		Want:    map[int][]uint32{1: want},
	}
}
