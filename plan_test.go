package compress

import (
	"strings"
	"testing"

	"github.com/hfcompress/compress/hub"
)

func TestChoosePlaces(t *testing.T) {
	const shards = "transformer/d-00001-of-00002.safetensors transformer/d-00002-of-00002.safetensors"
	for _, c := range []struct {
		name, files, asked string
		want               string // folder:opens:number of files, or an error's words behind !
	}{
		{"one", "config.json model.safetensors", "", ".:model.safetensors:1"},
		{"the only one", "config.json weights.safetensors", "", ".:weights.safetensors:1"},
		{"variants", "model.safetensors model.fp16.safetensors", "", ".:model.safetensors:1"},
		{"a variant", "model.safetensors model.fp16.safetensors", "model.fp16.safetensors", ".:model.fp16.safetensors:1"},
		{"several", "a.safetensors b.safetensors", "", "!several weight files, name one: a.safetensors, b.safetensors"},
		{"index", "transformer/d.safetensors.index.json " + shards + " transformer/other.safetensors", "", "transformer:transformer/d.safetensors.index.json:2"},
		{"index without shards", "m.safetensors.index.json", "", "!m.safetensors.index.json has no shards beside it"},
		{"pipeline", "model_index.json whole.safetensors vae/diffusion_pytorch_model.safetensors unet/diffusion_pytorch_model.safetensors", "",
			"unet:unet/diffusion_pytorch_model.safetensors:1 vae:vae/diffusion_pytorch_model.safetensors:1"},
		{"whole model of a pipeline", "model_index.json whole.safetensors vae/model.safetensors", "whole.safetensors", ".:whole.safetensors:1"},
		{"folder", "a/model.safetensors b/model.safetensors", "b/", "b:b/model.safetensors:1"},
		{"folders", "b/model.safetensors a/model.safetensors readme", "", "a:a/model.safetensors:1 b:b/model.safetensors:1"},
		{"no such file", "model.safetensors", "x.safetensors", `!no file "x.safetensors"`},
		{"no such folder", "a/model.safetensors", "b", `!no file "b"`},
		{"nothing", "readme", "", "!no safetensors file"},
		{"another format", "pytorch_model.bin", "", "!only safetensors is read, never pytorch_model.bin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var files []hub.File
			for _, f := range strings.Fields(c.files) {
				files = append(files, hub.File{Path: f})
			}
			places, err := choosePlaces(files, c.asked)
			if words, fails := strings.CutPrefix(c.want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range places {
				got = append(got, p.folder+":"+p.opens+":"+string(rune('0'+len(p.files))))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s", s)
			}
		})
	}
}

func TestIsShard(t *testing.T) {
	for name, want := range map[string]bool{
		"a/m-00001-of-00009.safetensors": true, "a/m.safetensors": false, "a/m-x-of-y.safetensors": false,
		"a/m2-00001-of-00009.safetensors": false, "a/m-00001.safetensors": false, "a/m--of-.safetensors": false,
	} {
		if isShard(name, "a/m") != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
