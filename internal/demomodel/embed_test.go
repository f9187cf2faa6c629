package demomodel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxShipped bounds what the model may add to the repository and the binary.
const maxShipped = 8_000_000

// stored is one tensor as its file has it.
type stored struct {
	dtype string
	shape []int
	data  []byte
}

// readTensors parses a safetensors file; it trusts nothing but has no limits,
// since the files are this package's own.
func readTensors(t *testing.T, name string) map[string]stored {
	t.Helper()
	raw := readFile(t, name)
	if len(raw) < 8 {
		t.Fatalf("%s: %d bytes", name, len(raw))
	}
	n := binary.LittleEndian.Uint64(raw)
	if n > uint64(len(raw)-8) {
		t.Fatalf("%s: header of %d bytes in a file of %d", name, n, len(raw))
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:8+n], &header); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	body := raw[8+n:]
	out := map[string]stored{}
	for key, value := range header {
		if key == "__metadata__" {
			continue
		}
		var e struct {
			Dtype   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}
		if err := json.Unmarshal(value, &e); err != nil {
			t.Fatalf("%s: %s: %v", name, key, err)
		}
		lo, hi := e.Offsets[0], e.Offsets[1]
		if lo < 0 || hi < lo || hi > len(body) {
			t.Fatalf("%s: %s: offsets %d to %d in %d bytes", name, key, lo, hi, len(body))
		}
		out[key] = stored{e.Dtype, e.Shape, body[lo:hi]}
	}
	return out
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := fs.ReadFile(FS(), name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, name), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestFilesAndSize(t *testing.T) {
	common := []string{
		"README.md", "config.json", "generation_config.json", "special_tokens_map.json",
		"tokenizer.json", "tokenizer_config.json",
	}
	want := map[string][]string{
		RevisionMain: append([]string{"model.safetensors"}, common...),
		RevisionSharded: append([]string{
			"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
			"model-00003-of-00003.safetensors", "model.safetensors.index.json",
		}, common...),
	}
	total := int64(0)
	got := map[string][]string{}
	err := fs.WalkDir(FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		got[path.Dir(name)] = append(got[path.Dir(name)], path.Base(name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for revision, names := range want {
		slices.Sort(names)
		slices.Sort(got[revision])
		if !slices.Equal(names, got[revision]) {
			t.Errorf("%s has %v, want %v", revision, got[revision], names)
		}
		delete(got, revision)
	}
	if len(got) != 0 {
		t.Errorf("files outside the revisions: %v", got)
	}
	if total > maxShipped {
		t.Errorf("%d bytes are shipped, the limit is %d", total, maxShipped)
	}
	for _, name := range common {
		if !bytes.Equal(readFile(t, RevisionMain+"/"+name), readFile(t, RevisionSharded+"/"+name)) {
			t.Errorf("%s differs between the revisions", name)
		}
	}
}

func TestConfigFitsTensors(t *testing.T) {
	var c struct {
		Architectures []string `json:"architectures"`
		Vocab         int      `json:"vocab_size"`
		Hidden        int      `json:"hidden_size"`
		Inner         int      `json:"intermediate_size"`
		Layers        int      `json:"num_hidden_layers"`
		Tied          bool     `json:"tie_word_embeddings"`
	}
	readJSON(t, "main/config.json", &c)
	if !slices.Equal(c.Architectures, []string{"LlamaForCausalLM"}) || c.Tied || c.Layers < 4 {
		t.Errorf("config: %+v", c)
	}
	if 3*c.Vocab >= c.Hidden {
		t.Errorf("three tables of %d rows do not pay at width %d", c.Vocab, c.Hidden)
	}
	want := map[string][]int{
		"model.embed_tokens.weight": {c.Vocab, c.Hidden},
		"model.norm.weight":         {c.Hidden},
		"lm_head.weight":            {c.Vocab, c.Hidden},
	}
	for i := range c.Layers {
		layer := fmt.Sprintf("model.layers.%d.", i)
		want[layer+"input_layernorm.weight"] = []int{c.Hidden}
		want[layer+"post_attention_layernorm.weight"] = []int{c.Hidden}
		for _, p := range []string{"q", "k", "v", "o"} {
			want[layer+"self_attn."+p+"_proj.weight"] = []int{c.Hidden, c.Hidden}
		}
		want[layer+"mlp.gate_proj.weight"] = []int{c.Inner, c.Hidden}
		want[layer+"mlp.up_proj.weight"] = []int{c.Inner, c.Hidden}
		want[layer+"mlp.down_proj.weight"] = []int{c.Hidden, c.Inner}
	}
	got := readTensors(t, "main/model.safetensors")
	for name, shape := range want {
		e, ok := got[name]
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		size := 4
		for _, n := range shape {
			size *= n
		}
		if e.dtype != "F32" || !slices.Equal(e.shape, shape) || len(e.data) != size {
			t.Errorf("%s: %s %v in %d bytes, want F32 %v", name, e.dtype, e.shape, len(e.data), shape)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d tensors, want %d", len(got), len(want))
	}
}

func TestShardsHoldTheSameBytes(t *testing.T) {
	var index struct {
		Metadata struct {
			TotalSize int `json:"total_size"`
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	readJSON(t, "sharded/model.safetensors.index.json", &index)
	single := readTensors(t, "main/model.safetensors")
	shards := map[string]map[string]stored{}
	for name, file := range index.WeightMap {
		if shards[file] == nil {
			shards[file] = readTensors(t, "sharded/"+file)
		}
		a, b := single[name], shards[file][name]
		if a.dtype != b.dtype || !slices.Equal(a.shape, b.shape) || !bytes.Equal(a.data, b.data) {
			t.Errorf("%s in %s is not the tensor of the single file", name, file)
		}
	}
	count, size := 0, 0
	for _, tensors := range shards {
		count += len(tensors)
		for _, e := range tensors {
			size += len(e.data)
		}
	}
	if len(shards) != 3 || count != len(single) || len(index.WeightMap) != len(single) || size != index.Metadata.TotalSize {
		t.Errorf("%d shards, %d tensors, %d in the index, %d bytes (index: %d); the single file has %d tensors",
			len(shards), count, len(index.WeightMap), size, index.Metadata.TotalSize, len(single))
	}
}

func TestTokenizerFitsConfig(t *testing.T) {
	var c struct {
		Vocab int `json:"vocab_size"`
	}
	var ids map[string]any
	readJSON(t, "main/config.json", &c)
	readJSON(t, "main/config.json", &ids)
	var tok struct {
		Model struct {
			Vocab map[string]int `json:"vocab"`
		} `json:"model"`
	}
	readJSON(t, "main/tokenizer.json", &tok)
	if len(tok.Model.Vocab) != c.Vocab {
		t.Errorf("%d tokens, vocab_size %d", len(tok.Model.Vocab), c.Vocab)
	}
	seen := make([]bool, c.Vocab)
	for token, id := range tok.Model.Vocab {
		if id < 0 || id >= c.Vocab || seen[id] {
			t.Errorf("token %q has id %d", token, id)
			continue
		}
		seen[id] = true
	}
	for _, name := range []string{"pad", "bos", "eos"} {
		id, ok := ids[name+"_token_id"].(float64)
		if !ok || tok.Model.Vocab["<"+name+">"] != int(id) {
			t.Errorf("%s_token_id %v, the tokenizer has %d", name, ids[name+"_token_id"], tok.Model.Vocab["<"+name+">"])
		}
	}
}

// TestModelCardAgreesWithLog keeps the figures in the card the ones that the
// training run wrote, and the run one that learnt something.
func TestModelCardAgreesWithLog(t *testing.T) {
	raw, err := os.ReadFile("training.log")
	if err != nil {
		t.Fatal(err)
	}
	log, card := string(raw), string(readFile(t, "main/README.md"))
	figure := func(pattern string) float64 {
		m := regexp.MustCompile(pattern).FindStringSubmatch(log)
		if m == nil {
			t.Fatalf("training.log has no %q", pattern)
		}
		if !strings.Contains(card, m[1]) {
			t.Errorf("the model card does not state %s (%s)", m[1], pattern)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	uniform, unigram := figure(`uniform ([0-9.]+)`), figure(`unigram ([0-9.]+)`)
	validation, held := figure(`validation loss ([0-9.]+), test`), figure(`test loss ([0-9.]+)`)
	if !(validation < unigram/2 && held < unigram/2 && unigram < uniform) {
		t.Errorf("losses: uniform %v, unigram %v, validation %v, test %v", uniform, unigram, validation, held)
	}
}
