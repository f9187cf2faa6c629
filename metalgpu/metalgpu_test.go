package metalgpu

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// validate says whether the tests run under the validation layer.
func validate() bool { return os.Getenv("HFCOMPRESS_VULKAN_VALIDATION") != "" }

// testOptions lists the devices to test on: the driver in plain Go, and a Vulkan
// device, a software one where there is one, whose behaviour is the same
// everywhere. CI must have it; elsewhere its absence is only logged. The variable
// HFCOMPRESS_TEST_GPU names another device of the list by its index.
func testOptions(t testing.TB) map[string]Options {
	t.Helper()
	out := map[string]Options{}
	for _, a := range apis {
		if a.name == "go" {
			out["go"] = Options{API: "go"}
		}
	}
	infos, err := Devices()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI must have a Vulkan device, such as Mesa's lavapipe: %v", err)
		}
		t.Logf("only the plain driver is tested: %v", err)
		return out
	}
	at := 0
	for i, info := range infos {
		if info.Kind == "cpu" {
			at = i
		}
	}
	if v := os.Getenv("HFCOMPRESS_TEST_GPU"); v != "" {
		if at, err = strconv.Atoi(v); err != nil || at < 0 || at >= len(infos) {
			t.Fatalf("HFCOMPRESS_TEST_GPU is %q, there are %d devices", v, len(infos))
		}
	}
	out[infos[at].API] = Options{Index: at, Validation: validate(), Message: func(text string) { t.Errorf("validation layer: %s", text) }}
	return out
}

// eachDevice runs a test on every device.
func eachDevice(t *testing.T, f func(t *testing.T, o Options)) {
	for name, o := range testOptions(t) {
		t.Run(name, func(t *testing.T) { f(t, o) })
	}
}

func openTest(t testing.TB, o Options) *device {
	t.Helper()
	d, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.(*device)
}

func openCPU(t testing.TB) nn.Device {
	t.Helper()
	d, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

var dtypes = []tensor.DType{tensor.F32, tensor.BF16, tensor.F16}

// rounds shortens tests for the driver in plain Go, which is slow, and for
// instruments that are.
func rounds(n int, o Options) int {
	if testing.Short() {
		n /= 10
	}
	if o.API == "go" {
		n /= 10
	}
	return max(n, 1)
}

// TestOperations holds every operation against the CPU device at random shapes:
// bit for bit where sums have its order, within 2 units in the last place else.
func TestOperations(t *testing.T) {
	eachDevice(t, func(t *testing.T, o Options) {
		d, cpu := openTest(t, o), openCPU(t)
		rounds := rounds(30, o)
		for _, op := range sessionOperations {
			t.Run(op.name, func(t *testing.T) {
				c := Check{Name: op.name, AllowedULP: op.ulp}
				for seed := range uint64(rounds) {
					for _, dtype := range dtypes {
						want, err := op.runOn(context.Background(), cpu, true, dtype, seed)
						if err != nil {
							t.Fatal(err)
						}
						got, err := op.runOn(context.Background(), d, false, dtype, seed)
						if err != nil {
							t.Fatal(err)
						}
						op.compareWith(&c, seed, got, want)
					}
				}
				if !c.OK() {
					t.Errorf("%d of %d values differ, by up to %d units: %s", c.Different, c.Values, c.WorstULP, c.Example)
				}
				t.Logf("%d of %d values differ, by up to %d units", c.Different, c.Values, c.WorstULP)
			})
		}
	})
}

// TestSameBytes runs every operation 100 times at random shapes, each twice: the
// bytes must be the same.
func TestSameBytes(t *testing.T) {
	eachDevice(t, func(t *testing.T, o Options) {
		d := openTest(t, o)
		rounds := rounds(100, o)
		for _, op := range sessionOperations {
			for i := range rounds {
				dtype, seed := dtypes[i%len(dtypes)], uint64(1000+i)
				first, err := op.runOn(context.Background(), d, false, dtype, seed)
				if err != nil {
					t.Fatal(err)
				}
				again, err := op.runOn(context.Background(), d, false, dtype, seed)
				if err != nil {
					t.Fatal(err)
				}
				for j := range first {
					if !tensor.BitEqual(first[j], again[j]) {
						t.Fatalf("%s, seed %d, %v: result %d has other bytes the second time", op.name, seed, dtype, j)
					}
				}
			}
		}
	})
}

func TestInfo(t *testing.T) {
	eachDevice(t, func(t *testing.T, o Options) {
		a, b := openTest(t, o), openTest(t, o)
		info := a.Info()
		if !info.Strict || info.Name == "" || info.Detail["device"] == "" || info.Detail["numerics"] != "strict" {
			t.Errorf("info is %+v", info)
		}
		if info.Fingerprint == "" || info.Fingerprint != b.Info().Fingerprint {
			t.Errorf("the same device has the fingerprints %q and %q", info.Fingerprint, b.Info().Fingerprint)
		}
		next := 1
		for _, r := range info.Regimes {
			if r.MinRows != next || r.Name == "" {
				t.Errorf("regimes are %+v", info.Regimes)
			}
			next = r.MaxRows + 1
		}
		if next != 1 {
			t.Errorf("regimes %+v end", info.Regimes)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"an unknown API":   {API: "webgl"},
		"a negative index": {Index: -1},
		"a large index":    {Index: 1000},
	} {
		if _, err := Open(context.Background(), o); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSelfTest(t *testing.T) {
	eachDevice(t, func(t *testing.T, o Options) {
		if testing.Short() && o.API == "go" {
			return // TestOperations asks the same
		}
		r, err := SelfTest(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Strict || r.Numerics != "strict" || r.finding() != "" || len(r.Checks) < 30 {
			t.Errorf("%d checks, numerics %q: %s", len(r.Checks), r.Numerics, r.finding())
		}
		for _, c := range r.Checks {
			if c.Values == 0 {
				t.Errorf("%s compared nothing", c.Name)
			}
		}
	})
}
