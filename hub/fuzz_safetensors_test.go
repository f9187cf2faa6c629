package hub

import "testing"

func FuzzSafetensorsHeader(f *testing.F) {
	f.Add([]byte(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"__metadata__":null}  `), int64(4))
	f.Add([]byte(`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`), int64(1))
	f.Fuzz(func(t *testing.T, header []byte, data int64) {
		if data < 0 || data > 1<<40 {
			return
		}
		tensors, _, err := parseHeader(header, 8+int64(len(header))+data)
		if err != nil {
			return
		}
		var sum int64
		for _, x := range tensors {
			if x.Begin < 0 || x.End < x.Begin || x.End > data {
				t.Fatalf("%+v", x)
			}
			sum += x.End - x.Begin
		}
		if sum != data {
			t.Fatalf("%d of %d bytes", sum, data)
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"weight_map":{"a":"b.safetensors"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, shards, err := parseIndex(b)
		if err != nil {
			return
		}
		for _, s := range shards {
			if CheckPath(s) != nil {
				t.Fatalf("%q", s)
			}
		}
	})
}
