package metalgpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/tensor"
)

// Report is what the self-test of a device found.
type Report struct {
	Device DeviceInfo `json:"device"`
	// Fingerprint names what decides the bits of results: see [nn.Info].
	Fingerprint string `json:"fingerprint"`
	// Kernels is the SHA-256 of the kernel table.
	Kernels string `json:"kernels"`
	// Strict says that nothing was found that breaks the numeric contract.
	Strict bool `json:"strict"`
	// Numerics is "strict", or what was found instead, in a few words.
	Numerics string `json:"numerics"`
	// Checks are the questions of arithmetic, products of matrices, and, from
	// [SelfTest], the operations of a session.
	Checks []Check `json:"checks"`
}

// Check is one question to a device and how its answers compare with what is
// expected.
type Check struct {
	Name string `json:"name"`
	// Values counts the values compared, Different those with other bits.
	Values    int `json:"values"`
	Different int `json:"different"`
	// WorstULP is the largest distance in units in the last place, and AllowedULP
	// the largest that is right.
	WorstULP   uint32 `json:"worst_ulp"`
	AllowedULP uint32 `json:"allowed_ulp"`
	// Example is the first value that is further off.
	Example string `json:"example,omitempty"`
	// Advisory says that another answer breaks no promise of the kernels.
	Advisory bool `json:"advisory,omitempty"`
}

// advisory lists questions whose answers kernels do not rely on. Some drivers
// take 0 + x for x where both are known when a kernel is compiled, which keeps
// −0. No kernel adds a constant zero; sums begin in a loop, and the product of
// zeros shows that they begin at +0.
var advisory = map[string]bool{"zero plus a value": true}

// OK says that no value is further off than is allowed.
func (c Check) OK() bool { return c.Example == "" || c.Advisory }

// finding names the checks that failed.
func (r *Report) finding() string {
	var failed []string
	for _, c := range r.Checks {
		if !c.OK() {
			failed = append(failed, fmt.Sprintf("%s (%d of %d values differ: %s)", c.Name, c.Different, c.Values, c.Example))
		}
	}
	return strings.Join(failed, "; ")
}

// distance is that of two patterns of type d in units in the last place. Zeros of
// both signs differ by one, and NaNs from all that has other bits by the most.
func distance(d tensor.DType, a, b uint32) uint32 {
	if a == b {
		return 0
	}
	sign, infinity := uint32(1)<<31, uint32(0x7f800000)
	switch d {
	case tensor.BF16:
		sign, infinity = 1<<15, 0x7f80
	case tensor.F16:
		sign, infinity = 1<<15, 0x7c00
	}
	if a&^sign > infinity || b&^sign > infinity {
		return math.MaxUint32
	}
	order := func(x uint32) int64 {
		if x&sign != 0 {
			return -int64(x&^sign) - 1
		}
		return int64(x)
	}
	apart := order(a) - order(b)
	return uint32(max(apart, -apart))
}

// compare adds one value of type d to the check.
func (c *Check) compare(d tensor.DType, got, want uint32, what func() string) {
	c.Values++
	if got == want {
		return
	}
	c.Different++
	apart := distance(d, got, want)
	c.WorstULP = max(c.WorstULP, apart)
	if apart > c.AllowedULP && c.Example == "" {
		c.Example = fmt.Sprintf("%s is %#08x, expected %#08x", what(), got, want)
	}
}

// arithmetic asks the device what its arithmetic is.
func (d *device) arithmetic(ctx context.Context) (*Report, error) {
	r := &Report{Device: d.drv.Info(), Kernels: kernel.Digest()}
	checks, err := d.probe(ctx)
	if err != nil {
		return nil, err
	}
	products, err := d.products(ctx)
	if err != nil {
		return nil, err
	}
	r.Checks = append(checks, products...)
	r.conclude()
	return r, nil
}

// conclude sets what follows from the checks.
func (r *Report) conclude() {
	r.Strict, r.Numerics = true, "strict"
	var failed []string
	for _, c := range r.Checks {
		if !c.OK() {
			failed = append(failed, c.Name)
		}
	}
	if len(failed) > 0 {
		r.Strict, r.Numerics = false, "not strict: "+strings.Join(failed, ", ")
	}
	i := r.Device
	r.Fingerprint = fmt.Sprintf("gpu/1 %s; %s; %s %s; %s; kernels %.16s; %s",
		i.API, i.Name, i.DriverName, i.DriverVersion, i.APIVersion, r.Kernels, r.Numerics)
}

