package hub_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// st builds a safetensors file from a header and a number of data bytes.
func st(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	return append(b, noise(11, data)...)
}

func stHub(t testing.TB, files hubtest.Files) *hubtest.Server {
	return newHub(t, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": files}}}})
}

func TestRemoteSafetensors(t *testing.T) {
	pad := strings.Repeat("p", 200_000)
	s := stHub(t, hubtest.Files{
		"model.safetensors.index.json": []byte(`{"metadata":{"total_size":28},"weight_map":{"a":"model-1.safetensors","b":"model-1.safetensors","long":"model-2.safetensors"}}`),
		"model-1.safetensors":          st(`{"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}   `, 24),
		// A header that needs a second range.
		"model-2.safetensors":   st(`{"__metadata__":{"pad":"`+pad+`"},"long":{"dtype":"F9_NEW","shape":[],"data_offsets":[0,4000000]}}`, 4_000_000),
		"training.safetensors":  st(`{}`, 0),
		"config.json":           []byte(`{}`),
		"sub/other.safetensors": []byte("junk"),
	})
	c := newClient(t, s)
	info, err := c.RemoteSafetensors(t.Context(), demo, "main", hub.SafetensorsOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Files) != 2 || len(info.WeightMap) != 3 || len(info.Problems) != 0 || string(info.Commit) != s.Commit("", "org/demo", "main") {
		t.Fatalf("%+v", info)
	}
	one, two := info.Files[0], info.Files[1]
	if fmt.Sprint(one.Tensors) != "[{b F32 [2 2] 8 24} {a BF16 [4] 0 8}]" || one.Metadata["format"] != "pt" {
		t.Errorf("%+v", one)
	}
	if len(two.Tensors) != 1 || two.Tensors[0].DType != "F9_NEW" || len(two.Metadata["pad"]) != len(pad) || len(two.Header) < len(pad) {
		t.Errorf("%+v", two.Tensors)
	}
	if n := s.BodyBytes(nil); n > 400_000 {
		t.Errorf("%d bytes were sent for the headers of a model of 4 MB", n)
	}
	if n := s.BodyBytes(func(r hubtest.Request) bool { return r.Range == "bytes=0-131071" && onCDN(r) }); n == 0 {
		t.Error("no range of 128 KiB")
	}

	// Offline, headers come from cached files.
	if _, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{Allow: []string{"model*"}}); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	off := newClient(t, s, withCache(c.CacheDir()), offline)
	again, err := off.RemoteSafetensors(t.Context(), demo, "main", hub.SafetensorsOptions{Strict: true})
	if err != nil || fmt.Sprint(again.Files[0]) != fmt.Sprint(one) || s.Count(nil) != 0 {
		t.Errorf("%+v, %v", again, err)
	}
}

// Ranges that a server ignores cost no more than what is needed.
func TestRemoteHeaderWithoutRanges(t *testing.T) {
	s := stHub(t, hubtest.Files{"model.safetensors": st(`{"a":{"dtype":"U8","shape":[9000000],"data_offsets":[0,9000000]}}`, 9_000_000)})
	s.Inject(hubtest.Fault{Kind: hubtest.IgnoreRange, Origin: "cdn", Count: -1})
	info, err := newClient(t, s).RemoteSafetensors(t.Context(), demo, "", hub.SafetensorsOptions{})
	if err != nil || len(info.Files[0].Tensors) != 1 {
		t.Fatal(info, err)
	}
}

func TestIndexDisagrees(t *testing.T) {
	s := stHub(t, hubtest.Files{
		"model.safetensors.index.json": []byte(`{"weight_map":{"a":"s1.safetensors","gone":"s1.safetensors"}}`),
		"s1.safetensors":               st(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"extra":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2),
	})
	c := newClient(t, s)
	info, err := c.RemoteSafetensors(t.Context(), demo, "", hub.SafetensorsOptions{})
	if err != nil || len(info.Problems) != 2 {
		t.Fatalf("%+v, %v", info, err)
	}
	_, err = c.RemoteSafetensors(t.Context(), demo, "", hub.SafetensorsOptions{Strict: true})
	wantErr(t, err, hub.ErrMetadata, "extra", "2 in all")
}

