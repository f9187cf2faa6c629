// Command arch measures how many tokens per second models of published shapes
// with random weights read (prefill: whole sequences) and write (decode: one token
// after the other behind 64) on the CPU device. compare.py runs it and PyTorch in
// turns.
//
//	arch -model llama -threads 1
//	arch -model llama -threads 1 -memory
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/hfcompress/compress/architectures"
	_ "github.com/hfcompress/compress/architectures/bert"
	_ "github.com/hfcompress/compress/architectures/esm"
	"github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/architectures/t5"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// shapes are configurations as compare.py has them.
var shapes = map[string]string{
	"llama":      `{"model_type":"llama","vocab_size":84,"hidden_size":512,"intermediate_size":1024,"num_hidden_layers":12,"num_attention_heads":8}`,
	"llama-bf16": `{"model_type":"llama","dtype":"bfloat16","vocab_size":84,"hidden_size":512,"intermediate_size":1024,"num_hidden_layers":12,"num_attention_heads":8}`,
	"esm": `{"model_type":"esm","vocab_size":33,"hidden_size":320,"intermediate_size":1280,"num_hidden_layers":6,"num_attention_heads":20,
		"token_dropout":true,"mask_token_id":32,"pad_token_id":1,"position_embedding_type":"rotary"}`,
	"minilm": `{"model_type":"bert","vocab_size":30522,"hidden_size":384,"intermediate_size":1536,"num_hidden_layers":6,"num_attention_heads":12}`,
	"byt5": `{"model_type":"t5","vocab_size":384,"d_model":1472,"d_kv":64,"d_ff":3584,"num_layers":12,"num_decoder_layers":4,"num_heads":6,
		"feed_forward_proj":"gated-gelu","tie_word_embeddings":false}`,
}

func main() {
	model := flag.String("model", "llama", "llama, llama-bf16, esm, minilm or byt5")
	threads := flag.Int("threads", 1, "goroutines that compute")
	length := flag.Int("length", 128, "tokens of a prefill")
	seconds := flag.Float64("seconds", 2, "time for each figure")
	measure := flag.Bool("memory", false, "measure memory instead of time (Linux)")
	checkpoint := flag.String("checkpoint", "", "with -memory: the weights to run, which it writes by itself")
	profile := flag.String("cpuprofile", "", "write a processor profile to this file")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			log.Fatal(err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			log.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
	do := run
	if *measure {
		do = memory
	}
	if *checkpoint != "" {
		do = func(model string, threads, length int, seconds float64) error {
			return resident(model, *checkpoint, threads, length, seconds)
		}
	}
	if err := do(*model, *threads, *length, *seconds); err != nil {
		log.Fatal(err)
	}
}

func run(model string, threads, length int, seconds float64) error {
	blueprint, err := blueprintOf(model)
	if err != nil {
		return err
	}
	dev, err := nn.OpenCPU(nn.CPUOptions{Threads: threads})
	if err != nil {
		return err
	}
	m, err := blueprint.Build(dev, weights(blueprint.Params()), nil)
	if err != nil {
		return err
	}
	once, err := forward(model, m, length)
	if err != nil {
		return err
	}
	ctx := context.Background()
	prefill, err := best(seconds, length, func() error { return once(ctx) })
	if err != nil {
		return err
	}
	fmt.Printf("prefill %.1f\n", prefill)

	const behind, steps = 64, 32
	switch m := m.(type) {
	case *llama.Model:
		d, err := m.NewDecoder(1, behind+steps)
		if err != nil {
			return err
		}
		prompt, err := architectures.TokenInputs(tokens(behind))
		if err != nil {
			return err
		}
		if _, err := d.Step(ctx, prompt); err != nil {
			return err
		}
		one, err := architectures.TokenInputs(tokens(1))
		if err != nil {
			return err
		}
		decode, err := best(seconds, steps, func() error {
			d.Truncate(behind)
			for range steps {
				if _, err := d.Step(ctx, one); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Printf("decode %.1f\n", decode)
	case *t5.Model:
		// Writing alone: the time of the encoder is taken off.
		input := [][]int{tokens(behind)}
		write := func(n int) (time.Duration, error) {
			fastest := time.Duration(1 << 62)
			for range 5 {
				start := time.Now()
				if _, err := m.GenerateFrom(ctx, input, n); err != nil {
					return 0, err
				}
				fastest = min(fastest, time.Since(start))
			}
			return fastest, nil
		}
		short, err := write(1)
		if err != nil {
			return err
		}
		long, err := write(1 + steps)
		if err != nil {
			return err
		}
		fmt.Printf("decode %.1f\n", steps/(long-short).Seconds())
	}
	return nil
}

// best returns the tokens per second of the fastest of many runs.
func best(seconds float64, tokens int, f func() error) (float64, error) {
	var times []time.Duration
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); len(times) < 3 || time.Now().Before(end); {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
	}
	return float64(tokens) / slices.Min(times).Seconds(), nil
}

// random makes the values of a parameter when it is asked for.
type random map[string]loader.Param

func weights(params []loader.Param) random {
	out := random{}
	for _, p := range params {
		out[p.Name] = p
	}
	return out
}

func (r random) Tensor(name string) (*tensor.Tensor, error) {
	p := r[name]
	t, err := tensor.New(p.DTypes[0], p.Shape...)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	if t.DType() == tensor.BF16 {
		for i := range t.Uint16s() {
			t.Uint16s()[i] = uint16(rng.Uint32())&0x80ff | 0x3c00 // ±0.008 to 0.031
		}
		return t, nil
	}
	for i := range t.Float32s() {
		t.Float32s()[i] = float32(rng.NormFloat64() * 0.02)
	}
	return t, nil
}
