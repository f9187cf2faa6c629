package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// exampleRepo serves one repository until done is called.
func exampleRepo(files hubtest.Files) (c *hub.Client, cache string, done func()) {
	s, cache, clean := exampleHub()
	s.Close()
	s, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{ID: "org/tiny", History: 2, Revisions: map[string]hubtest.Files{"main": files}}}})
	if err != nil {
		log.Fatal(err)
	}
	if c, err = hub.New(hub.Options{Endpoint: s.URL(), CacheDir: cache}); err != nil {
		log.Fatal(err)
	}
	return c, cache, func() {
		s.Close()
		clean()
	}
}

// A file is read at any offset without downloading it.
func ExampleClient_OpenRemote() {
	c, _, done := exampleRepo(hubtest.Files{"words.txt": []byte("one two three four")})
	defer done()

	f, err := c.OpenRemote(context.Background(), hub.ModelRepo("org/tiny"), "main", "words.txt")
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 8, 5))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Size(), string(text))
	// Output: 18 three
}

// Names, dtypes and shapes of a model's tensors cost a range or two per file.
func ExampleClient_RemoteSafetensors() {
	c, _, done := exampleRepo(hubtest.Files{"model.safetensors": st(`{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}`, 24)})
	defer done()

	info, err := c.RemoteSafetensors(context.Background(), hub.ModelRepo("org/tiny"), "main", hub.SafetensorsOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range info.Files {
		for _, t := range f.Tensors {
			fmt.Println(f.File.Path, t.Name, t.DType, t.Shape)
		}
	}
	// Output: model.safetensors w F32 [2 3]
}

// Offline the cache answers, or says what it lacks.
func ExampleClient_Snapshot_offline() {
	online, cache, done := exampleRepo(hubtest.Files{"config.json": []byte("{}"), "README.md": []byte("# tiny")})
	defer done()
	ctx, repo := context.Background(), hub.ModelRepo("org/tiny")
	if _, err := online.Snapshot(ctx, repo, "main", hub.SnapshotOptions{Allow: []string{"*.json"}}); err != nil {
		log.Fatal(err)
	}

	c, err := hub.New(hub.Options{CacheDir: cache, Offline: true})
	if err != nil {
		log.Fatal(err)
	}
	snap, err := c.Snapshot(ctx, repo, "main", hub.SnapshotOptions{Allow: []string{"*.json"}})
	fmt.Println(len(snap.Files), err)
	_, err = c.Snapshot(ctx, repo, "main", hub.SnapshotOptions{})
	var incomplete *hub.IncompleteError
	if errors.As(err, &incomplete) {
		fmt.Println("missing:", incomplete.Missing)
	}
	// Output:
	// 1 <nil>
	// missing: [README.md]
}

// Listings come page by page; leaving the loop asks for no further page.
func ExampleClient_Commits() {
	c, _, done := exampleRepo(hubtest.Files{"config.json": []byte("{}")})
	defer done()

	for commit, err := range c.Commits(context.Background(), hub.ModelRepo("org/tiny"), "main") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(commit.Title, commit.Date.Year())
	}
	// Output:
	// commit 2 2026
	// commit 1 2026
	// commit 0 2026
}
