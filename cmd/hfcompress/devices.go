package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu"
)

func (a *app) devicesCommand() *cobra.Command {
	var selfTest, asJSON bool
	var device string
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the devices of this machine, or test a GPU",
		Long: `devices lists the processor and the GPUs with their limits, and the fingerprint
that packages record: two devices with the same one give the same bits.

With --selftest every operation of one GPU is held against the processor's, and
the report says where they differ. Exit status 1 when the GPU does not keep the
numeric contract.`,
		Example: `  hfcompress devices
  hfcompress devices --selftest --device gpu:1`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if selfTest {
				return a.testDevice(cmd.Context(), device, asJSON)
			}
			if cmd.Flags().Changed("device") {
				return usagef("--device goes with --selftest")
			}
			return a.listDevices(cmd.Context(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&selfTest, "selftest", false, "hold every operation of a GPU against the processor's")
	cmd.Flags().StringVar(&device, "device", "gpu", "the GPU to test: gpu, gpu:N, gpu:API or gpu:API:N")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func (a *app) listDevices(ctx context.Context, asJSON bool) error {
	devices, gpuErr := compress.Devices(ctx)
	if devices == nil {
		return gpuErr
	}
	if asJSON {
		out := struct {
			Devices []compress.DeviceStatus `json:"devices"`
			NoGPU   string                  `json:"no_gpu,omitempty"`
		}{Devices: devices}
		if gpuErr != nil {
			out.NoGPU = gpuErr.Error()
		}
		return a.printJSON(out)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, d := range devices {
		if d.Hardware == nil {
			fmt.Fprintf(w, "%s\tthe processor: %s\n", d.Name, detail(d.Info))
		} else {
			printHardware(w, d.Name, d.Hardware)
		}
		if d.Problem != "" {
			fmt.Fprintf(w, "\tcannot be used: %s\n", d.Problem)
			continue
		}
		fmt.Fprintf(w, "\trows with one order of sums: %s\n", regimeText(d.Info.Regimes))
		fmt.Fprintf(w, "\tfingerprint: %s\n", d.Info.Fingerprint)
	}
	if gpuErr != nil {
		fmt.Fprintf(w, "gpu\tnone: %s\n", strings.ReplaceAll(gpuErr.Error(), "\n", "; "))
	}
	return w.Flush()
}

// detail is what the processor's description says beyond its fingerprint.
func detail(info *nn.Info) string {
	if info == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s, %s threads", info.Detail["arch"], info.Detail["instructions"], info.Detail["threads"])
}

func printHardware(w *tabwriter.Writer, name string, h *metalgpu.DeviceInfo) {
	fmt.Fprintf(w, "%s\t%s, %s, by %s %s\n", name, h.Name, h.Kind, h.API, h.APIVersion)
	fmt.Fprintf(w, "\tdriver %s %s\n", h.DriverName, h.DriverVersion)
	l := h.Limits
	fmt.Fprintf(w, "\tmemory %s bytes, a buffer at most %s, workgroups of %d invocations with %s bytes\n",
		count(l.MemoryBytes), count(l.MaxBufferBytes), l.MaxWorkgroupSize, count(l.SharedMemoryBytes))
}

func regimeText(regimes []nn.Regime) string {
	var parts []string
	for _, r := range regimes {
		switch {
		case r.MaxRows == 0:
			parts = append(parts, fmt.Sprintf("%d and more (%s)", r.MinRows, r.Name))
		case r.MaxRows == r.MinRows:
			parts = append(parts, fmt.Sprintf("%d (%s)", r.MinRows, r.Name))
		default:
			parts = append(parts, fmt.Sprintf("%d to %d (%s)", r.MinRows, r.MaxRows, r.Name))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) testDevice(ctx context.Context, device string, asJSON bool) error {
	report, err := compress.TestDevice(ctx, device)
	if err != nil {
		return err
	}
	if asJSON {
		err = a.printJSON(report)
	} else {
		err = a.printSelfTest(device, report)
	}
	if err == nil && !report.Strict {
		return statusError(exitError)
	}
	return err
}

func (a *app) printSelfTest(device string, r *metalgpu.Report) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	printHardware(w, device, &r.Device)
	fmt.Fprintf(w, "\tfingerprint: %s\n", r.Fingerprint)
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nCHECK\tVALUES\tOTHER BITS\tULP\tALLOWED\t\n")
	for _, c := range r.Checks {
		verdict := "ok"
		switch {
		case !c.OK():
			verdict = "FAILED: " + c.Example
		case c.Example != "":
			verdict = "no promise broken"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", c.Name, c.Values, c.Different, c.WorstULP, c.AllowedULP, verdict)
	}
	fmt.Fprintf(w, "\nverdict: %s\n", r.Numerics)
	return w.Flush()
}
