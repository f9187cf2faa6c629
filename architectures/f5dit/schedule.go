package f5dit

import (
	"fmt"
	"math"
)

// sway are the bits of t − (cos(π/2·t) − 1 + t) for t = k/32, each operation in
// float32, as PyTorch 2.15.0 gives them on a CPU: sway sampling with the published
// coefficient −1. They are captured and not computed, since PyTorch's cosine is not
// correctly rounded: that of t = 4/32 is one unit in the last place off, and where
// the cosine is rounded correctly the fifth element is 0x3c9d6840.
var sway = [32]uint32{
	0x00000000, 0x3a9de200, 0x3b9dc980, 0x3c315500, 0x3c9d6820, 0x3cf58100, 0x3d305f50, 0x3d6f6f80,
	0x3d9be510, 0x3dc4a140, 0x3df1d348, 0x3e11af98, 0x3e2c933c, 0x3e4983f8, 0x3e686ff4, 0x3e84a20e,
	0x3e95f61a, 0x3ea8296e, 0x3ebb30ce, 0x3ecf0080, 0x3ee38c4e, 0x3ef8c788, 0x3f07528c, 0x3f128bc0,
	0x3f1e0876, 0x3f29c196, 0x3f35afe8, 0x3f41cc0e, 0x3f4e0e91, 0x3f5a6fdf, 0x3f66e859, 0x3f73704d,
}

// pruned are the published sampler's steps for few evaluations, in 32nds.
var pruned = map[int][]int{
	5:  {0, 2, 4, 8, 16},
	6:  {0, 2, 4, 6, 8, 16},
	7:  {0, 2, 4, 6, 8, 16, 24},
	10: {0, 2, 4, 6, 8, 12, 16, 20, 24, 28},
	12: {0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28},
	16: {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28},
}

// DefaultSteps is the number of steps that the published sampler takes unless told
// otherwise.
const DefaultSteps = 32

// Timesteps returns the times at which the published sampler evaluates the model in
// so many Euler steps with its default sway coefficient −1, in the order of the
// steps: linspace(0, 1, steps+1) or, for 5, 6, 7, 10, 12 and 16 steps, the pruned
// steps, moved by sway sampling; the end, 1, is not evaluated. There are 1, 2, 4, 5,
// 6, 7, 8, 10, 12, 16 and 32 steps; times of other schedules are best captured from
// the sampler that will be used, as those of graphics processors, whose cosine may
// differ in the last bit.
func Timesteps(steps int) ([]float32, error) {
	at := pruned[steps]
	if at == nil {
		if steps < 1 || steps > len(sway) || len(sway)%steps != 0 {
			return nil, fmt.Errorf("%s: no times are known for %d steps; expected 1, 2, 4, 5, 6, 7, 8, 10, 12, 16 or 32", familyName, steps)
		}
		for i := range steps {
			at = append(at, i*len(sway)/steps)
		}
	}
	times := make([]float32, len(at))
	for i, k := range at {
		times[i] = math.Float32frombits(sway[k])
	}
	return times, nil
}
