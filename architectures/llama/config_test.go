package llama_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// base is a complete configuration in the manner of transformers 5.
const base = `{
	"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32",
	"vocab_size": 84, "hidden_size": 512, "intermediate_size": 1024,
	"num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2,
	"max_position_embeddings": 64, "rms_norm_eps": 1e-06, "hidden_act": "silu",
	"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
	"tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
	"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0
}`

// edited returns base with the fields of changes put in; a nil value deletes.
func edited(t testing.TB, changes map[string]any) []byte {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(base), &fields); err != nil {
		t.Fatal(err)
	}
	maps.Copy(fields, changes)
	for k, v := range changes {
		if v == nil {
			delete(fields, k)
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// with returns fields and more together.
func with(fields, more map[string]any) map[string]any {
	out := maps.Clone(more)
	maps.Copy(out, fields)
	return out
}

func parse(t testing.TB, data []byte) (*llama.Config, error) {
	t.Helper()
	cfg, err := architectures.ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	return llama.ParseConfig(cfg)
}

func TestParseConfig(t *testing.T) {
	plain := llama.Config{
		Variant: llama.Llama, DType: tensor.F32,
		VocabSize: 84, HiddenSize: 512, IntermediateSize: 1024, Layers: 3, Heads: 8, KVHeads: 2,
		HeadDim: 64, MaxPositions: 64, NormEpsilon: 1e-6, Activation: nn.SiLU,
		Rope: nn.Rope{Dim: 64, Scaling: nn.RopeDefault, Theta: 10000}, EndTokens: []int{2}, PadToken: 0,
	}
	type object = map[string]any
	for _, c := range []struct {
		name    string
		changes object
		want    func(*llama.Config)
	}{
		{"as it is", nil, func(*llama.Config) {}},
		{"key/value heads default to heads", object{"num_key_value_heads": nil}, func(c *llama.Config) { c.KVHeads = 8 }},
		{"head_dim", object{"head_dim": 32}, func(c *llama.Config) { c.HeadDim, c.Rope.Dim = 32, 32 }},
		{"head_dim, hidden not a multiple", object{"head_dim": 32, "num_attention_heads": 6}, func(c *llama.Config) { c.HeadDim, c.Rope.Dim, c.Heads = 32, 32, 6 }},
		{"defaults", object{"rms_norm_eps": nil, "hidden_act": nil, "max_position_embeddings": nil, "rope_parameters": nil,
			"tie_word_embeddings": nil, "attention_bias": nil, "mlp_bias": nil, "dtype": nil}, func(c *llama.Config) { c.MaxPositions = 2048 }},
		{"version 4 theta", object{"rope_parameters": nil, "rope_theta": 500000, "torch_dtype": "float32"}, func(c *llama.Config) { c.Rope.Theta = 500000 }},
		{"version 4 scaling", object{"rope_parameters": nil, "rope_theta": 1e6, "rope_scaling": object{"type": "linear", "factor": 4}},
			func(c *llama.Config) { c.Rope = nn.Rope{Dim: 64, Scaling: nn.RopeLinear, Theta: 1e6, Factor: 4} }},
		{"null scaling", object{"rope_scaling": json.RawMessage("null")}, func(*llama.Config) {}},
		{"llama3", object{"rope_parameters": object{"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
			"high_freq_factor": 4.0, "original_max_position_embeddings": 32}}, func(c *llama.Config) {
			c.Rope = nn.Rope{Dim: 64, Scaling: nn.RopeLlama3, Theta: 500000, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalPositions: 32}
		}},
		{"llama3 without the original length", object{"rope_parameters": object{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
			"high_freq_factor": 4}}, func(c *llama.Config) {
			c.Rope = nn.Rope{Dim: 64, Scaling: nn.RopeLlama3, Theta: 10000, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalPositions: 64}
		}},
		{"several ends", object{"eos_token_id": []int{2, 5}}, func(c *llama.Config) { c.EndTokens = []int{2, 5} }},
		{"no end", object{"eos_token_id": json.RawMessage("null")}, func(c *llama.Config) { c.EndTokens = nil }},
		{"the default end", object{"eos_token_id": nil}, func(*llama.Config) {}},
		{"no pad", object{"pad_token_id": nil}, func(c *llama.Config) { c.PadToken = -1 }},
		{"pad spelled -1", object{"pad_token_id": -1}, func(c *llama.Config) { c.PadToken = -1 }},
		{"biases, tie", object{"attention_bias": true, "mlp_bias": true, "tie_word_embeddings": true},
			func(c *llama.Config) { c.QKVBias, c.OutputBias, c.MLPBias, c.TiedHead = true, true, true, true }},
		{"dtype", object{"dtype": "bfloat16"}, func(c *llama.Config) { c.DType = tensor.BF16 }},
		{"mistral", object{"model_type": "mistral", "architectures": nil, "num_key_value_heads": 4}, func(c *llama.Config) {
			c.Variant, c.KVHeads, c.Window, c.Sliding = llama.Mistral, 4, 4096, []bool{true, true, true}
		}},
		{"mistral without a window", object{"model_type": nil, "architectures": []string{"MistralForCausalLM"}, "sliding_window": json.RawMessage("null")},
			func(c *llama.Config) { c.Variant = llama.Mistral }},
		{"qwen2", object{"model_type": "qwen2", "architectures": nil, "attention_bias": nil, "eos_token_id": nil, "sliding_window": 8},
			func(c *llama.Config) { c.Variant, c.QKVBias, c.EndTokens = llama.Qwen2, true, nil }},
		{"qwen2 with windows", object{"model_type": "qwen2", "architectures": nil, "attention_bias": nil, "use_sliding_window": true,
			"sliding_window": 8, "max_window_layers": 2}, func(c *llama.Config) {
			c.Variant, c.QKVBias, c.Window, c.Sliding = llama.Qwen2, true, 8, []bool{false, false, true}
		}},
		{"qwen3", object{"model_type": "qwen3", "architectures": nil, "use_sliding_window": true, "sliding_window": 8,
			"layer_types": []string{"sliding_attention", "full_attention", "full_attention"}}, func(c *llama.Config) {
			c.Variant, c.HeadNorms, c.HeadDim, c.Rope.Dim, c.Window, c.Sliding = llama.Qwen3, true, 128, 128, 8, []bool{true, false, false}
		}},
		{"yarn", object{"rope_parameters": object{"rope_type": "yarn", "factor": 4, "attention_factor": 1.5}}, func(c *llama.Config) {
			c.Rope = nn.Rope{Dim: 64, Scaling: nn.RopeYarn, Theta: 10000, Factor: 4, OriginalPositions: 64, BetaFast: 32, BetaSlow: 1, Multiplier: 1.5}
		}},
		{"dynamic", object{"rope_parameters": object{"rope_type": "dynamic", "factor": 2}}, func(c *llama.Config) {
			c.Rope = nn.Rope{Dim: 64, Scaling: nn.RopeDynamic, Theta: 10000, Factor: 2, Positions: 64}
		}},
		{"gelu", object{"hidden_act": "gelu_pytorch_tanh"}, func(c *llama.Config) { c.Activation = nn.GELUTanh }},
		{"neutral settings", object{"pretraining_tp": 1, "sliding_window": json.RawMessage("null"), "partial_rotary_factor": 1.0,
			"layer_types": []string{"full_attention", "full_attention", "full_attention"}, "is_encoder_decoder": false}, func(*llama.Config) {}},
		{"unknown settings", object{"use_cache": true, "attention_dropout": 0.1, "my_note": object{"a": 1}}, func(*llama.Config) {}},
		{"no architectures", object{"architectures": nil}, func(*llama.Config) {}},
		{"no model_type", object{"model_type": nil}, func(*llama.Config) {}},
		{"a tokenizer of its own", object{"auto_map": object{"AutoTokenizer": "tok.Tok"}}, func(*llama.Config) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := plain
			c.want(&want)
			got, err := parse(t, edited(t, c.changes))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("got  %+v\nwant %+v", *got, want)
			}
		})
	}
}

