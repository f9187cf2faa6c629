// Command codec measures pack/floatcodec on safetensors files:
//
//	codec [-level fast] [-rounds 3] [-workers 2] [-access 10000] FILE...
//
// It prints one JSON line per file: raw and encoded bytes (models and chunk tables
// included, the safetensors header not), and encoding and decoding speed of one
// thread, in MB of raw bytes per second of CPU time, best round. Everything is
// decoded and compared.
//
// With -workers N it prints the speeds of one and of N goroutines instead, in MB
// per second of real time; with -access N, the median and the 99th percentile of
// the real time that decoding one of N randomly chosen chunks takes.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sort"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

type entry struct {
	name    string
	DType   tensor.DType `json:"dtype"`
	Shape   tensor.Shape `json:"shape"`
	Offsets [2]int       `json:"data_offsets"`
	raw     []byte
}

type result struct {
	File    string  `json:"file"`
	Level   string  `json:"level"`
	Raw     int     `json:"raw"`
	Encoded int     `json:"encoded"`
	Encode  float64 `json:"encode_mb_s"`
	Decode  float64 `json:"decode_mb_s"`
}

func main() {
	level := flag.String("level", "fast", "fast, dense or max")
	rounds := flag.Int("rounds", 3, "rounds, of which the fastest counts")
	workers := flag.Int("workers", 0, "goroutines to compare with one")
	accesses := flag.Int("access", 0, "random chunks to decode")
	flag.Parse()
	debug.SetGCPercent(400)
	for _, file := range flag.Args() {
		var r any
		var err error
		switch {
		case *workers > 0:
			r, err = scaling(file, *level, *rounds, *workers)
		case *accesses > 0:
			r, err = access(file, *level, *accesses)
		default:
			runtime.LockOSThread()
			r, err = measure(file, *level, *rounds)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "codec:", err)
			os.Exit(1)
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, "codec:", err)
			os.Exit(1)
		}
	}
}

func measure(file, level string, rounds int) (result, error) {
	r := result{File: file, Level: level}
	l, err := floatcodec.ParseLevel(level)
	if err != nil {
		return r, err
	}
	entries, err := read(file)
	if err != nil {
		return r, err
	}
	encoded := make([][]byte, len(entries))
	largest := 0
	for i, e := range entries {
		r.Raw += len(e.raw)
		largest = max(largest, len(e.raw))
		encoded[i] = make([]byte, 0, len(e.raw)+4096)
	}
	dst := make([]byte, 0, largest)
	for range rounds {
		start := cpu()
		for i, e := range entries {
			encoded[i], err = floatcodec.Encode(encoded[i][:0], e.DType, e.Shape, e.raw, floatcodec.Options{Level: l})
			if err != nil {
				return r, err
			}
		}
		r.Encode = max(r.Encode, float64(r.Raw)/1e6/(cpu()-start).Seconds())
		start = cpu()
		for i := range entries {
			if _, err := floatcodec.Decode(dst, encoded[i], floatcodec.Limits{}); err != nil {
				return r, err
			}
		}
		r.Decode = max(r.Decode, float64(r.Raw)/1e6/(cpu()-start).Seconds())
	}
	for i, e := range entries {
		dec, err := floatcodec.Decode(dst, encoded[i], floatcodec.Limits{})
		if err != nil {
			return r, err
		}
		if !bytes.Equal(dec, e.raw) {
			return r, fmt.Errorf("%s: %s: other bytes came back", file, e.name)
		}
	}
	for _, e := range encoded {
		r.Encoded += len(e)
	}
	return r, nil
}

func read(file string) ([]entry, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(data) < 8 || binary.LittleEndian.Uint64(data) > uint64(len(data)-8) {
		return nil, fmt.Errorf("%s: not a safetensors file", file)
	}
	n := 8 + int(binary.LittleEndian.Uint64(data))
	var header map[string]entry
	if err := json.Unmarshal(data[8:n], &header); err != nil {
		return nil, err
	}
	var out []entry
	for name, e := range header {
		if name == "__metadata__" {
			continue
		}
		lo, hi := n+e.Offsets[0], n+e.Offsets[1]
		if lo > hi || hi > len(data) || lo < n {
			return nil, fmt.Errorf("%s: %s lies outside the file", file, name)
		}
		e.name, e.raw = name, data[lo:hi]
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Offsets[0] < out[j].Offsets[0] })
	return out, nil
}