func TestBadSafetensors(t *testing.T) {
	entry := `"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	for name, tc := range map[string]struct {
		data []byte
		word string
	}{
		"short":         {[]byte("1234567"), "7 bytes"},
		"long header":   {binary.LittleEndian.AppendUint64(nil, 100), "header of 100 bytes"},
		"huge header":   {binary.LittleEndian.AppendUint64(nil, 1<<63), "header of"},
		"no brace":      {st(` {}`, 0), "start with {"},
		"cut":           {st(`{"a":`, 0), "JSON"},
		"twice":         {st(`{`+entry+`,`+entry+`}`, 4), "twice"},
		"gap":           {st(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), "expected 0"},
		"tail":          {st(`{`+entry+`}`, 5), "end at byte 4 of 5"},
		"beyond":        {st(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 3), "of 3"},
		"overflow":      {st(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0), "shape"},
		"negative":      {st(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), "shape"},
		"wrong size":    {st(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), "fill"},
		"extra key":     {st(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}`, 4), "expected"},
		"key twice":     {st(`{"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}}`, 4), "once"},
		"key in caps":   {st(`{"a":{"DTYPE":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "once"},
		"rank":          {st(`{"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}}`, 1), "rank"},
		"trailing text": {st(`{}x`, 0), "follows"},
		"metadata":      {st(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stHub(t, hubtest.Files{"model.safetensors": tc.data})
			_, err := newClient(t, s).RemoteSafetensors(t.Context(), demo, "", hub.SafetensorsOptions{})
			wantErr(t, err, hub.ErrMetadata, "model.safetensors", tc.word)
		})
	}
	// Both are legal and occur.
	for _, h := range []string{`{"__metadata__":{}}`, `{"__metadata__":null}`} {
		s := stHub(t, hubtest.Files{"model.safetensors": st(h, 0)})
		if _, err := newClient(t, s).RemoteSafetensors(t.Context(), demo, "", hub.SafetensorsOptions{}); err != nil {
			t.Errorf("%s: %v", h, err)
		}
	}
	for name, idx := range map[string]string{"traversal": `{"weight_map":{"a":"../x.safetensors"}}`, "none": `{}`, "absent": `{"weight_map":{"a":"no.safetensors"}}`} {
		s := stHub(t, hubtest.Files{"model.safetensors.index.json": []byte(idx)})
		if _, err := newClient(t, s).RemoteSafetensors(t.Context(), demo, "", hub.SafetensorsOptions{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The header sizes around 128 KiB and around the off-by-eight of an older
// client.
func TestHeaderSizes(t *testing.T) {
	for _, n := range []int{99_993, 100_000, 131_063, 131_064, 131_065, 131_072, 131_080} {
		h := `{"__metadata__":{"p":"` + strings.Repeat("x", n-len(`{"__metadata__":{"p":""}}`)) + `"}}`
		if len(h) != n {
			t.Fatal(len(h))
		}
		s := stHub(t, hubtest.Files{"model.safetensors": st(h, 0)})
		info, err := newClient(t, s).RemoteSafetensors(t.Context(), demo, "", hub.SafetensorsOptions{})
		if err != nil || string(info.Files[0].Header) != h {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestRemoteFile(t *testing.T) {
	data := noise(5, 3_000_000)
	s := stHub(t, hubtest.Files{"w.safetensors": data, "plain.txt": data[:100_000]})
	c := newClient(t, s, quickStall)
	for name, want := range map[string][]byte{"w.safetensors": data, "plain.txt": data[:100_000]} {
		f, err := c.OpenRemote(t.Context(), demo, "main", name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Size() != int64(len(want)) || string(f.Commit()) != s.Commit("", "org/demo", "main") {
			t.Error(f.Size(), f.Commit())
		}
		if err := iotest.TestReader(io.NewSectionReader(f, 90_000, 1000), want[90_000:91_000]); err != nil {
			t.Error(err)
		}
		b := make([]byte, 10)
		if n, err := f.ReadAt(b, f.Size()-4); n != 4 || err != io.EOF || !bytes.Equal(b[:4], want[len(want)-4:]) {
			t.Error(n, err)
		}
		if n, err := f.ReadAt(b, f.Size()); n != 0 || err != io.EOF {
			t.Error(n, err)
		}
		if _, err := f.ReadAt(b, -1); !errors.Is(err, hub.ErrBadRequest) {
			t.Error(err)
		}
	}
	for _, fault := range []hubtest.Fault{{Kind: hubtest.Truncate, At: 1000}, {Kind: hubtest.Stall, At: 500}, {Kind: hubtest.Expired, Count: 1}, {Kind: hubtest.WrongRange}, {Kind: hubtest.IgnoreRange}, {Kind: hubtest.Status, Code: 503}} {
		f, err := c.OpenRemote(t.Context(), demo, "main", "w.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		fault.Origin = "cdn"
		s.Inject(fault)
		b := make([]byte, 5000)
		if n, err := f.ReadAt(b, 1_234_567); err != nil || n != len(b) || !bytes.Equal(b, data[1_234_567:1_234_567+5000]) {
			t.Errorf("%s: %d, %v", fault.Kind, n, err)
		}
		s.ClearFaults()
	}
}
