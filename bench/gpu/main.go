// Command gpu measures a GPU device and prints products of matrices next to what
// the device's memory and arithmetic can do at most.
//
//	go run ./bench/gpu [-api vulkan|metal|go] [-index N] [-size N] [-repeat N] [-peak TFLOPS]
//	go run ./bench/gpu -package DIR -device gpu    # forward passes of a package instead
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/hfcompress/compress/metalgpu"
	"github.com/hfcompress/compress/metalgpu/speed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gpu:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o metalgpu.Options
	var m speed.Options
	flag.StringVar(&o.API, "api", "", "graphics API; empty for the best device of any")
	flag.IntVar(&o.Index, "index", 0, "which device")
	flag.IntVar(&m.Size, "size", 0, "extent of matrices; 0 for what fits the device")
	flag.IntVar(&m.Repeat, "repeat", 0, "measurements of each, of which the best counts; 0 for 5")
	sheet := flag.Float64("peak", 0, "float32 TFLOP/s of the data sheet, fused operations counted as two, to compare with")
	dir := flag.String("package", "", "time forward passes of this package's model instead")
	device := flag.String("device", "gpu", "with -package: where it runs")
	flag.Parse()
	if *dir != "" {
		return forward(ctx, *dir, *device)
	}
	r, err := speed.Measure(ctx, o, m)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %s %s, %s %s\n", r.Device.Name, r.Device.API, r.Device.APIVersion, r.Device.DriverName, r.Device.DriverVersion)
	fmt.Printf("copy in memory, read and written   %9.1f GB/s\n", r.CopyBytes/1e9)
	fmt.Printf("products and sums in registers     %9.1f GFLOP/s\n", r.Peak/1e9)
	fmt.Printf("submission and wait                %9.1f µs\n\n", float64(r.Submit.Nanoseconds())/1e3)
	fmt.Printf("%-5s %-20s %10s %10s %8s %8s %8s\n", "type", "rows × in × out", "GFLOP/s", "GB/s", "of peak", "of copy", "of sheet")
	for _, p := range r.Products {
		flops, bytes := p.Operations/p.Seconds, p.Bytes/p.Seconds
		ofSheet := "-"
		if *sheet > 0 {
			ofSheet = fmt.Sprintf("%.1f %%", 100*flops/(*sheet*1e12))
		}
		fmt.Printf("%-5s %-20s %10.1f %10.1f %6.1f %% %6.1f %% %8s\n", p.DType, fmt.Sprintf("%d × %d × %d", p.Rows, p.In, p.Out),
			flops/1e9, bytes/1e9, 100*flops/r.Peak, 100*bytes/r.CopyBytes, ofSheet)
	}
	return nil
}
