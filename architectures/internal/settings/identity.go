package settings

import (
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Neutral is a setting that would change the computation, with the values at
// which it does not. null, or leaving it out, is neutral too.
type Neutral struct {
	Key string
	// OK lists compact JSON values.
	OK []string
	// What the other values ask for.
	What string
}

// Check refuses a setting with another value than its neutral ones.
func (o *Object) Check(list ...[]Neutral) error {
	for _, l := range list {
		for _, n := range l {
			if v := o.Raw(n.Key); v != nil && !slices.Contains(n.OK, string(v)) {
				return o.Fail(n.Key, "%s: %s is not supported", Snippet(v), n.What)
			}
		}
	}
	return nil
}

// Common are settings of every text model.
var Common = []Neutral{
	{"quantization_config", nil, "quantised weights"},
	{"compression_config", nil, "quantised weights"},
	{"per_layer_config", nil, "differing layers"},
	{"add_cross_attention", []string{"false"}, "cross-attention"},
	{"cross_attention_hidden_size", nil, "cross-attention"},
	{"pruned_heads", []string{"{}"}, "pruned heads"},
	{"adapters", nil, "adapters"},
}

// NotSeq2Seq are settings of models with one stack.
var NotSeq2Seq = []Neutral{{"is_encoder_decoder", []string{"false"}, "an encoder"}}

// Identity checks that cfg is one of a family's models: its model_type, one of
// its classes, and no code in the repository. It returns the class, the first one
// when the configuration names none.
func (o *Object) Identity(cfg architectures.Config, modelTypes, classes []string) (class string, err error) {
	return o.IdentityOfCode(cfg, modelTypes, classes, nil)
}

// IdentityOfCode is [Object.Identity] for models that were published as code in
// their repository: code lists the classes, such as "modeling_x.XModel", that
// the family computes in its place. The code is never run.
func (o *Object) IdentityOfCode(cfg architectures.Config, modelTypes, classes, code []string) (class string, err error) {
	class = classes[0]
	if cfg.ModelType != "" && !slices.Contains(modelTypes, cfg.ModelType) {
		return "", o.Fail("model_type", "expected %s, found %s", either(modelTypes), Quote(cfg.ModelType))
	}
	if len(cfg.Architectures) > 0 {
		at := slices.IndexFunc(classes, func(c string) bool { return slices.Contains(cfg.Architectures, c) })
		if at < 0 {
			return "", o.Fail("architectures", "expected %s, found %s", either(classes), Quote(strings.Join(cfg.Architectures, ", ")))
		}
		class = classes[at]
	}
	if cfg.ModelType == "" && len(cfg.Architectures) == 0 {
		return "", o.Fail("model_type", "expected %q, found neither model_type nor architectures", modelTypes[0])
	}
	auto := o.Object("auto_map")
	if o.Err != nil {
		return "", o.Err
	}
	for _, key := range auto.Keys() {
		value := auto.Text(key, "")
		if _, class, ok := strings.Cut(value, "--"); ok { // a repository stands before it
			value = class
		}
		if strings.HasPrefix(key, "AutoModel") && !slices.Contains(code, value) {
			return "", o.Fail("auto_map", "%s: the model is code in its repository, which is never run", Quote(key))
		}
	}
	return class, nil
}

// either quotes names and joins them.
func either(names []string) string { return `"` + strings.Join(names, `" or "`) + `"` }

// DType reads the element type of the checkpoint: dtype, or torch_dtype in older
// files; float32 when neither is there.
func (o *Object) DType(allowed ...tensor.DType) (tensor.DType, error) {
	var found string
	for _, key := range []string{"dtype", "torch_dtype"} {
		text := strings.TrimPrefix(o.Text(key, ""), "torch.")
		switch {
		case o.Err != nil:
			return 0, o.Err
		case text == "":
		case found != "" && found != text:
			return 0, o.Fail(key, "%s, but dtype is %s", Quote(text), Quote(found))
		default:
			found = text
			if d, ok := dtypes[text]; !ok || !slices.Contains(allowed, d) {
				var want []string
				for _, name := range []string{"float32", "bfloat16", "float16"} {
					if slices.Contains(allowed, dtypes[name]) {
						want = append(want, name)
					}
				}
				return 0, o.Fail(key, "expected %s, found %s", either(want), Quote(text))
			}
		}
	}
	if found == "" {
		return tensor.F32, nil
	}
	return dtypes[found], nil
}

var dtypes = map[string]tensor.DType{"float32": tensor.F32, "bfloat16": tensor.BF16, "float16": tensor.F16}

// activations maps the reference's names to what the device computes.
var activations = map[string]nn.Unary{
	"silu":              nn.SiLU,
	"swish":             nn.SiLU,
	"gelu":              nn.GELU,
	"gelu_python":       nn.GELUStepwise,
	"gelu_new":          nn.GELUTanhStepwise,
	"gelu_pytorch_tanh": nn.GELUTanh,
	"relu":              nn.ReLU,
	"tanh":              nn.Tanh,
	"sigmoid":           nn.Sigmoid,
}

// Activation reads the name of an elementwise function.
func (o *Object) Activation(key, byDefault string) nn.Unary {
	f, err := o.Function(key, o.Text(key, byDefault))
	if o.Err == nil {
		o.Err = err
	}
	return f
}

// Function is the elementwise function of a name that was found under key.
func (o *Object) Function(key, name string) (nn.Unary, error) {
	f, ok := activations[name]
	if !ok {
		return 0, o.Fail(key, "%s is not supported", Quote(name))
	}
	return f, nil
}

// Epsilon reads what is added to a variance: a number between 0 and 1 that
// float32 does not round to 0.
func (o *Object) Epsilon(key string, byDefault float64) float32 {
	eps := float32(o.Number(key, byDefault))
	if o.Err == nil && !(eps > 0 && eps < 1) {
		o.Err = o.Fail(key, "expected a number between 0 and 1, found %s", Snippet(o.Raw(key)))
	}
	return eps
}

// PadToken reads pad_token_id; -1 stands for none.
func (o *Object) PadToken(byDefault, vocabulary int) int {
	pad := o.IDs("pad_token_id", byDefault, 1)
	if o.Err != nil || len(pad) == 0 || pad[0] < 0 {
		return -1
	}
	if pad[0] >= vocabulary {
		o.Err = o.Fail("pad_token_id", "%d is outside the vocabulary of %d", pad[0], vocabulary)
	}
	return pad[0]
}