func TestConfigRefusals(t *testing.T) {
	type object = map[string]any
	rope := func(fields object) object { return object{"rope_parameters": fields} }
	mistral := func(fields object) object {
		return with(fields, object{"model_type": "mistral", "architectures": []string{"MistralForCausalLM"}})
	}
	qwen := func(version string, fields object) object {
		return with(fields, object{"model_type": "qwen" + version, "architectures": []string{"Qwen" + version + "ForCausalLM"}})
	}
	for _, c := range []struct {
		changes object
		want    string // what the error must say
	}{
		{object{"hidden_size": nil}, "hidden_size: is missing"},
		{object{"vocab_size": nil}, "vocab_size: is missing"},
		{object{"hidden_size": 0}, "hidden_size: expected an integer from 1 to 131072, found 0"},
		{object{"hidden_size": -512}, "hidden_size"},
		{object{"hidden_size": 512.5}, "found 512.5"},
		{object{"hidden_size": "512"}, `found "512"`},
		{object{"hidden_size": int64(1) << 40}, "hidden_size"},
		{object{"hidden_size": json.RawMessage("1" + strings.Repeat("0", 400))}, "hidden_size"},
		{object{"intermediate_size": 1 << 21}, "intermediate_size"},
		{object{"num_hidden_layers": 100000}, "num_hidden_layers"},
		{object{"num_attention_heads": 7}, "not a multiple of num_attention_heads 7"},
		{object{"num_attention_heads": 1024}, "head_dim"},
		{object{"num_key_value_heads": 3}, "num_key_value_heads: 3 does not divide num_attention_heads 8"},
		{object{"num_key_value_heads": 16}, "num_key_value_heads"},
		{object{"head_dim": 63}, "head_dim: 63 is odd"},
		{object{"head_dim": 4096, "num_attention_heads": 256, "num_key_value_heads": 1}, "256 heads of size 4096"},
		{object{"vocab_size": 1 << 30}, "vocab_size"},
		{object{"rms_norm_eps": 0}, "rms_norm_eps"},
		{object{"rms_norm_eps": -1e-6}, "rms_norm_eps"},
		{object{"rms_norm_eps": 1e-60}, "rms_norm_eps"},
		{object{"rms_norm_eps": "small"}, "rms_norm_eps"},
		{object{"hidden_act": "quick_gelu"}, `hidden_act: "quick_gelu"`},
		{object{"hidden_act": 3}, "hidden_act: expected a string"},
		{object{"tie_word_embeddings": 1}, "tie_word_embeddings: expected true or false"},
		{object{"dtype": "float64"}, `dtype: expected "float32" or "bfloat16" or "float16", found "float64"`},
		{object{"dtype": nil, "torch_dtype": "int8"}, `torch_dtype: expected`},
		{object{"torch_dtype": "float16"}, `torch_dtype: "float16", but dtype is "float32"`},
		{object{"model_type": "gemma"}, `model_type: expected "llama", found "gemma"`},
		{object{"model_type": "mistral"}, `architectures: expected "MistralForCausalLM", found "LlamaForCausalLM"`},
		{mistral(object{"sliding_window": 0}), "sliding_window: expected an integer"},
		{mistral(object{"attention_bias": true}), "attention_bias: true"},
		{mistral(object{"layer_types": []string{"full_attention", "full_attention", "full_attention"}}), "layer 0: \"full_attention\""},
		{qwen("2", object{"attention_bias": false}), "attention_bias: false"},
		{qwen("3", object{"num_key_value_heads": nil}), "num_key_value_heads: 32 does not divide"},
		{qwen("3", object{"layer_types": []string{"full_attention", "sliding_attention", "full_attention"}}), "layer 1: \"sliding_attention\""},
		{qwen("3", object{"use_sliding_window": true, "max_window_layers": -1}), "max_window_layers"},
		{object{"architectures": []string{"LlamaForSequenceClassification"}}, "LlamaForSequenceClassification"},
		{object{"model_type": nil, "architectures": nil}, "neither model_type nor architectures"},
		{object{"auto_map": object{"AutoModelForCausalLM": "modeling_x.X"}}, `auto_map: "AutoModelForCausalLM"`},
		{object{"quantization_config": object{"bits": 4}}, "quantization_config"},
		{object{"sliding_window": 4096}, "sliding_window: 4096"},
		{object{"pretraining_tp": 2}, "pretraining_tp: 2"},
		{object{"partial_rotary_factor": 0.5}, "partial_rotary_factor: 0.5"},
		{object{"layer_types": []string{"full_attention", "sliding_attention", "full_attention"}}, "layer 1: \"sliding_attention\""},
		{object{"layer_types": []string{"full_attention"}}, "layer_types: 1 entries"},
		{object{"num_local_experts": 8}, "num_local_experts: 8"},
		{rope(object{"rope_type": "ntk", "factor": 4}), `rope_parameters.rope_type: "ntk" is not supported; supported: default, linear, dynamic, llama3, yarn, longrope`},
		{rope(object{"type": "dynamic"}), "rope_parameters.factor"},
		{rope(object{"type": "yarn", "factor": 4, "beta_fast": 0.5}), "rope_parameters.beta_fast"},
		{rope(object{"type": "yarn", "factor": 4, "attention_factor": -1}), "rope_parameters.attention_factor"},
		{rope(object{"type": "longrope", "factor": 4, "short_factor": []int{1}}), "rope_parameters.short_factor"},
		{rope(object{"type": "longrope", "factor": 4, "original_max_position_embeddings": 1}), "rope_parameters.short_factor"},
		{rope(object{"rope_type": "linear"}), "rope_parameters.factor"},
		{rope(object{"rope_type": "linear", "factor": 0.5}), "rope_parameters.factor"},
		{rope(object{"rope_type": "linear", "factor": "2"}), "rope_parameters.factor"},
		{rope(object{"rope_type": "llama3", "factor": 2, "high_freq_factor": 4}), "rope_parameters.low_freq_factor"},
		{rope(object{"rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4}), "rope_parameters.high_freq_factor"},
		{rope(object{"rope_type": "llama3", "factor": 2, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 0}), "original_max_position_embeddings"},
		{rope(object{"rope_theta": 0}), "rope_theta"},
		{rope(object{"partial_rotary_factor": 0.25}), "rope_parameters.partial_rotary_factor: 0.25"},
		{rope(object{"full_attention": object{"rope_type": "default"}}), "full_attention"},
		{rope(object{"mrope_section": []int{1, 2}}), "mrope_section"},
		{object{"rope_parameters": 7}, "rope_parameters: expected an object"},
		{object{"rope_theta": 20000}, "the top-level rope_theta is 20000"},
		{object{"rope_scaling": object{"type": "linear", "factor": 2}}, "together with rope_parameters"},
		{object{"eos_token_id": "</s>"}, "eos_token_id"},
		{object{"eos_token_id": []int{2, -7}}, "eos_token_id"},
		{object{"pad_token_id": 84}, "pad_token_id: 84 is outside the vocabulary of 84"},
		{object{"bos_token_id": 1.5}, "bos_token_id"},
	} {
		data := edited(t, c.changes)
		_, err := parse(t, data)
		if !errors.Is(err, llama.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.changes, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
			t.Errorf("%v: not one short line: %v", c.changes, err)
		}
	}
}

func TestBlueprint(t *testing.T) {
	for _, c := range []struct {
		changes map[string]any
		params  int
		removes string
	}{
		{nil, 3 + 3*9, "model.layers.0.input_layernorm.weight model.layers.0.self_attn.q_proj.weight " +
			"model.layers.0.self_attn.k_proj.weight model.layers.0.self_attn.v_proj.weight"},
		{map[string]any{"attention_bias": true, "mlp_bias": true, "tie_word_embeddings": true}, 3 + 3*16,
			"model.layers.0.input_layernorm.weight model.layers.0.self_attn.q_proj.weight model.layers.0.self_attn.q_proj.bias " +
				"model.layers.0.self_attn.k_proj.weight model.layers.0.self_attn.k_proj.bias " +
				"model.layers.0.self_attn.v_proj.weight model.layers.0.self_attn.v_proj.bias"},
	} {
		cfg, err := architectures.ParseConfig(edited(t, c.changes))
		if err != nil {
			t.Fatal(err)
		}
		family, err := architectures.ForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		b, err := family.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		params := b.Params()
		shapes := map[string]string{}
		count := 0
		for _, p := range params {
			if _, twice := shapes[p.Name]; twice {
				t.Errorf("%s declared twice", p.Name)
			}
			shapes[p.Name] = p.Shape.String()
			if !p.Ignored {
				count++
			}
		}
		if count != c.params {
			t.Errorf("%d parameters, want %d", count, c.params)
		}
		for name, want := range map[string]string{
			"model.embed_tokens.weight":                      "[84,512]",
			"model.layers.2.self_attn.q_proj.weight":         "[512,512]",
			"model.layers.2.self_attn.v_proj.weight":         "[128,512]",
			"model.layers.2.self_attn.o_proj.weight":         "[512,512]",
			"model.layers.0.mlp.gate_proj.weight":            "[1024,512]",
			"model.layers.0.mlp.down_proj.weight":            "[512,1024]",
			"model.layers.1.post_attention_layernorm.weight": "[512]",
			"model.layers.1.self_attn.rotary_emb.inv_freq":   "[32]",
			"lm_head.weight":                                 "[84,512]",
		} {
			if shapes[name] != want {
				t.Errorf("%s: shape %s, want %s", name, shapes[name], want)
			}
		}
		tied := params[len(params)-1].TiedTo
		if (tied != "") != (c.changes != nil) {
			t.Errorf("the head is tied to %q", tied)
		}
		blocks := b.Blocks()
		if len(blocks) != 1 || blocks[0].Path != llama.QKVPath || blocks[0].Refusal != "" {
			t.Fatalf("blocks %+v", blocks)
		}
		if got := strings.Join(blocks[0].Removes, " "); got != c.removes {
			t.Errorf("removes %s", got)
		}
		want := []nn.Output{{Name: "q", Width: 512, DType: tensor.F32}, {Name: "k", Width: 128, DType: tensor.F32}, {Name: "v", Width: 128, DType: tensor.F32}}
		if !reflect.DeepEqual(blocks[0].Outputs, want) {
			t.Errorf("outputs %v", blocks[0].Outputs)
		}
	}
}

// TestNovoMolGenParams holds the declaration against the published checkpoint:
// 111 tensors with 31,556,096 values.
func TestNovoMolGenParams(t *testing.T) {
	cfg, err := architectures.ParseConfig(edited(t, map[string]any{
		"num_hidden_layers": 12, "num_key_value_heads": 8, "intermediate_size": 1024}))
	if err != nil {
		t.Fatal(err)
	}
	family, _ := architectures.Lookup("llama")
	b, err := family.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	tensors, values := 0, 0
	for _, p := range b.Params() {
		if p.Ignored {
			continue
		}
		n, err := p.Shape.Elements()
		if err != nil {
			t.Fatal(err)
		}
		tensors, values = tensors+1, values+n
	}
	if tensors != 111 || values != 31556096 {
		t.Errorf("%d tensors with %d values", tensors, values)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(base))
	paths, err := filepath.Glob("testdata/golden/*/config.json")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{`{}`, `{"model_type":"llama"}`, `{"model_type":"llama","rope_parameters":[]}`, `{"model_type":"llama","vocab_size":1e3}`,
		`{"model_type":"llama","hidden_size":-9223372036854775808}`, `{"model_type":"llama","auto_map":{"AutoModel":null}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := architectures.ParseConfig(data)
		if err != nil {
			return
		}
		c, err := llama.ParseConfig(cfg)
		if err != nil {
			if !errors.Is(err, llama.ErrConfig) {
				t.Fatalf("not an ErrConfig: %v", err)
			}
			return
		}
		// Whatever is accepted can be declared: positive extents, countable bytes.
		family, err := architectures.Lookup("llama")
		if err != nil {
			t.Fatal(err)
		}
		b, err := family.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range b.Params() {
			if n, err := p.Shape.Bytes(tensor.F32); err != nil || n <= 0 {
				t.Fatalf("%s %v: %d, %v", p.Name, p.Shape, n, err)
			}
		}
		if c.Heads%c.KVHeads != 0 || c.HeadDim%2 != 0 || b.Inputs().PadToken >= c.VocabSize {
			t.Fatal(fmt.Sprint(*c))
		}
	})
}
