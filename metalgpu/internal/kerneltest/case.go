package kerneltest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// ErrWrong is wrapped by errors about results that are not the expected ones.
var ErrWrong = errors.New("wrong result")

// Case is one computation.
type Case struct {
	Name string
	// Buffers are the initial contents of memory, in words.
	Buffers [][]uint32
	Steps   []Step
	// Want is the expected content of buffers, by index. Slack is by how many units
	// in the last place a float may differ; 0 demands the same bits.
	Want  map[int][]uint32
	Slack uint32
}

// Step is one dispatch: buffer i of the kernel is Buffers[Bind[i]].
type Step struct {
	Kernel *kernel.Kernel
	Bind   []int
	Push   []uint32
}

// Families lists the groups of cases. Cases makes n cases of a group; the same
// seed gives the same ones.
var Families = []Family{
	{"linear", linear}, {"rows", rows}, {"xor", xor}, {"elements", elements}, {"norm", norm},
	{"attention", attention}, {"selection", selection}, {"convolution", convolutions}, {"long", long}, {"probe", probes},
}

// Family is a group of cases.
type Family struct {
	Name string
	make func(g *gen) []Case
}

// Cases makes all kinds of cases of the family turns times.
func (f Family) Cases(seed uint64, turns int) []Case {
	g := &gen{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
	var list []Case
	for range turns {
		list = append(list, f.make(g)...)
	}
	return list
}

// Run runs the case on a device and returns the buffers' contents.
func (c *Case) Run(ctx context.Context, d driver.Driver) ([][]uint32, error) {
	cmd, err := d.Begin()
	if err != nil {
		return nil, err
	}
	defer cmd.Close()
	buffers := make([]driver.Buffer, len(c.Buffers))
	for i, words := range c.Buffers {
		if buffers[i], err = d.NewBuffer(int64(max(4, 4*len(words))), driver.Host); err != nil {
			return nil, err
		}
		defer buffers[i].Free()
		data := buffers[i].Bytes()
		for j, w := range words {
			binary.LittleEndian.PutUint32(data[4*j:], w)
		}
	}
	for _, s := range c.Steps {
		p, err := d.NewPipeline(s.Kernel)
		if err != nil {
			return nil, err
		}
		bindings := make([]driver.Binding, len(s.Bind))
		for i, n := range s.Bind {
			bindings[i] = driver.Binding{Buffer: buffers[n]}
		}
		groups := s.Kernel.Groups(s.Push)
		if groups[0] == 0 || groups[1] == 0 || groups[2] == 0 {
			continue
		}
		cmd.Dispatch(p, groups, bindings, s.Push)
	}
	if err := cmd.Run(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	out := make([][]uint32, len(c.Buffers))
	for i, words := range c.Buffers {
		out[i] = make([]uint32, len(words))
		data := buffers[i].Bytes()
		for j := range words {
			out[i][j] = binary.LittleEndian.Uint32(data[4*j:])
		}
	}
	return out, nil
}

// Check compares buffers with the expected results, and those that are not
// expected to change with what they were.
func (c *Case) Check(got [][]uint32) error {
	for n, words := range c.Buffers {
		want, changes := c.Want[n]
		slack := c.Slack
		if !changes {
			want, slack = words, 0
		}
		for i, w := range want {
			if g := got[n][i]; g != w && distance(g, w) > slack {
				return fmt.Errorf("%s: %w: element %d of buffer %d is %#08x (%v), expected %#08x (%v)",
					c.Name, ErrWrong, i, n, g, math.Float32frombits(g), w, math.Float32frombits(w))
			}
		}
	}
	return nil
}

// distance counts the floats between two; NaNs are far from all others.
func distance(a, b uint32) uint32 {
	if a&0x7fffffff > 0x7f800000 || b&0x7fffffff > 0x7f800000 {
		return math.MaxUint32
	}
	order := func(x uint32) int64 {
		if x>>31 == 1 {
			return -int64(x & 0x7fffffff)
		}
		return int64(x)
	}
	d := order(a) - order(b)
	return uint32(max(d, -d))
}

// step makes a step; args are the push constants in their order, float32, bool or
// integers.
func step(name string, bind []int, args ...any) Step {
	k, ok := kernel.Lookup(name)
	if !ok {
		panic("no kernel " + name)
	}
	s := Step{Kernel: k, Bind: bind}
	for _, a := range args {
		switch a := a.(type) {
		case int:
			s.Push = append(s.Push, uint32(a))
		case uint32:
			s.Push = append(s.Push, a)
		case float32:
			s.Push = append(s.Push, math.Float32bits(a))
		case bool:
			v := uint32(0)
			if a {
				v = 1
			}
			s.Push = append(s.Push, v)
		default:
			panic(fmt.Sprintf("push constant of type %T", a))
		}
	}
	if len(s.Push) != len(k.Push) || len(bind) != len(k.Buffers) {
		panic(fmt.Sprintf("kernel %s: %d push constants and %d buffers", name, len(s.Push), len(bind)))
	}
	return s
}

// words are the bits of floats.
func words(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = math.Float32bits(v)
	}
	return out
}

// blank is memory that a kernel fills.
func blank(n int) []uint32 { return slices.Repeat([]uint32{0x7fa5a5a5}, n) }
