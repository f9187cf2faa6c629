package floatcodec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// weights returns n BF16 values with exponents as narrow as those of weights.
func weights(n int) []byte {
	raw := make([]byte, 2*n)
	x := uint32(1)
	for i := range n {
		x = x*1664525 + 1013904223
		v := (float32(x>>8)/(1<<24) - 0.5) * 0.1
		binary.LittleEndian.PutUint16(raw[2*i:], uint16(math.Float32bits(v)>>16))
	}
	return raw
}

func ExampleEncode() {
	raw := weights(100_000)
	enc, err := floatcodec.Encode(nil, tensor.BF16, tensor.Shape{1000, 100}, raw, floatcodec.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	dec, err := floatcodec.Decode(nil, enc, floatcodec.Limits{MaxSize: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(bytes.Equal(raw, dec), len(enc) < len(raw)*3/4)
	// Output: true true
}

// A container keeps the model once per tensor, and reads one chunk without the
// others.
func ExampleTrainer() {
	raw := weights(200_000)
	t, err := floatcodec.NewTrainer(tensor.BF16, nil, int64(len(raw)), floatcodec.Options{Level: floatcodec.Dense})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, i := range t.Sample() {
		offset, size := t.ChunkRange(i)
		if err := t.Add(i, raw[offset:offset+int64(size)]); err != nil {
			fmt.Println(err)
			return
		}
	}
	model, err := t.Model()
	if err != nil {
		fmt.Println(err)
		return
	}
	tables := model.Append(nil)
	var chunks [][]byte
	for i := range model.Chunks() {
		offset, size := t.ChunkRange(i)
		chunks = append(chunks, model.AppendChunk(nil, i, raw[offset:offset+int64(size)]))
	}

	back, err := floatcodec.ParseModel(tables, floatcodec.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	last := back.Chunks() - 1
	dst := make([]byte, back.ChunkSize(last))
	if err := back.DecodeChunk(dst, last, chunks[last]); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(chunks), len(dst), bytes.Equal(dst, raw[len(raw)-len(dst):]))
	// Output: 4 6784 true
}
