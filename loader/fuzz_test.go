package loader_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"

	"github.com/hfcompress/compress/loader"
)

// FuzzScanHeader: nothing panics or allocates beyond a multiple of the input;
// every fault is typed; what is accepted, the library accepts and reads alike.
func FuzzScanHeader(f *testing.F) {
	for _, c := range hostile {
		f.Add(c.file)
	}
	f.Add(smallFile)
	f.Add(file(`{}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := scan(b, loader.Limits{})
		if err != nil {
			var he *loader.HeaderError
			var te *loader.TruncatedError
			if !errors.As(err, &he) && !errors.As(err, &te) {
				t.Fatalf("error of type %T: %v", err, err)
			}
			return
		}
		if h.FileBytes() != int64(len(b)) || !bytes.Equal(h.Raw(), b[8:8+len(h.Raw())]) {
			t.Fatalf("%d bytes of %d, header %q", h.FileBytes(), len(b), h.Raw())
		}
		agree(t, h, b)
	})
}

// FuzzHeaderText is FuzzScanHeader without the length and the data, which a
// mutation seldom hits: both are made to fit.
func FuzzHeaderText(f *testing.F) {
	for _, c := range hostile {
		if len(c.file) > 8 && len(c.file) < 1000 {
			f.Add(c.file[8 : 8+min(int(binary.LittleEndian.Uint16(c.file)), len(c.file)-8)])
		}
	}
	f.Add(smallFile[8 : 8+binary.LittleEndian.Uint16(smallFile)])
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := loader.ParseHeader(text, loader.Limits{})
		if err != nil || h.DataBytes() > 1<<16 {
			return
		}
		b := file(string(text), int(h.DataBytes()))
		if _, err := scan(b, loader.Limits{}); err != nil {
			t.Fatalf("the text is accepted, the file is not: %v", err)
		}
		agree(t, h, b)
	})
}

// FuzzParseIndex: what is accepted, the standard decoder reads alike.
func FuzzParseIndex(f *testing.F) {
	for _, c := range badIndexes {
		f.Add([]byte(c.text))
	}
	f.Add([]byte(`{"metadata":{"total_size":12,"x":[1,{"y":null}]},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := loader.ParseIndex(text, loader.Limits{})
		if err != nil {
			var e *loader.IndexError
			if !errors.As(err, &e) {
				t.Fatalf("error of type %T: %v", err, err)
			}
			return
		}
		var raw struct {
			WeightMap map[string]string `json:"weight_map"`
		}
		if err := json.Unmarshal(text, &raw); err != nil {
			t.Fatalf("accepted, but the standard decoder says: %v", err)
		}
		if len(raw.WeightMap) != len(x.Names()) {
			// Field names match in any case there, exactly here.
			return
		}
		for _, name := range x.Names() {
			if raw.WeightMap[name] != x.Shard(name) {
				t.Fatalf("%q is in %q, the standard decoder says %q", name, x.Shard(name), raw.WeightMap[name])
			}
		}
	})
}
