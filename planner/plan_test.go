package planner

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/internal/thousands"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/internal/headers"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Every model of testdata is of a family that is known, and is told from all
// others.
func TestFamilies(t *testing.T) {
	want := map[string]string{
		"qwen-image": "Qwen-Image", "auraflow-v0.3": "AuraFlow", "hunyuanvideo-1.5": "HunyuanVideo-1.5", "longcat-image": "LongCat-Image",
		"hunyuanimage-2.1": "HunyuanImage-2.1", "bria-fibo": "Bria FIBO", "prx": "PRX", "ovis-image": "Ovis-Image", "cogvideox-2b": "CogVideoX",
		"cogvideox-5b": "CogVideoX", "lumina-image-2": "Lumina-Image-2.0", "cosmos-predict2-2b": "Cosmos-Predict2", "cosmos-predict2-14b": "Cosmos-Predict2",
		"cogview4-defaults": "CogView4", "cogview4-6b": "CogView4", "glm-image": "GLM-Image", "chroma1-hd": "Chroma", "z-image-turbo": "Z-Image",
		"pixart-sigma": "PixArt", "wan2.1-1.3b": "Wan2.1", "wan2.1-14b": "Wan2.1", "sd1.5-unet": "UNet", "sdxl-unet": "UNet", "ddpm-cifar10-32": "UNet without conditions",
		"dit-xl-2": "DiT", "flux1-dev": "FLUX.1", "sd3-medium": "Stable Diffusion 3", "f5-tts-v1-base": "F5-TTS", "pi05-base": "pi0.5", "mdlm-owt": "MDLM",
		"nt-v2-50m": "ESM-2", "nt-v2-500m": "ESM-2", "gpt2": "GPT-2", "pythia-70m": "GPT-NeoX, Pythia", "pythia-410m": "GPT-NeoX, Pythia", "gpt-j-6b": "GPT-J",
		"phi-2": "Phi", "falcon-7b": "Falcon", "minilm-l6-v2": "BERT, MiniLM", "dnabert-2": "DNABERT-2, MosaicBERT", "molformer-xl": "MoLFormer",
		"mambabyte-972m": "Mamba", "evabyte": "Llama and its like", "g2p-en": "g2p-en", "state-st-hvg-replogle": "STATE ST", "esm3-open": "ESM3",
	}
	prefixes := map[string]string{
		"esm2-": "ESM-2", "esmc-": "ESM C", "byt5-": "T5, ByT5", "prot-t5": "T5, ByT5", "ankh-": "T5, ByT5", "progen2-": "ProGen2", "rita-": "RITA",
		"amplify-": "AMPLIFY", "glm2-": "gLM2", "e1-": "Profluent E1", "aido-": "AIDO.RNA, AIDO.DNA", "hyenadna-": "HyenaDNA", "caduceus-": "Caduceus",
		"evo-": "Evo", "uce-": "UCE", "state-se-": "STATE SE", "transcriptformer-": "TranscriptFormer", "gemma-3n-": "Gemma 3n",
		"novomolgen-": "Llama and its like", "llama-": "Llama and its like", "metagene-": "Llama and its like", "twist-": "Llama and its like", "slam-": "Llama and its like", "generator-": "Llama and its like",
	}
	files, err := filepath.Glob(filepath.Join("testdata", "models", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		family, ok := want[name]
		for prefix, other := range prefixes {
			if !ok && strings.HasPrefix(name, prefix) {
				family, ok = other, true
			}
		}
		if got := plan(t, name, Options{}).Family; !ok || got != family {
			t.Errorf("%s is taken for %q, expected %q", name, got, family)
		}
	}
}

// What the compiler's own plan counts for a registered family is what the
// declaration here counts, with the differences that are listed. Families that
// are not registered yet are not compared.
func TestRegisteredCountsTheSame(t *testing.T) {
	// differs says for which families the blueprint means another table.
	differs := map[string]string{
		"esm": "the blueprint's table has no row for hidden positions, the survey counts one",
	}
	compared := map[string]int{}
	files, err := filepath.Glob(filepath.Join("testdata", "models", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		for _, profiles := range []int{0, 1} {
			o := Options{Profiles: profiles}
			m, err := newModel(checkpoint(t, name))
			if err != nil {
				t.Fatal(err)
			}
			var p Plan
			if !registered(m, &p, o) {
				continue
			}
			var declared []Pass
			family := recognise(m)
			for i := range family.passes {
				if q, ok := m.pass(&family.passes[i], o); ok && family.passes[i].fromBlueprint() {
					declared = append(declared, q)
				}
			}
			if len(declared) != len(p.Passes) {
				t.Errorf("%s: %d passes are declared, the blueprint has %d blocks", name, len(declared), len(p.Passes))
				continue
			}
			compared[p.Architecture]++
			for i, d := range declared {
				c := p.Passes[i]
				if c.Verdict == Refused && d.Verdict == Refused && c.Saved.Bytes < 0 && d.Saved.Bytes < 0 {
					continue // pairs are refused in numbers by both, over domains that they write in their own way
				}
				same := d.Before == c.Before && d.After == c.After && d.Saved == c.Saved && d.Rows == c.Rows && d.Columns == c.Columns &&
					d.Tables == c.Tables && d.Verdict == c.Verdict && d.Contract == c.Contract && d.Kind == c.Kind && slices.Equal(d.touched, c.touched)
				if why := differs[p.Architecture]; same != (why == "") {
					t.Errorf("%s with %d profiles (known difference: %q): declared\n%+v\ncompiler\n%+v", name, profiles, why, d, c)
				}
			}
		}
	}
	t.Logf("compared: %v", compared)
	for _, must := range []string{"esm", "gpt_neox", "hyenadna", "llama", "progen", "t5", "uce"} {
		if compared[must] == 0 {
			t.Errorf("%s was not compared", must)
		}
	}
}

// A blueprint of the caller's takes the family's place, and has to fit.
func TestGivenBlueprint(t *testing.T) {
	dir := filepath.Join("..", "architectures", "declared", "testdata")
	text, err := os.ReadFile(filepath.Join(dir, "uce.json"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := declared.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	file, err := loader.Open(filepath.Join(dir, "uce.safetensors"), loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := FromLoader(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The file also holds reference outputs, whose names have a slash.
	c.Tensors = slices.DeleteFunc(c.Tensors, func(x Tensor) bool { return strings.Contains(x.Name, "/") })
	r, err := Make([]Checkpoint{c}, Options{Blueprint: b, Profiles: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Checkpoints[0]
	blocks := b.Blocks()
	if p.Architecture != declared.Architecture || len(blocks) == 0 || len(p.Passes) < len(blocks) {
		t.Fatalf("%+v", p)
	}
	for i, spec := range blocks {
		var want int64
		for _, o := range spec.Outputs {
			want += int64(o.Width) * int64(o.DType.Size()) * int64(spec.NumTokens)
		}
		if q := p.Passes[i]; q.Block != spec.Path || q.Tables != 2 || q.After.Bytes != 2*want {
			t.Errorf("%+v", q)
		}
	}
	if _, err := Make([]Checkpoint{c, c}, Options{Blueprint: b}); err == nil || !strings.Contains(err.Error(), "one checkpoint, and there are 2") {
		t.Error(err)
	}
	c.Tensors = slices.DeleteFunc(c.Tensors, func(x Tensor) bool { return x.Name == blocks[0].Embedding })
	if _, err := Make([]Checkpoint{c}, Options{Blueprint: b}); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Error(err)
	}
}

// A registered family whose checkpoint does not fit says so and is planned from
// the declaration.
func TestRegisteredThatDoesNotFit(t *testing.T) {
	c := checkpoint(t, "novomolgen-32m-atomwise")
	c.Tensors = append(c.Tensors, Tensor{"extra.weight", "F32", tensor.Shape{3}, 12})
	r, err := Make([]Checkpoint{c}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Checkpoints[0]
	if p.Architecture != "" || len(p.Passes) != 1 || p.Passes[0].Saved.Values != 657920 {
		t.Errorf("%+v", p)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], `"extra.weight" is unexpected`) {
		t.Errorf("notes %q", p.Notes)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		model string
		kind  kind
		want  string // in the reason
	}{
		{"llama-3.2-1b", kindLookup, "one table of 788,004,864 bytes is not smaller than the"},
		{"novomolgen-32m-bpe", kindLookup, "2 full tables of 3,072,000 bytes are not smaller than the 3,147,776 bytes that they replace; one would save 75,776"},
		{"gpt2", kindPairs, "is not smaller"},
		{"minilm-l6-v2", kindPairs, "is not smaller"},
		{"flux1-dev", kindTimesteps, "pooled text vector"},
		{"sd3-medium", kindTimesteps, "pooled text vector"},
		{"sdxl-unet", kindTimesteps, "pooled text vector"},
		{"cogvideox-2b", kindUniversal, "only BF16"},
		{"cogvideox-5b", kindUniversal, "is not smaller"},
		{"progen2-large", kindLookup, "is not smaller"},
	} {
		p := plan(t, c.model, Options{Profiles: 1})
		i := slices.IndexFunc(p.Passes, func(q Pass) bool { return q.Kind == string(c.kind) })
		if i < 0 {
			t.Fatalf("%s has no pass of kind %s", c.model, c.kind)
		}
		if q := p.Passes[i]; q.Verdict != Refused || !strings.Contains(q.Reason, c.want) {
			t.Errorf("%s: %s: %s", c.model, q.Verdict, q.Reason)
		}
		if slices.Contains(p.Possible.Passes, i) {
			t.Errorf("%s: a refused pass is in the total", c.model)
		}
	}
}

// Settings that break a family's independence are seen in config.json or in the
// names.
func TestConditions(t *testing.T) {
	edit := func(name, from, to string) Checkpoint {
		c := checkpoint(t, name)
		if !strings.Contains(string(c.Config), from) {
			t.Fatalf("%s: config has no %s", name, from)
		}
		c.Config = []byte(strings.Replace(string(c.Config), from, to, 1))
		return c
	}
	with := func(c Checkpoint, tensors ...Tensor) Checkpoint {
		c.Tensors = append(c.Tensors, tensors...)
		return c
	}
	for name, c := range map[string]struct {
		c    Checkpoint
		pass int
		want string
	}{
		"absolute positions": {edit("esm2-8m", `"position_embedding_type":"rotary"`, `"position_embedding_type":"absolute"`), 0, "positions are added"},
		"read positions":     {edit("esm2-8m", `"position_embedding_type":"rotary"`, `"position_embedding_type":"absolute"`), 1, "the model reads it"},
		"serial neox":        {edit("pythia-70m", `"use_parallel_residual":true`, `"use_parallel_residual":false`), 0, "MLP follows attention"},
		"two timesteps":      {edit("hunyuanvideo-1.5", `"use_meanflow":false`, `"use_meanflow":true`), 0, "two timesteps"},
		"resolution":         {edit("prx", `"resolution_embeds":false`, `"resolution_embeds":true`), 0, "resolution"},
		"sigma":              {edit("mdlm-owt", `"time_conditioning":false`, `"time_conditioning":true`), 0, "sigma is no constant"},
		"frame offset":       {with(checkpoint(t, "cogvideox-5b"), Tensor{"ofs_embedding.linear_1.weight", "BF16", tensor.Shape{2, 2}, 8}), 0, "offset"},
		"classes":            {with(checkpoint(t, "ddpm-cifar10-32"), Tensor{"class_embedding.weight", "F32", tensor.Shape{2, 2}, 16}), 0, "a class is added"},
	} {
		r, err := Make([]Checkpoint{c.c}, Options{declared: true})
		if err != nil {
			t.Fatal(err)
		}
		if q := r.Checkpoints[0].Passes[c.pass]; q.Verdict != Refused || !strings.Contains(q.Reason, c.want) {
			t.Errorf("%s: %s: %s", name, q.Verdict, q.Reason)
		}
	}
}

func TestTotals(t *testing.T) {
	for _, c := range []struct {
		model                   string
		total, listed, possible []int
		saved                   int64 // of possible
	}{
		{"esm2-8m", []int{0, 1}, []int{0, 1}, []int{0, 1}, 1104640 + 1313280},
		{"qwen-image", []int{0}, []int{0}, []int{0}, 13430390784},          // not both tables
		{"gpt2", []int{}, []int{}, []int{2}, 50331648},                     // computed, not shared as well
		{"dit-xl-2", []int{}, []int{}, []int{0, 1}, 835987968 + 299966976}, // after sharing, one embedder goes
		{"progen2-large", []int{}, []int{1, 2}, []int{1, 2}, 143559680 + 261980160},
		{"uce-modern-100m", []int{0, 2}, []int{1, 2}, []int{1, 2}, 2904110080 + 7864320},
	} {
		p := plan(t, c.model, Options{})
		if !slices.Equal(p.Total.Passes, c.total) || !slices.Equal(p.Listed.Passes, c.listed) || !slices.Equal(p.Possible.Passes, c.possible) {
			t.Errorf("%s: passes %v, %v, %v", c.model, p.Total.Passes, p.Listed.Passes, p.Possible.Passes)
		}
		if p.Possible.Saved != c.saved || p.Possible.After != p.Stored.Bytes-c.saved {
			t.Errorf("%s: %+v, expected %d bytes saved", c.model, p.Possible, c.saved)
		}
	}
}

func TestUnknown(t *testing.T) {
	m, err := headers.Parse([]byte(`config config.json {"model_type":"somethingnew","architectures":["NewModel"]}
file model.safetensors
F32 [20,64] tokens.embed.weight
F32 [1000,64] words.embed.weight
BF16 [50000,2560] features.weight
BF16 [512,2560] features_proj.weight
BF16 [384,64] layers.{0-5}.adaLN.weight
BOOL [1,1,512,512] layers.{0-5}.mask
F32 [1,9000,4] layers.{0-5}.buffer
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Make([]Checkpoint{opened(t, m)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Checkpoints[0]
	if p.Family != "" || len(p.Passes) != 0 || p.Total.Saved != 0 {
		t.Errorf("%+v", p)
	}
	if len(p.Notes) != 1 || !strings.HasPrefix(p.Notes[0], `unknown family: config.json has model_type "somethingnew" and architectures ["NewModel"]; what can be said from the tensors alone`) {
		t.Errorf("notes %q", p.Notes)
	}
	var got []string
	for _, o := range p.Observations {
		got = append(got, o.Tensors+": "+o.Says)
	}
	for _, want := range []string{
		"tokens.embed.weight: if this is a token embedding that is normalised and read by linears, a table pays for fewer than 64 ids in a layer whose MLP follows attention, and for fewer than about 176 where it stands beside it; here are 20: it could pay",
		"here are 1,000: refused",
		"features.weight: if only features_proj.weight reads it, which makes 512 columns of 2,560, a table of the results saves about 204,800,000 bytes",
		"layers.#.adaLN.weight: if the input of these 6 linears is a function of a timestep alone, a table of T timesteps takes 4,608 bytes each in place of 294,912 bytes; it pays up to T = 63",
		"layers.#.mask: 6 tensors BOOL[1,1,512,512] may be equal; stored once they would save 1,310,720 bytes: needs the bytes",
		"layers.#.buffer: 6 tensors F32[1,9000,4] may be equal; stored once they would save 720,000 bytes: needs the bytes",
	} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("nothing says %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if len(got) != 6 {
		t.Errorf("%d observations:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// A family that is named by the configuration and lacks its tensors is refused
// with the pattern that nothing matches.
func TestMissingTensors(t *testing.T) {
	c := checkpoint(t, "qwen-image")
	c.Tensors = slices.DeleteFunc(c.Tensors, func(t Tensor) bool { return strings.Contains(t.Name, "time_text_embed") })
	r, err := Make([]Checkpoint{c}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range r.Checkpoints[0].Passes {
		if q.Verdict != Refused || !strings.Contains(q.Reason, "no tensor time_text_embed.timestep_embedder.linear_{1,2}.{weight,bias}") {
			t.Errorf("%s: %s", q.Verdict, q.Reason)
		}
	}
}

func TestBadInput(t *testing.T) {
	good := Tensor{"a", "F32", tensor.Shape{2, 3}, 24}
	for name, c := range map[string]struct {
		c    Checkpoint
		o    Options
		want string
	}{
		"profiles":   {Checkpoint{}, Options{Profiles: -1}, "profiles: -1"},
		"timesteps":  {Checkpoint{}, Options{Timesteps: 1 << 30}, "timesteps: 1073741824"},
		"config":     {Checkpoint{Config: []byte("[]"), Tensors: []Tensor{good}}, Options{}, "not a JSON object"},
		"twice":      {Checkpoint{Tensors: []Tensor{good, good}}, Options{}, "listed twice"},
		"shape":      {Checkpoint{Tensors: []Tensor{{"a", "F32", tensor.Shape{-1}, 4}}}, Options{}, `tensor "a"`},
		"sum":        {Checkpoint{Tensors: []Tensor{{"a", "F4", nil, 1 << 62}, {"b", "F4", nil, 1 << 62}}}, Options{}, "too large"},
		"checkpoint": {Checkpoint{Name: "transformer", Config: []byte("{"), Tensors: []Tensor{good}}, Options{}, "transformer: config.json"},
	} {
		_, err := Make([]Checkpoint{c.c}, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema describes what is written, field by field.
func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "plan.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "models", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(r *Report) error {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		v["path"], v["network"] = "somewhere", map[string]any{"connections": 0, "bytes_sent": 0, "bytes_received": 0}
		return schema.Validate(v)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		r, err := Make([]Checkpoint{checkpoint(t, name)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := check(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := Make([]Checkpoint{{Tensors: []Tensor{{"x.embed", "F32", tensor.Shape{10, 20}, 800}}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := check(r); err != nil {
		t.Error("unknown:", err)
	}
	r.Checkpoints[0].Total.Passes = nil
	if check(r) == nil {
		t.Error("a null list passes")
	}
}

// The generator of testdata is kept with it and names what it was run with.
func TestGeneratorIsKept(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "gen", "models.py"))
	if err != nil || !strings.Contains(string(text), "diffusers==") {
		t.Error(err)
	}
}

func FuzzMake(f *testing.F) {
	for _, name := range []string{"esm2-8m", "gpt2", "dit-xl-2", "progen2-large", "chroma1-hd", "g2p-en", "uce-modern-100m"} {
		text, err := os.ReadFile(filepath.Join("testdata", "models", name+".txt"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, 1, 7)
	}
	f.Add([]byte("config config.json {\"_class_name\":\"WanTransformer3DModel\"}\nfile a\nF32 [0,5] condition_embedder.time_proj.weight\nF4 [3,2] condition_embedder.time_embedder.linear_2.weight\nF32 [1] condition_embedder.time_embedder.linear_1.weight"), 0, 0)
	f.Add([]byte("config config.json {\"model_type\":\"progen\"}\nfile a\nF16 [4000000000,5] transformer.wte.weight\nF16 [] transformer.h.0.ln_1.weight"), 64, 1<<24)
	f.Fuzz(func(t *testing.T, text []byte, profiles, timesteps int) {
		m, err := headers.Parse(text)
		if err != nil || len(m.Tensors) > 4000 {
			return
		}
		c := Checkpoint{Config: m.Config}
		for _, x := range m.Tensors {
			n, err := x.Shape.Bytes(x.DType)
			if err != nil {
				return
			}
			c.Tensors = append(c.Tensors, Tensor{x.Name, x.DType.String(), x.Shape, int64(n)})
		}
		r, err := Make([]Checkpoint{c}, Options{Profiles: profiles, Timesteps: timesteps})
		if err != nil {
			return
		}
		p := r.Checkpoints[0]
		for _, q := range p.Passes {
			if q.Verdict != Refused && (q.Saved.Bytes <= 0 || q.Saved.Bytes > p.Stored.Bytes) {
				t.Fatalf("%s saves %d of %d bytes", q.Title, q.Saved.Bytes, p.Stored.Bytes)
			}
			if q.Verdict == Refused && q.Reason == "" {
				t.Fatalf("%s is refused without a reason", q.Title)
			}
			if q.Before.Bytes < 0 || q.After.Bytes < 0 {
				t.Fatalf("%s: %+v", q.Title, q)
			}
		}
		for _, total := range []Total{p.Total, p.Listed, p.Possible} {
			if total.Saved < 0 || total.After < 0 || total.Before != p.Stored.Bytes {
				t.Fatalf("%+v", total)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -100: "-100", -1000: "-1,000", 1234567: "1,234,567"} {
		if got := thousands.Group(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a.#.b", "a.12.b", true}, {"a.#.b", "a.x.b", false}, {"a.#.b", "a.1.2.b", false}, {"a.#.b", "a#1#b", false},
		{"{x.,}a", "a", true}, {"{x.,}a", "x.a", true}, {"{x.,}a", "xa", false}, {"a{.b,}", "a.b", true},
		{"a,b", "a,b", true}, {"a}b", "a}b", true}, {"a", "aa", false}, {"a+(", "a+(", true},
	} {
		if got := compile(c.pattern).match(c.name); got != c.want {
			t.Errorf("%s matches %s: %v", c.pattern, c.name, got)
		}
	}
}

func ExampleMake() {
	text, err := os.ReadFile(filepath.Join("testdata", "models", "caduceus-ps-1k-4l.txt"))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := headers.Parse(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := Checkpoint{Config: m.Config}
	for _, t := range m.Tensors {
		n, err := t.Shape.Bytes(t.DType)
		if err != nil {
			fmt.Println(err)
			return
		}
		c.Tensors = append(c.Tensors, Tensor{Name: t.Name, DType: t.DType.String(), Shape: t.Shape, Bytes: int64(n)})
	}
	r, err := Make([]Checkpoint{c}, Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range r.Checkpoints[0].Passes {
		fmt.Printf("%s: %s %d bytes\n", p.Title, p.Verdict, p.Saved.Bytes)
	}
	// Output:
	// token table: saves 984064 bytes
}
