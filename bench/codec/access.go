package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hfcompress/compress/pack/floatcodec"
)

type scaled struct {
	File    string     `json:"file"`
	Workers int        `json:"workers"`
	Encode  [2]float64 `json:"encode_mb_s"` // one goroutine, all
	Decode  [2]float64 `json:"decode_mb_s"`
}

// scaling measures the largest tensor with one goroutine and with several, in
// turn.
func scaling(file, level string, rounds, workers int) (scaled, error) {
	r := scaled{File: file, Workers: workers}
	l, err := floatcodec.ParseLevel(level)
	if err != nil {
		return r, err
	}
	e, err := largest(file)
	if err != nil {
		return r, err
	}
	mb := float64(len(e.raw)) / 1e6
	enc, dec := make([]byte, 0, len(e.raw)*9/8), make([]byte, 0, len(e.raw))
	for range rounds {
		for k, n := range []int{1, workers} {
			start := time.Now()
			if enc, err = floatcodec.Encode(enc[:0], e.DType, e.Shape, e.raw, floatcodec.Options{Level: l, Workers: n}); err != nil {
				return r, err
			}
			r.Encode[k] = max(r.Encode[k], mb/time.Since(start).Seconds())
			start = time.Now()
			out, err := floatcodec.Decode(dec, enc, floatcodec.Limits{Workers: n})
			if err != nil {
				return r, err
			}
			r.Decode[k] = max(r.Decode[k], mb/time.Since(start).Seconds())
			if !bytes.Equal(out, e.raw) {
				return r, fmt.Errorf("%s: other bytes came back", file)
			}
		}
	}
	return r, nil
}

type latency struct {
	File  string  `json:"file"`
	Bytes int     `json:"bytes"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
}

// access measures how long one chunk of the largest tensor takes.
func access(file, level string, n int) (latency, error) {
	r := latency{File: file}
	l, err := floatcodec.ParseLevel(level)
	if err != nil {
		return r, err
	}
	e, err := largest(file)
	if err != nil {
		return r, err
	}
	t, err := floatcodec.NewTrainer(e.DType, e.Shape, int64(len(e.raw)), floatcodec.Options{Level: l})
	if err != nil {
		return r, err
	}
	part := func(i int) []byte {
		at, size := t.ChunkRange(i)
		return e.raw[at : at+int64(size)]
	}
	for _, i := range t.Sample() {
		if err := t.Add(i, part(i)); err != nil {
			return r, err
		}
	}
	m, err := t.Model()
	if err != nil {
		return r, err
	}
	chunks := make([][]byte, m.Chunks())
	for i := range chunks {
		chunks[i] = m.AppendChunk(nil, i, part(i))
	}
	if m, err = floatcodec.ParseModel(m.Append(nil), floatcodec.Limits{}); err != nil {
		return r, err
	}
	r.Bytes = m.ChunkBytes()
	whole := int(m.Size() / int64(r.Bytes)) // full chunks only
	if whole == 0 {
		return r, fmt.Errorf("%s: no tensor of %d bytes", file, r.Bytes)
	}
	dst := make([]byte, r.Bytes)
	took := make([]time.Duration, n)
	random := rand.New(rand.NewPCG(1, 1))
	for k := range took {
		i := random.IntN(whole)
		start := time.Now()
		err := m.DecodeChunk(dst, i, chunks[i])
		took[k] = time.Since(start)
		if err != nil {
			return r, err
		}
		if k%16 == 0 && !bytes.Equal(dst, part(i)) {
			return r, fmt.Errorf("%s: other bytes came back", file)
		}
	}
	slices.Sort(took)
	r.P50 = float64(took[n/2].Nanoseconds()) / 1e3
	r.P99 = float64(took[n*99/100].Nanoseconds()) / 1e3
	return r, nil
}

func largest(file string) (entry, error) {
	entries, err := read(file)
	if err != nil {
		return entry{}, err
	}
	var e entry
	for _, x := range entries {
		if len(x.raw) > len(e.raw) {
			e = x
		}
	}
	return e, nil
}