// probe runs the kernel that answers the questions of [kernel.Probes].
func (d *device) probe(ctx context.Context) ([]Check, error) {
	probes := kernel.Probes()
	a, b, c := kernel.ProbeInputs()
	n := len(a)
	p, err := d.pipeline("probe")
	if err != nil {
		return nil, err
	}
	list, err := d.drv.Begin()
	if err != nil {
		return nil, err
	}
	defer list.Close()
	var buffers []driver.Buffer
	defer func() {
		for _, b := range buffers {
			d.memory.give(b)
		}
	}()
	for _, words := range []int{n, n, n, n * len(probes)} {
		b, err := d.memory.take(4*int64(words), driver.Host)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, b)
	}
	for i, operand := range [][]uint32{a, b, c} {
		copy(words(buffers[i].Bytes()), operand)
	}
	bindings := make([]driver.Binding, len(buffers))
	for i, b := range buffers {
		bindings[i].Buffer = b
	}
	push := []uint32{uint32(n)}
	list.Dispatch(p, p.Kernel().Groups(push), bindings, push)
	if err := d.submit(ctx, list); err != nil {
		return nil, err
	}
	answers := words(buffers[3].Bytes())
	checks := make([]Check, len(probes))
	for j, q := range probes {
		checks[j] = Check{Name: q.Name, AllowedULP: q.Slack, Advisory: advisory[q.Name]}
		for i := range n {
			checks[j].compare(tensor.F32, answers[j*n+i], q.Want(a[i], b[i], c[i]), func() string {
				return fmt.Sprintf("for %#08x, %#08x, %#08x it", a[i], b[i], c[i])
			})
		}
	}
	return checks, nil
}

// sequential is the sum of products in the order of the CPU device.
func sequential(x, w []float32) float32 {
	var s float32
	for i, v := range x {
		s += float32(v * w[i])
	}
	return s
}

// lanes is the sum of products in the order of linear maps over few rows: product
// i goes to accumulator i mod 128, neighbours are added, and then halves.
func lanes(x, w []float32) float32 {
	var acc [128]float32
	for i, v := range x {
		acc[i%128] += float32(v * w[i])
	}
	var s [64]float32
	for j := range s {
		s[j] = acc[2*j] + acc[2*j+1]
	}
	for half := 32; half > 0; half /= 2 {
		for j := range half {
			s[j] += s[j+half]
		}
	}
	return s[0]
}

// order is the sum of products of a linear map over so many rows.
func order(rows int) func(x, w []float32) float32 {
	if rows >= tiledRows {
		return sequential
	}
	return lanes
}

// products multiplies small matrices.
func (d *device) products(ctx context.Context) ([]Check, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	const in, out = 301, 70
	values := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	w := values(in * out)
	for i := range in { // one output for which all products of −0 are −0
		w[i] = float32(math.Abs(float64(w[i])))
	}
	t, err := tensor.FromFloat32s(w, out, in)
	if err != nil {
		return nil, err
	}
	weight, err := d.Upload(t, nn.AsMatrix)
	if err != nil {
		return nil, err
	}
	var checks []Check
	for _, p := range []struct {
		rows  int
		zeros bool
	}{{1, false}, {7, false}, {33, false}, {1, true}, {7, true}, {33, true}} {
		rows := p.rows
		x := values(rows * in)
		what := "product"
		if p.zeros { // products of both signs, and rows in which all are −0
			what = "product of zeros"
			for i := range x {
				if x[i] = float32(math.Copysign(0, -1)); i/in%2 == 1 && i%2 == 1 {
					x[i] = 0
				}
			}
		}
		t, err := tensor.FromFloat32s(x, rows, in)
		if err != nil {
			return nil, err
		}
		s := d.Begin(ctx)
		y := s.ToHost(s.Linear(s.FromHost(t), weight, nil))
		if err := s.Close(); err != nil {
			return nil, err
		}
		check := Check{Name: fmt.Sprintf("%s, %d rows", what, rows)}
		sum := order(rows)
		for i, v := range y.Float32s() {
			r, o := i/out, i%out
			check.compare(tensor.F32, math.Float32bits(v), math.Float32bits(sum(x[r*in:(r+1)*in], w[o*in:(o+1)*in])), func() string {
				return fmt.Sprintf("element [%d,%d]", r, o)
			})
		}
		checks = append(checks, check)
	}
	return checks, nil
}

// SelfTest opens a device and holds its arithmetic, and then every operation of
// a session, against the processor's. An error says that the test could not be
// carried out; what it found is in the report.
func SelfTest(ctx context.Context, o Options) (*Report, error) {
	name, drv, err := find(o)
	if err != nil {
		return nil, err
	}
	d, report, err := open(ctx, drv, name, o)
	if err != nil {
		return nil, err
	}
	checks, err := operations(ctx, d, 1, 3)
	if err == nil {
		report.Checks = append(report.Checks, checks...)
		report.conclude()
	}
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("self-test of %s: %w", report.Device.Name, err)
	}
	return report, nil
}

// patterns returns the bits of t's elements, which have 16 or 32.
func patterns(t *tensor.Tensor) []uint32 {
	out := make([]uint32, t.Len())
	for i := range out {
		if t.DType().Size() == 4 {
			out[i] = binary.LittleEndian.Uint32(t.Bytes()[4*i:])
		} else {
			out[i] = uint32(binary.LittleEndian.Uint16(t.Bytes()[2*i:]))
		}
	}
	return out
}
