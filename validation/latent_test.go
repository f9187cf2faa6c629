package validation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/validation"
)

var latentSpec = architectures.InputSpec{Latent: &architectures.LatentInput{
	Channels: 2, Size: 3, Labels: 11, Timesteps: []float32{0, 0.5, 999}, LabelIDs: []int{4, 10},
}}

// Every declared timestep and label has a call of its own, batches grow to both
// sides of powers of two, nothing else is used, and files keep every bit.
func TestLatents(t *testing.T) {
	examples := validation.Generate(latentSpec, validation.Options{MaxRows: 9, MaxPositions: 2000})
	var names []string
	for _, e := range examples {
		names = append(names, e.Name)
		for _, v := range e.Inputs.Tensors["timestep"].Float32s() {
			if !slices.Contains(latentSpec.Latent.Timesteps, v) {
				t.Errorf("%s: timestep %g", e.Name, v)
			}
		}
		for _, v := range e.Inputs.Tensors["class_labels"].Int64s() {
			if !slices.Contains(latentSpec.Latent.LabelIDs, int(v)) {
				t.Errorf("%s: label %d", e.Name, v)
			}
		}
	}
	want := "images-1 images-2 images-3 images-4 images-5 images-7 images-8 images-9 timestep-0 timestep-0.5 timestep-999 class-4 class-10"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s", got)
	}
	text, err := validation.Format(examples)
	if err != nil {
		t.Fatal(err)
	}
	back, err := validation.Parse(text, validation.Limits{Spec: latentSpec})
	if err != nil || validation.Digest(back) != validation.Digest(examples) {
		t.Errorf("read back: %v", err)
	}
	few := validation.Generate(latentSpec, validation.Options{MaxPositions: 30})
	if len(few) != 6 { // an image counts as 4, and batches take at most half
		t.Errorf("%d examples of 30 positions", len(few))
	}
	bounded := validation.Generate(latentSpec, validation.Options{MaxRows: 2, MaxPositions: 2000, Boundaries: []int{6}})
	if !slices.ContainsFunc(bounded, func(e validation.Example) bool { return e.Name == "images-7" }) {
		t.Error("no example above the boundary")
	}
}

func TestLatentFilesRefused(t *testing.T) {
	image := `"hidden_states":{"dtype":"F32","shape":[1,2,3,3],"data":"` + strings.Repeat("AAAA", 24) + `"}`
	step := `"timestep":{"dtype":"I64","shape":[1],"data":"AQAAAAAAAAA="}`
	label := func(b string) string {
		return `"class_labels":{"dtype":"I64","shape":[1],"data":"` + b + `AAAAAAAAA="}`
	}
	all := func(parts ...string) string { return `[{"tensors":{` + strings.Join(parts, ",") + `}}]` }
	if _, err := validation.Parse([]byte(all(image, step, label("Cg"))), validation.Limits{Spec: latentSpec}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"missing":    {all(image, step), "class_labels are needed"},
		"label":      {all(image, step, label("Cw")), "class_labels [0] is 11, want 0 to 10"},
		"bytes":      {all(image, `"timestep":{"dtype":"F32","shape":[1],"data":"AQAAAAAAAAA="}`, label("Cg")), "8 bytes, F32[1] needs 4"},
		"shape":      {all(strings.Replace(image, "1,2,3,3", "1,2,9,1", 1), step, label("Cg")), "want F32[batch,2,3,3]"},
		"steps":      {all(image, `"timestep":{"dtype":"F32","shape":[2],"data":"AQAAAAAAAAA="}`, label("Cg")), "want F32 or I64[1]"},
		"type":       {all(image, `"timestep":{"dtype":"U8","shape":[1],"data":"AQ=="}`, label("Cg")), "want F32 or I64"},
		"axes":       {all(image, `"timestep":{"dtype":"F32","shape":[],"data":"AQAAAA=="}`, label("Cg")), "0 axes"},
		"other":      {all(image, step, label("Cg"), strings.Replace(step, "timestep", "guidance", 1)), "takes no guidance"},
		"mixed":      {`[{"input_ids":[[1]],"tensors":{` + step + `}}]`, "tensors are for models without token ids"},
		"attentions": {`[{"tensors":{` + image + "," + step + "," + label("Cg") + `},"flags":{"output_attentions":true}}]`, "no attention weights"},
	} {
		_, err := validation.Parse([]byte(c.text), validation.Limits{Spec: latentSpec})
		if !errors.Is(err, validation.ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	// A model of token ids takes none of it.
	if _, err := validation.Parse([]byte(all(step)), validation.Limits{Spec: architectures.InputSpec{Vocabulary: 9}}); err == nil || !strings.Contains(err.Error(), "input_ids are missing") {
		t.Errorf("%v", err)
	}
}

// Whatever is read is within the specification and keeps its bits.
func FuzzLatents(f *testing.F) {
	text, err := validation.Format(validation.Generate(latentSpec, validation.Options{MaxRows: 2, MaxPositions: 60}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`[{"tensors":{"timestep":{"dtype":"F32","shape":[1],"data":"AQAAAA=="}}}]`))
	limits := validation.Limits{Spec: latentSpec}
	f.Fuzz(func(t *testing.T, data []byte) { readBack(t, data, limits) })
}
