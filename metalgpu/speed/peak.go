package speed

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// chains is the number of independent chains of operations of an invocation, and
// steps how many operations of each a turn of the loop has.
const (
	chains = 16
	steps  = 16
	group  = 256
)

//go:generate go run ./gen

//go:embed peak.spv
var peakModule []byte

// Peak is the kernel that does arithmetic in registers alone: in each chain a
// product and a sum in turns, rounded each, as all kernels do.
var Peak = func() *kernel.Kernel {
	var body strings.Builder
	body.WriteString("uint i = wid.x * 256u + lid.x;\nfloat m = U2F(0x3f7fff00u | (i & 15u));\nfloat b = 0.0001f;\n")
	for c := range chains {
		fmt.Fprintf(&body, "float a%d = %d.0f;\n", c, c+1)
	}
	body.WriteString("for (uint turn = 0u; turn < p.turns; turn += 1u) {\n")
	for range steps {
		for c := range chains {
			fmt.Fprintf(&body, "a%d = a%d * m + b;\n", c, c)
		}
	}
	body.WriteString("}\ny[i] = a0")
	for c := 1; c < chains; c++ {
		fmt.Fprintf(&body, " + a%d", c)
	}
	body.WriteString(";\n")
	return &kernel.Kernel{
		Name: "peak", Doc: "Products and sums in registers.", Workgroup: [3]int{group, 1, 1},
		Buffers: []kernel.Buffer{{Name: "y", Type: "float", Writes: true}},
		Push:    []string{"groups", "turns"},
		Body:    body.String(),
		Grid:    func(p kernel.Args) [3]uint32 { return [3]uint32{p.Get("groups"), 1, 1} },
	}
}()

// peakOperations is the number of operations of an invocation.
func peakOperations(turns int) float64 { return 2 * chains * steps * float64(turns) }

func code(k *kernel.Kernel) ([]uint32, error) {
	if k == Peak {
		return kernel.Words(peakModule)
	}
	return k.SPIRV()
}
