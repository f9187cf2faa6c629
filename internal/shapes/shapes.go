// Package shapes makes checkpoints of the size and form of published models,
// filled with random values: for measuring at full size without anyone's
// weights.
package shapes

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Llama gives the sizes of a model of the Llama family.
type Llama struct {
	Vocabulary   int
	Hidden       int
	Intermediate int
	Layers       int
	Heads        int // key and value heads too
	MaxPositions int
	RopeTheta    float64
	RMSNormEps   float64
	TiedHead     bool
}

// NovoMolGen32M has the published sizes of NovoMolGen-32M with its vocabulary of
// SMILES atoms: 31,556,096 values in 111 F32 tensors. The intermediate width is
// the one that makes the count exact.
var NovoMolGen32M = Llama{
	Vocabulary:   84,
	Hidden:       512,
	Intermediate: 1024,
	Layers:       12,
	Heads:        8,
	MaxPositions: 2048,
	RopeTheta:    1e4,
	RMSNormEps:   1e-6,
}

// Entries lists the model's tensors, F32 and named as in transformers'
// LlamaForCausalLM, with values that are drawn while they are written: the
// memory needed does not depend on the model's size. Matrices are normal with
// deviation 0.02, those that add to the residual narrower by the square root of
// twice the number of layers; norm weights are near 1.
//
// A tensor's values depend on seed, its name and its shape alone, and are the
// same on every machine. Each entry can be written once.
func (m Llama) Entries(seed uint64) []loader.Entry {
	const deviation = 0.02
	residual := deviation / math.Sqrt(float64(2*m.Layers))
	var entries []loader.Entry
	add := func(name string, mean, deviation float64, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		entries = append(entries, loader.Entry{
			Name: name, DType: tensor.F32, Shape: shape,
			Data: newNormal(seed, name, n, mean, deviation),
		})
	}
	h, w := m.Hidden, m.Intermediate
	add("model.embed_tokens.weight", 0, deviation, m.Vocabulary, h)
	for i := range m.Layers {
		layer := fmt.Sprintf("model.layers.%d.", i)
		add(layer+"input_layernorm.weight", 1, deviation, h)
		add(layer+"self_attn.q_proj.weight", 0, deviation, h, h)
		add(layer+"self_attn.k_proj.weight", 0, deviation, h, h)
		add(layer+"self_attn.v_proj.weight", 0, deviation, h, h)
		add(layer+"self_attn.o_proj.weight", 0, residual, h, h)
		add(layer+"post_attention_layernorm.weight", 1, deviation, h)
		add(layer+"mlp.gate_proj.weight", 0, deviation, w, h)
		add(layer+"mlp.up_proj.weight", 0, deviation, w, h)
		add(layer+"mlp.down_proj.weight", 0, residual, h, w)
	}
	add("model.norm.weight", 1, deviation, h)
	if !m.TiedHead {
		add("lm_head.weight", 0, deviation, m.Vocabulary, h)
	}
	return entries
}

// Config returns the model's config.json.
func (m Llama) Config() []byte {
	config := struct {
		Architectures []string `json:"architectures"`
		AttentionBias bool     `json:"attention_bias"`
		BOS           int      `json:"bos_token_id"`
		EOS           int      `json:"eos_token_id"`
		HeadDim       int      `json:"head_dim"`
		Activation    string   `json:"hidden_act"`
		Hidden        int      `json:"hidden_size"`
		Initializer   float64  `json:"initializer_range"`
		Intermediate  int      `json:"intermediate_size"`
		MaxPositions  int      `json:"max_position_embeddings"`
		MLPBias       bool     `json:"mlp_bias"`
		ModelType     string   `json:"model_type"`
		Heads         int      `json:"num_attention_heads"`
		Layers        int      `json:"num_hidden_layers"`
		KeyHeads      int      `json:"num_key_value_heads"`
		Pad           int      `json:"pad_token_id"`
		RMSNormEps    float64  `json:"rms_norm_eps"`
		RopeTheta     float64  `json:"rope_theta"`
		Tied          bool     `json:"tie_word_embeddings"`
		DType         string   `json:"torch_dtype"`
		UseCache      bool     `json:"use_cache"`
		Vocabulary    int      `json:"vocab_size"`
	}{
		Architectures: []string{"LlamaForCausalLM"},
		BOS:           1, EOS: 2, Pad: 0,
		HeadDim:      m.Hidden / m.Heads,
		Activation:   "silu",
		Hidden:       m.Hidden,
		Initializer:  0.02,
		Intermediate: m.Intermediate,
		MaxPositions: m.MaxPositions,
		ModelType:    "llama",
		Heads:        m.Heads,
		Layers:       m.Layers,
		KeyHeads:     m.Heads,
		RMSNormEps:   m.RMSNormEps,
		RopeTheta:    m.RopeTheta,
		Tied:         m.TiedHead,
		DType:        "float32",
		UseCache:     true,
		Vocabulary:   m.Vocabulary,
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil { // NaN or infinite sizes
		panic(err)
	}
	return append(text, '\n')
}

// Write makes dir a checkpoint directory: weights, sharded if shardBytes is not
// zero and less than the model needs, and config.json. It refuses to replace
// files unless overwrite is set.
func (m Llama) Write(dir string, seed uint64, shardBytes int64, overwrite bool) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	config := filepath.Join(dir, "config.json")
	if _, err := os.Lstat(config); !overwrite && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "write", Path: config, Err: fs.ErrExist}
	}
	if shardBytes == 0 {
		shardBytes = math.MaxInt64
	}
	o := loader.WriteOptions{Metadata: map[string]string{"format": "pt"}, Overwrite: overwrite}
	if _, err := loader.WriteSharded(dir, m.Entries(seed), shardBytes, o); err != nil {
		return err
	}
	temp := config + ".tmp"
	if err := os.WriteFile(temp, m.Config(), 0o666); err != nil {
		return err
	}
	return os.Rename(temp, config)
}

// normal streams float32 values of a normal distribution.
type normal struct {
	source    *rand.PCG
	left      int
	mean      float64
	deviation float64
	block     bytes.Reader
	buffer    []byte
}

func newNormal(seed uint64, name string, n int, mean, deviation float64) io.Reader {
	h := fnv.New64a()
	io.WriteString(h, name)
	return &normal{source: rand.NewPCG(seed, h.Sum64()), left: n, mean: mean, deviation: deviation}
}

func (r *normal) Read(p []byte) (int, error) {
	if r.block.Len() == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		n := min(r.left, 1<<14)
		r.left -= n
		r.buffer = r.buffer[:0]
		for range n {
			v := float64(r.standard()*r.deviation) + r.mean
			r.buffer = binary.LittleEndian.AppendUint32(r.buffer, math.Float32bits(float32(v)))
		}
		r.block.Reset(r.buffer)
	}
	return r.block.Read(p)
}

// standard returns a value of mean 0 and variance 1: the sum of twelve uniform
// ones less 6, all integers until the end. The usual methods go through
// logarithms and exponentials, whose last bits differ between machines.
func (r *normal) standard() float64 {
	const bits, mask = 21, 1<<21 - 1
	var sum int64
	for range 4 {
		v := r.source.Uint64()
		sum += int64(v&mask + v>>bits&mask + v>>(2*bits)&mask)
	}
	// Twelve integers of mean mask/2.
	return float64(sum-6*mask) / (mask + 1)
}
