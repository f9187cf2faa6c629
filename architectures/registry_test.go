package architectures_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// named is a family that matches one model_type and builds nothing.
type named struct{ name, modelType string }

func (f named) Name() string                          { return f.name }
func (f named) Matches(cfg architectures.Config) bool { return cfg.ModelType == f.modelType }
func (f named) New(architectures.Config) (architectures.Blueprint, error) {
	return nil, errors.New("not built in this test")
}

// The registry belongs to the process, so each test registers names of its own,
// once.
var registerTestFamilies = sync.OnceFunc(func() {
	for _, f := range []named{
		{"test-alone", "alone"}, {"test-first", "shared"}, {"test-second", "shared"},
	} {
		architectures.Register(f)
	}
})

func TestLookup(t *testing.T) {
	registerTestFamilies()
	f, err := architectures.Lookup("test-alone")
	if err != nil || f.Name() != "test-alone" {
		t.Fatalf("%v, %v", f, err)
	}
	names := architectures.Names()
	if !slices.IsSorted(names) || !slices.Contains(names, "test-alone") {
		t.Errorf("names %q", names)
	}
	_, err = architectures.Lookup("test-absent")
	if !errors.Is(err, architectures.ErrUnknown) || !strings.Contains(err.Error(), `"test-absent"`) || !strings.Contains(err.Error(), "test-alone, test-first") {
		t.Errorf("error %v", err)
	}
	if _, err = architectures.Lookup(""); !errors.Is(err, architectures.ErrUnknown) {
		t.Errorf("empty name: %v", err)
	}
}

func TestForConfig(t *testing.T) {
	registerTestFamilies()
	parse := func(s string) architectures.Config {
		cfg, err := architectures.ParseConfig([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	f, err := architectures.ForConfig(parse(`{"model_type": "alone"}`))
	if err != nil || f.Name() != "test-alone" {
		t.Errorf("%v, %v", f, err)
	}
	for _, c := range []struct {
		config string
		want   []string
	}{
		{`{"model_type": "shared"}`, []string{"test-first, test-second", "name one"}},
		{`{"model_type": "absent", "architectures": ["AbsentModel"]}`, []string{`"absent"`, "AbsentModel", "test-alone"}},
		{`{}`, []string{"registered: "}},
	} {
		_, err := architectures.ForConfig(parse(c.config))
		if !errors.Is(err, architectures.ErrUnknown) {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v lacks %q", c.config, err, w)
			}
		}
	}
}

func TestRegisterPanics(t *testing.T) {
	registerTestFamilies()
	for _, name := range []string{"", "test-alone"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Register of %q did not panic", name)
				}
			}()
			architectures.Register(named{name: name})
		}()
	}
	// A refused registration must not have left the lock held.
	if _, err := architectures.Lookup("test-alone"); err != nil {
		t.Error(err)
	}
}

func TestRegistryIsConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprintf("test-concurrent-%d", i)
			architectures.Register(named{name, name})
			if _, err := architectures.Lookup(name); err != nil {
				t.Error(err)
			}
			architectures.Names()
			if _, err := architectures.ForConfig(architectures.Config{ModelType: name}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestParseConfig(t *testing.T) {
	data := []byte(` {"model_type": "m", "architectures": ["A", "B"], "other": 1} `)
	cfg, err := architectures.ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.ModelType != "m" || !slices.Equal(cfg.Architectures, []string{"A", "B"}) || string(cfg.Raw) != string(data) {
		t.Errorf("%+v", cfg)
	}
	data[3] = 'X'
	if strings.Contains(string(cfg.Raw), "X") {
		t.Error("Raw shares the caller's bytes")
	}
	huge := append([]byte(`{"a": "`), make([]byte, 16<<20)...)
	for name, bad := range map[string][]byte{
		"empty": nil, "spaces": []byte("  "), "list": []byte(`[]`), "null": []byte(`null`), "text": []byte(`"llama"`),
		"cut": []byte(`{"model_type": "m"`), "trailing": []byte(`{} {}`), "wrong type": []byte(`{"model_type": 3}`),
		"wrong list": []byte(`{"architectures": "A"}`), "too long": huge,
		"deep": []byte(`{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`),
	} {
		if _, err := architectures.ParseConfig(bad); err == nil || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{`{}`, `{"model_type":"llama","architectures":["LlamaForCausalLM"]}`, `[]`, "\xff{}", `{"model_type":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := architectures.ParseConfig(data)
		if err == nil && string(cfg.Raw) != string(data) {
			t.Fatal("Raw is not the file")
		}
	})
}

func TestIDTensor(t *testing.T) {
	x, err := architectures.IDTensor([][]int{{1, 2, 3}, {4, 5, 6}})
	if err != nil || x.String() != "I64[2,3]" || !slices.Equal(x.Int64s(), []int64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("%v, %v", x, err)
	}
	for name, bad := range map[string][][]int{"no rows": {}, "ragged": {{1, 2}, {3}}} {
		if _, err := architectures.IDTensor(bad); !errors.Is(err, tensor.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in, err := architectures.TokenInputs([]int{7, 8})
	if err != nil || in.Tensors["input_ids"].String() != "I64[1,2]" {
		t.Errorf("%v, %v", in, err)
	}
	if _, err := architectures.TokenInputs(); err == nil {
		t.Error("no sequences accepted")
	}
}

func TestOutputsGet(t *testing.T) {
	x, _ := tensor.FromFloat32s([]float32{1}, 1)
	out := architectures.Outputs{{Name: "logits", Tensor: x}}
	if out.Get("logits") != x || out.Get("absent") != nil {
		t.Error("Get does not find by name")
	}
}
