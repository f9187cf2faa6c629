package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// memory writes a checkpoint with random weights and runs it in a process of its
// own: what generates weights leaves garbage of their size.
func memory(model string, threads, length int, seconds float64) error {
	dir, err := os.MkdirTemp("", "arch-memory")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	blueprint, err := blueprintOf(model)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "model.safetensors")
	var entries []loader.Entry
	source := weights(blueprint.Params())
	for _, p := range blueprint.Params() {
		if p.Ignored || p.TiedTo != "" {
			continue
		}
		t, err := source.Tensor(p.Name)
		if err != nil {
			return err
		}
		entries = append(entries, loader.Entry{Name: p.Name, Tensor: t})
	}
	if err := loader.WriteFile(path, entries, loader.WriteOptions{}); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-model", model, "-threads", strconv.Itoa(threads), "-length", strconv.Itoa(length),
		"-seconds", strconv.FormatFloat(seconds, 'g', -1, 64), "-checkpoint", path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// resident runs the model of a checkpoint over and over and prints, in MB, its
// weights, its activations, and the most private memory that the process had
// before the model was there, with it and while it ran. Pages of the mapped
// checkpoint are the page cache's and do not count.
func resident(model, checkpoint string, threads, length int, seconds float64) error {
	debug.SetGCPercent(40) // as the command does
	before, err := private()
	if err != nil {
		return err
	}
	blueprint, err := blueprintOf(model)
	if err != nil {
		return err
	}
	ckpt, err := loader.Open(checkpoint, loader.Options{})
	if err != nil {
		return err
	}
	defer ckpt.Close()
	loaded, err := loader.Strict(ckpt, blueprint.Params(), loader.Policy{})
	if err != nil {
		return err
	}
	dev, err := nn.OpenCPU(nn.CPUOptions{Threads: threads})
	if err != nil {
		return err
	}
	peak := before
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				now, err := private()
				if err != nil {
					log.Fatal(err)
				}
				peak = max(peak, now)
			}
		}
	}()
	m, err := blueprint.Build(dev, loaded, nil)
	if err != nil {
		return err
	}
	built, err := private()
	if err != nil {
		return err
	}
	run, err := forward(model, m, length)
	if err != nil {
		return err
	}
	runs := 0
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); time.Now().Before(end); runs++ {
		if err := run(context.Background()); err != nil {
			return err
		}
	}
	close(stop)
	<-done
	w, a := float64(ckpt.TotalBytes()), activations[model](length)
	mb := func(bytes float64) float64 { return bytes / 1e6 }
	fmt.Printf("weights %.1f activations %.1f process %.1f built %.1f peak %.1f ratio %.3f without process %.3f runs %d\n",
		mb(w), mb(a), mb(before), mb(built), mb(peak), peak/(w+a), (peak-before)/(w+a), runs)
	return nil
}

// private returns the anonymous resident memory of this process in bytes.
func private() (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "RssAnon:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 64)
			return kb * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no RssAnon")
}

// activations are the bytes of float32 values that are alive at the same time in
// a prefill of n tokens when each is dropped after its last use: at the widest
// point of a layer, beside the logits.
var activations = map[string]func(n int) float64{
	"llama":      func(n int) float64 { return layer(n, 512, 512, 1024, 2) + 4*float64(n*84) },
	"llama-bf16": func(n int) float64 { return layer(n, 512, 512, 1024, 2) + 4*float64(n*84) },
	"esm":        func(n int) float64 { return layer(n, 320, 320, 1280, 1) + 4*float64(n*33) },
	"minilm":     func(n int) float64 { return layer(n, 384, 384, 1536, 1) },
	"byt5":       func(n int) float64 { return layer(n, 1472, 384, 3584, 2) + 4*float64(n*n*6) }, // and the position bias
}

// layer is the wider one of attention (residual, normed input, queries, keys and
// values, these two again as attention reads them, context) and MLP (residual,
// normed input, so many inner values and their product).
func layer(n, hidden, inner, mlp, gates int) float64 {
	return 4 * float64(n) * float64(max(2*hidden+6*inner, 2*hidden+(gates+1)*mlp))
}

func blueprintOf(model string) (architectures.Blueprint, error) {
	cfg, err := architectures.ParseConfig([]byte(shapes[model]))
	if err != nil {
		return nil, err
	}
	family, err := architectures.ForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return family.New(cfg)
}

// forward returns one prefill of so many tokens.
func forward(model string, m architectures.Model, length int) (func(context.Context) error, error) {
	in, err := architectures.TokenInputs(tokens(length))
	if err != nil {
		return nil, err
	}
	if model == "byt5" { // the decoder reads one token
		var start *tensor.Tensor
		if start, err = architectures.IDTensor([][]int{{0}}); err != nil {
			return nil, err
		}
		in.Tensors["decoder_input_ids"] = start
	}
	return func(ctx context.Context) error { _, err := m.Forward(ctx, in); return err }, nil
}

func tokens(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = 2 + 7*i%30
	}
	return ids
}
