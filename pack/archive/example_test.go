package archive_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/tensor"
)

// exampleModel is a safetensors file with one tensor.
func exampleModel(bias float32) []byte {
	x, err := tensor.New(tensor.F32, 200, 100)
	if err != nil {
		panic(err)
	}
	for i := range x.Float32s() {
		x.Float32s()[i] = float32(math.Sin(float64(i)))*0.02 + bias
	}
	var file bytes.Buffer
	if _, err := loader.Write(&file, []loader.Entry{{Name: "layer.weight", Tensor: x}}, loader.WriteOptions{}); err != nil {
		panic(err)
	}
	return file.Bytes()
}

// A directory becomes one file and comes back.
func ExamplePack() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	src := filepath.Join(dir, "model")
	if err := os.Mkdir(src, 0o777); err != nil {
		fmt.Println(err)
		return
	}
	if err := os.WriteFile(filepath.Join(src, "model.safetensors"), exampleModel(0), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	path := filepath.Join(dir, "model.hfa")
	stats, err := archive.Pack(ctx, path, []string{src}, archive.PackOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := archive.Open(path, archive.ReadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	if err := r.Unpack(ctx, filepath.Join(dir, "back"), archive.UnpackOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	back, err := os.ReadFile(filepath.Join(dir, "back", "model.safetensors"))
	fmt.Println(stats.Files, stats.Tensors, stats.Stored < stats.Bytes, bytes.Equal(back, exampleModel(0)), err)
	// Output: 1 1 true true <nil>
}

// An archive is streamed to any writer, and read at any place.
func ExampleWriter() {
	model := exampleModel(0)
	var packed bytes.Buffer
	w, err := archive.NewWriter(&packed, archive.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.AddFile(context.Background(), "model.safetensors", 0o644, bytes.NewReader(model), int64(len(model))); err != nil {
		fmt.Println(err)
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	r, err := archive.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()), archive.ReadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	part, err := r.TensorReader("layer.weight")
	if err != nil {
		fmt.Println(err)
		return
	}
	var b [4]byte
	if _, err := part.ReadAt(b[:], 4*12345); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(b[:])) == float32(math.Sin(12345))*0.02)
	// Output: true
}

// A fine-tune is stored as differences from its base, which is then needed to
// read it.
func ExampleOptions_base() {
	pack := func(model []byte, base *archive.Reader) *bytes.Reader {
		var packed bytes.Buffer
		w, err := archive.NewWriter(&packed, archive.Options{Base: base})
		if err != nil {
			panic(err)
		}
		if err := w.AddFile(context.Background(), "model.safetensors", 0o644, bytes.NewReader(model), int64(len(model))); err != nil {
			panic(err)
		}
		if err := w.Close(); err != nil {
			panic(err)
		}
		return bytes.NewReader(packed.Bytes())
	}
	first := pack(exampleModel(0), nil)
	base, err := archive.NewReader(first, first.Size(), archive.ReadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	second := pack(exampleModel(1e-7), base)
	tuned, err := archive.NewReader(second, second.Size(), archive.ReadOptions{Base: base})
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := tuned.OpenFile("model.safetensors")
	if err != nil {
		fmt.Println(err)
		return
	}
	back, err := io.ReadAll(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := tuned.Lookup("layer.weight")
	fmt.Println(info.Method, second.Size()*2 < first.Size(), bytes.Equal(back, exampleModel(1e-7)), err)
	// Output: rank true true <nil>
}

// ranges reads parts of a file on a server that supports ranges.
type ranges struct {
	url     string
	fetched int64
}

func (r *ranges) ReadAt(b []byte, off int64) (int, error) {
	req, err := http.NewRequest(http.MethodGet, r.url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+int64(len(b))-1))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent {
		return 0, fmt.Errorf("%s: %s", r.url, resp.Status)
	}
	n, err := io.ReadFull(resp.Body, b)
	r.fetched += int64(n)
	return n, err
}

// One tensor is read from an archive on a server, without the rest.
func ExampleNewReader_overHTTP() {
	var packed bytes.Buffer
	w, err := archive.NewWriter(&packed, archive.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 10 {
		model := exampleModel(float32(i))
		if err := w.AddFile(context.Background(), fmt.Sprintf("step%d.safetensors", i), 0o644, bytes.NewReader(model), int64(len(model))); err != nil {
			fmt.Println(err)
			break
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "models.hfa", time.Time{}, bytes.NewReader(packed.Bytes()))
	}))
	defer server.Close()

	at := &ranges{url: server.URL}
	r, err := archive.NewReader(at, int64(packed.Len()), archive.ReadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := r.Tensor("step3.safetensors:layer.weight")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(x.DType(), []int(x.Shape()), "fetched less than a fifth:", at.fetched < int64(packed.Len())/5)
	// Output: F32 [200 100] fetched less than a fifth: true
}
