package compress_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/metalgpu"
	"github.com/hfcompress/compress/validation"
)

// needGPU skips a test where there is no GPU; where tests decide (CI=true) there
// has to be one, be it Mesa's software implementation of Vulkan.
func needGPU(t *testing.T) {
	t.Helper()
	if _, err := metalgpu.Devices(); err == nil {
		return
	} else if os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else {
		t.Skip(err)
	}
}

// The whole road on a GPU: one table for all row counts fails the gate, since a
// GPU adds few rows in another order than many; two tables, of which the second
// is held as differences and decoded on the device, give the source's bits.
//
// The same kernels run twice: by a graphics API, and by the driver in plain Go.
func TestGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute where the GPU is software")
	}
	t.Run("api", func(t *testing.T) {
		needGPU(t)
		one, auto := oneTableOnGPU(t, "gpu"), twoTablesOnGPU(t, "gpu")
		sameOutputs(t, one.Model, auto.Model)
	})
	t.Run("go", func(t *testing.T) { twoTablesOnGPU(t, "gpu:go") })
}

func onGPU(t *testing.T, device string, o compress.Options) *compress.Result {
	t.Helper()
	o.Device = device
	o.Generate = validation.Options{MaxPositions: 40, MaxSingles: 1}
	o.NearTies = validation.TieOptions{Calls: 1, Keep: 1}
	r, err := compress.Local(context.Background(), demoDir(t, nil), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func oneTableOnGPU(t *testing.T, device string) *compress.Result {
	one := onGPU(t, device, compress.Options{ProfileMode: finitepass.ProfilesNone})
	if one.Status != finitepass.RolledBack || one.Report.FirstGate == nil || one.Report.FirstGate.FirstFailure == nil {
		t.Fatalf("one table: status %s", one.Status)
	}
	if !one.Report.Gate.Bitwise || one.Report.Values.Saved() != 0 {
		t.Error("what is returned is not the original")
	}
	return one
}

func twoTablesOnGPU(t *testing.T, device string) *compress.Result {
	ctx := context.Background()
	out := filepath.Join(t.TempDir(), "package")
	auto := onGPU(t, device, compress.Options{Out: out, Storage: compress.StorageOptions{PackTables: true}})
	r := auto.Report
	if got := compress.ProfileText(r.Profiles); auto.Status != finitepass.Compressed || got != "1–15, 16+ (auto)" || !r.Gate.Bitwise || !r.Reload.Bitwise {
		t.Errorf("auto: status %s, profiles %s", auto.Status, got)
	}
	if r.Bytes.ResidentFullTables <= r.Bytes.Resident.After {
		t.Errorf("differences take %d bytes, full tables %d", r.Bytes.Resident.After, r.Bytes.ResidentFullTables)
	}
	if s := r.Storage; s == nil || len(s.Tables) != 1 {
		t.Errorf("no table is packed in memory: %+v", s)
	}
	if !r.Device.Strict || !strings.HasPrefix(r.Device.Fingerprint, "gpu/") {
		t.Errorf("%+v", r.Device)
	}

	// The package remembers the device, and promises nothing elsewhere.
	for device, validated := range map[string]bool{"": true, "cpu": false} {
		loaded, err := compress.Load(ctx, out, compress.LoadOptions{Device: device})
		if err != nil {
			t.Fatal(err)
		}
		if loaded.Validated != validated {
			t.Errorf("device %q: validated %v", device, loaded.Validated)
		}
		loaded.Close()
	}
	return auto
}

func TestDeviceNames(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"gpu:", "gpu:0:1", "gpu:-1", "gpu:99999999", "gpu:vulkan:", "gpu:vulkan:x", "tpu", "gpu0", "cpu:2", "CPU"} {
		if d, err := compress.OpenDevice(ctx, name, 0); !errors.Is(err, compress.ErrOption) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	for _, name := range []string{"gpu:5000", "gpu:vulkan:5000", "gpu:teapot", "gpu:go:7"} {
		if d, err := compress.OpenDevice(ctx, name, 0); !errors.Is(err, metalgpu.ErrUnavailable) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	for _, name := range []string{"", "auto", "cpu", "cpu:split-k", "gpu:go"} {
		d, err := compress.OpenDevice(ctx, name, 1)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got := d.Info().Name; name != "" && name != "auto" && got != name {
			t.Errorf("%q is called %q", name, got)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := compress.TestDevice(ctx, "cpu"); !errors.Is(err, compress.ErrOption) {
		t.Error(err)
	}
}

// Devices that were found can be opened, and the processor is always there.
func TestDevices(t *testing.T) {
	all, err := compress.Devices(context.Background())
	if err != nil && !errors.Is(err, metalgpu.ErrUnavailable) {
		t.Fatal(err)
	}
	if len(all) < 2 || all[0].Name != "cpu" || all[0].Info == nil || (err == nil) != (len(all) > 2) {
		t.Fatalf("%+v, %v", all, err)
	}
	seen := map[string]bool{}
	for _, d := range all {
		if d.Problem != "" || d.Info == nil || d.Info.Name != d.Name || d.Info.Fingerprint == "" || seen[d.Name] || (d.Hardware != nil) != strings.HasPrefix(d.Name, "gpu") {
			t.Errorf("%+v", d)
		}
		seen[d.Name] = true
	}
}
