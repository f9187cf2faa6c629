// Command gemm is the half of compare.py that times this project's matrix
// product. For each line on standard input it multiplies for about the given
// number of milliseconds on one core and answers with the seconds of the fastest
// product.
//
// Usage: gemm ROWS N K
package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/hfcompress/compress/internal/gemm"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gemm:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 4 {
		return fmt.Errorf("usage: gemm ROWS N K")
	}
	var size [3]int
	for i := range size {
		v, err := strconv.Atoi(os.Args[i+1])
		if err != nil || v < 1 {
			return fmt.Errorf("size %q", os.Args[i+1])
		}
		size[i] = v
	}
	rows, n, k := size[0], size[1], size[2]
	runtime.GOMAXPROCS(1)
	rng := rand.New(rand.NewPCG(1, 1))
	random := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	x, w, y := random(rows*k), gemm.Pack(random(n*k), n, k), make([]float32, rows*n)
	fmt.Println(gemm.Instructions())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		ms, err := strconv.Atoi(in.Text())
		if err != nil {
			return err
		}
		best := time.Hour
		for end := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(end); {
			start := time.Now()
			w.Mul(y, x, rows, gemm.Sequential, nil)
			best = min(best, time.Since(start))
		}
		fmt.Println(best.Seconds())
	}
	return in.Err()
}
