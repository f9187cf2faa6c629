package compress

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu"
)

// deviceChoice is a device name, taken apart.
type deviceChoice struct {
	auto bool
	// cpuMode is the mode of a CPU device, where gpu is nil.
	cpuMode string
	gpu     *metalgpu.Options
}

// parseDevice reads a name that [Options.Device] takes.
func parseDevice(name string) (deviceChoice, error) {
	switch name {
	case "", "cpu":
		return deviceChoice{}, nil
	case "cpu:split-k":
		return deviceChoice{cpuMode: nn.ModeSplitK}, nil
	case "auto":
		return deviceChoice{auto: true}, nil
	}
	bad := fmt.Errorf("%w: device %q, expected cpu, cpu:split-k, gpu, gpu:N, gpu:API, gpu:API:N or auto", ErrOption, name)
	parts := strings.Split(name, ":")
	if parts[0] != "gpu" {
		return deviceChoice{}, bad
	}
	o := &metalgpu.Options{}
	rest := parts[1:]
	if len(rest) > 0 && startsWithLetter(rest[0]) {
		o.API, rest = rest[0], rest[1:]
	}
	switch len(rest) {
	case 0:
	case 1:
		n, err := strconv.ParseUint(rest[0], 10, 16)
		if err != nil {
			return deviceChoice{}, bad
		}
		o.Index = int(n)
	default:
		return deviceChoice{}, bad
	}
	return deviceChoice{gpu: o}, nil
}

func startsWithLetter(s string) bool { return s != "" && unicode.IsLetter(rune(s[0])) }

// OpenDevice opens a device by the name that [Options.Device] takes. "auto" is the
// first GPU that is no software and keeps the numeric contract, or the processor.
func OpenDevice(ctx context.Context, name string, threads int) (nn.Device, error) {
	choice, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	if threads < 0 {
		return nil, fmt.Errorf("%w: threads %d, expected 0 for all processors or more", ErrOption, threads)
	}
	if choice.auto {
		found, _ := metalgpu.Devices() // none found is no error here
		dev, err := openAuto(found, func(o metalgpu.Options) (nn.Device, error) { return metalgpu.Open(ctx, o) })
		if err != nil {
			return nil, fmt.Errorf("device %q: %w", name, err)
		}
		if dev != nil {
			return dev, nil
		}
	}
	if choice.gpu == nil {
		return nn.OpenCPU(nn.CPUOptions{Mode: choice.cpuMode, Threads: threads})
	}
	dev, err := metalgpu.Open(ctx, *choice.gpu)
	switch {
	case err == nil:
		return dev, nil
	case errors.Is(err, metalgpu.ErrUnavailable):
		return nil, fmt.Errorf("device %q: %w (the processor is device cpu)", name, err)
	}
	return nil, fmt.Errorf("device %q: %w", name, err)
}

// openAuto opens the first of the GPUs that were found that is no software and
// keeps the numeric contract. It returns nil where there is none. A GPU that has
// what is needed and fails, as for want of memory, is an error.
func openAuto(found []metalgpu.DeviceInfo, open func(metalgpu.Options) (nn.Device, error)) (nn.Device, error) {
	for _, o := range hardware(found) {
		dev, err := open(o)
		switch {
		case err == nil:
			return dev, nil
		case !errors.Is(err, metalgpu.ErrNotStrict) && !errors.Is(err, metalgpu.ErrUnavailable):
			return nil, err
		}
	}
	return nil, nil
}

// hardware names those of the GPUs that were found that are no software.
func hardware(found []metalgpu.DeviceInfo) []metalgpu.Options {
	var gpus []metalgpu.Options
	for i, info := range found {
		if info.Kind != "cpu" {
			gpus = append(gpus, metalgpu.Options{Index: i})
		}
	}
	return gpus
}

// checkDevice refuses a GPU that is not there before anything is downloaded for
// it. One that is listed is opened later.
func checkDevice(ctx context.Context, name string) error {
	choice, err := parseDevice(name)
	if err != nil || choice.gpu == nil {
		return err
	}
	found, _ := metalgpu.Devices() // why there is none is said below
	n := 0
	for _, info := range found {
		if choice.gpu.API == "" || info.API == choice.gpu.API {
			n++
		}
	}
	if choice.gpu.Index < n {
		return nil
	}
	dev, err := OpenDevice(ctx, name, 1)
	if err != nil {
		return err
	}
	return dev.Close()
}

// DeviceStatus is a device of this machine.
type DeviceStatus struct {
	// Name is what [Options.Device] takes.
	Name string `json:"name"`
	// Hardware describes a GPU; of the processor it is nil.
	Hardware *metalgpu.DeviceInfo `json:"hardware,omitempty"`
	// Info is the device's description once it was opened.
	Info *nn.Info `json:"info,omitempty"`
	// Problem is why it could not be opened.
	Problem string `json:"problem,omitempty"`
}

// Devices lists the devices of this machine, each of which is opened and closed.
// An error of the second result that wraps [metalgpu.ErrUnavailable] says why
// there is no GPU among them.
func Devices(ctx context.Context) ([]DeviceStatus, error) {
	found, gpuErr := metalgpu.Devices()
	all := []DeviceStatus{{Name: "cpu"}, {Name: "cpu:split-k"}}
	for i := range found {
		all = append(all, DeviceStatus{Name: metalgpu.DeviceName(i), Hardware: &found[i]})
	}
	for i := range all {
		dev, err := OpenDevice(ctx, all[i].Name, 0)
		if err != nil {
			all[i].Problem = err.Error()
			continue
		}
		info := dev.Info()
		all[i].Info = &info
		if err := dev.Close(); err != nil {
			return nil, err
		}
	}
	return all, gpuErr
}

// TestDevice holds every operation of a GPU against the processor's. The name is
// one that [Options.Device] takes.
func TestDevice(ctx context.Context, name string) (*metalgpu.Report, error) {
	choice, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	if choice.auto {
		found, _ := metalgpu.Devices() // none found is the error below
		if gpus := hardware(found); len(gpus) > 0 {
			choice.gpu = &gpus[0]
		}
	}
	if choice.gpu == nil {
		return nil, fmt.Errorf("%w: device %q is the processor, which the GPUs are held against", ErrOption, name)
	}
	report, err := metalgpu.SelfTest(ctx, *choice.gpu)
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	return report, nil
}

// fits says early when a model's weights are more than a device has memory for.
func fits(dev nn.Device, bytes int64) error {
	if b, ok := dev.(nn.Bounded); ok {
		if err := b.Fits(bytes); err != nil {
			return fmt.Errorf("the model's weights, %s bytes, do not fit device %q: %w", Digits(bytes), dev.Info().Name, err)
		}
	}
	return nil
}
