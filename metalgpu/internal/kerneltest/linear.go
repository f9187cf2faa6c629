package kerneltest

import (
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// linear makes a case for each regime and type: the tiled order against the CPU
// device, the others against lanes.
func linear(g *gen) []Case {
	var list []Case
	for number, t := range types {
		for _, regime := range []string{"vector", "few", "tiled"} {
			rows := 1
			switch regime {
			case "few":
				rows = g.between(1, 15)
			case "tiled":
				rows = g.between(1, 70)
			}
			k, n := g.between(1, 40), g.between(1, 70)
			switch g.IntN(4) {
			case 0:
				k = g.between(500, 1100)
			case 1:
				k = 2 * g.between(1, 200)
			}
			list = append(list, g.linear(number, t, regime, rows, k, n))
		}
	}
	return list
}

func (g *gen) linear(number int, t tensor.DType, regime string, rows, k, n int) Case {
	s := g.spice()
	stride, offset := k, 0
	if g.coin() {
		stride, offset = k+g.IntN(4), g.IntN(8)
	}
	yofs, ystride := 0, n
	if g.coin() {
		yofs = g.IntN(5)
		ystride = n + yofs + g.IntN(5)
	}
	x, w, b := g.floats(rows*k, s, t), g.floats(n*k, s, t), g.floats(yofs+n, s, t)
	bias := g.coin()
	spread := make([]float32, (n-1)*stride+k)
	for i := range n {
		copy(spread[i*stride:], w[i*k:(i+1)*k])
	}
	var want []uint32
	if regime == "tiled" {
		want = onCPU(func(sn nn.Session) []nn.Array {
			var ba nn.Array
			if bias {
				ba = upload(host(b[yofs:], t, n), nn.AsVector)
			}
			return []nn.Array{sn.Linear(sn.FromHost(host(x, t, rows, k)), upload(host(w, t, n, k), nn.AsMatrix), ba)}
		})[0]
	} else {
		var y []float32
		for r := range rows {
			for o := range n {
				v := canonical(lanes(x[r*k:(r+1)*k], w[o*k:(o+1)*k]))
				if bias {
					v = canonical(v + b[yofs+o])
				}
				y = append(y, rounded(v, t))
			}
		}
		want = words(y)
	}
	y := blank(rows * ystride)
	full := blank(rows * ystride)
	for r := range rows {
		copy(full[r*ystride+yofs:], want[r*n:(r+1)*n])
	}
	return Case{
		Name:    fmt.Sprintf("linear_%s_%s %d×%d×%d stride %d offset %d bias %t", regime, typeNames[number], rows, k, n, stride, offset, bias),
		Buffers: [][]uint32{words(x), stored(spread, t, offset), words(b), y},
		Steps: []Step{step("linear_"+regime+"_"+typeNames[number], []int{0, 1, 2, 3},
			rows, k, n, offset, stride, yofs, ystride, bias, number)},
		Want: map[int][]uint32{3: full},
	}
}

// lanes is the order of the regimes vector and few: 128 accumulators, neighbours
// added, then a tree.
func lanes(x, w []float32) float32 {
	var a [128]float32
	for i, v := range x {
		a[i%128] += float32(v * w[i])
	}
	var s [64]float32
	for j := range s {
		s[j] = a[2*j] + a[2*j+1]
	}
	for h := 32; h > 0; h /= 2 {
		for j := range h {
			s[j] += s[j+h]
		}
	}
	return s[0]
}

func canonical(x float32) float32 {
	if x != x {
		return fmath.NaN()
	}
	return x
}
