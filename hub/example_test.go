package hub_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// exampleHub stands in for the real Hub.
func exampleHub() (s *hubtest.Server, cache string, done func()) {
	s, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{
		ID: "org/tiny",
		Revisions: map[string]hubtest.Files{"main": {
			"config.json":       []byte(`{"model_type":"llama"}`),
			"model.safetensors": noise(3, 2000),
		}},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	cache, err = os.MkdirTemp("", "hub-example")
	if err != nil {
		log.Fatal(err)
	}
	return s, cache, func() {
		s.Close()
		_ = os.RemoveAll(cache)
	}
}

func ExampleClient_Snapshot() {
	server, cache, done := exampleHub()
	defer done()

	c, err := hub.New(hub.Options{Endpoint: server.URL(), CacheDir: cache})
	if err != nil {
		log.Fatal(err)
	}
	snap, err := c.Snapshot(context.Background(), hub.ModelRepo("org/tiny"), "main", hub.SnapshotOptions{
		Allow: []string{"*.safetensors", "config.json"},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range snap.Files {
		st, err := os.Stat(filepath.Join(snap.Dir, f.Path))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(f.Path, st.Size())
	}
	// Output:
	// config.json 22
	// model.safetensors 2000
}

func ExampleClient_Download() {
	server, cache, done := exampleHub()
	defer done()

	c, err := hub.New(hub.Options{Endpoint: server.URL(), CacheDir: cache})
	if err != nil {
		log.Fatal(err)
	}
	path, err := c.Download(context.Background(), hub.ModelRepo("org/tiny"), "main", "config.json")
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	// Output: {"model_type":"llama"}
}

func ExampleOptionsFromEnv() {
	vars := map[string]string{"HF_HOME": "/models/hf", "HF_TOKEN": "hf_example", "HF_HUB_OFFLINE": "1"}
	env, err := hub.OptionsFromEnv(func(name string) string { return vars[name] }, "/home/me")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(filepath.ToSlash(env.Options.CacheDir), env.Options.Offline, env.TokenSource)
	// Output: /models/hf/hub true HF_TOKEN
}

func ExampleMatch() {
	fmt.Println(hub.Match("*.safetensors", "unet/model.safetensors"), hub.Match("model-?.bin", "model-10.bin"))
	// Output: true false
}
