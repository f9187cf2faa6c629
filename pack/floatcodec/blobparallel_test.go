package floatcodec

import (
	"bytes"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

// TestManyChunks encodes more chunks than may wait for their turn, some of which
// take much longer than others, and expects what one goroutine writes.
func TestManyChunks(t *testing.T) {
	raw := make([]byte, 2*(3*chunksAhead*ChunkElements+99))
	copy(raw, gaussian(tensor.BF16, 2*ChunkElements, 1))
	copy(raw[2*chunksAhead*ChunkElements:], randomBytes(5*ChunkElements, 2))
	want, err := Encode(nil, tensor.BF16, nil, raw, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{2, 3} {
		got, err := Encode([]byte("before"), tensor.BF16, nil, raw, Options{Workers: workers})
		if err != nil || !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("%d workers write other bytes: %v", workers, err)
		}
	}
}
