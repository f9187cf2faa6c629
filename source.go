package compress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/loader"
)

// companions are the patterns of small files that travel with the weights: the
// configuration, and what a tokenizer needs.
var companions = []string{"*.json", "*.txt", "*.model", "*.jinja", "*.md", "LICENSE*", "NOTICE*"}

// companionLimit bounds a companion file; larger ones are data, not settings.
const companionLimit = 64 << 20

// snapshot is a source on disk.
type snapshot struct {
	// path is a directory or an archive, and files what is in it.
	path  string
	files files
	// file is the weight file or index among them.
	file string
	// companions are the small files to keep beside the weights.
	companions []string
	// skipped are small files that were left out, since they are links to elsewhere.
	skipped  []string
	repo     string
	revision string
	commit   string
	// unverified says that nobody could tell whether files are missing.
	unverified bool
}

// fetch resolves a revision and brings the weights and companions of the commit
// into the cache. Weights in other formats are not downloaded.
func fetch(ctx context.Context, client *hub.Client, repo hub.Repo, revision, file string) (*snapshot, error) {
	first, files, err := list(ctx, client, repo, revision)
	if err != nil {
		return nil, err
	}
	pinned := string(first.Commit)
	weights, err := chooseWeights(files, file)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", repo, revision, err)
	}
	wanted := []string{weights}
	if strings.HasSuffix(weights, ".index.json") {
		local, err := client.Download(ctx, repo, pinned, weights)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(local)
		if err != nil {
			return nil, err
		}
		index, err := loader.ParseIndex(text, loader.Limits{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", weights, err)
		}
		for _, shard := range index.Shards {
			wanted = append(wanted, path.Join(path.Dir(weights), shard))
		}
	}
	var small []string
	for _, f := range files {
		if path.Dir(f.Path) == path.Dir(weights) && f.Size <= companionLimit && !slices.Contains(wanted, f.Path) && isCompanion(path.Base(f.Path)) {
			small = append(small, f.Path)
		}
	}
	snap, err := client.Snapshot(ctx, repo, pinned, hub.SnapshotOptions{Files: append(small, wanted...)})
	if err != nil {
		return nil, err
	}
	return &snapshot{
		path: snap.Dir, files: folder(snap.Dir), file: weights, companions: small,
		repo: repo.ID, revision: revision, commit: pinned, unverified: snap.Unverified,
	}, nil
}

// list resolves a revision and returns the folder of its snapshot and the files
// of the commit.
func list(ctx context.Context, client *hub.Client, repo hub.Repo, revision string) (hub.Snapshot, []hub.File, error) {
	// This call alone names the revision: it resolves it once and records it in the
	// cache. Everything after it is pinned to the commit.
	first, err := client.Snapshot(ctx, repo, revision, hub.SnapshotOptions{Allow: []string{"config.json"}})
	if err != nil {
		return first, nil, err
	}
	files, err := client.List(ctx, repo, first.Commit)
	if errors.Is(err, hub.ErrOffline) {
		// Caches that other clients made may lack a listing. What lies in the
		// snapshot has to do; files that a strict load needs are missed there.
		files, err = filesIn(folder(first.Dir))
	}
	return first, files, err
}

func isCompanion(name string) bool {
	if strings.HasSuffix(name, ".index.json") {
		return false // it describes files that the package does not have
	}
	return slices.ContainsFunc(companions, func(p string) bool { return hub.Match(p, name) })
}

// chooseWeights returns the safetensors file or index to load: the one that is
// asked for, else the usual names, else the only one there is.
func chooseWeights(files []hub.File, asked string) (string, error) {
	var indexes, singles, others []string
	for _, f := range files {
		switch {
		case f.Path == asked && asked != "":
			return asked, nil
		case strings.HasSuffix(f.Path, ".safetensors.index.json"):
			indexes = append(indexes, f.Path)
		case strings.HasSuffix(f.Path, ".safetensors"):
			singles = append(singles, f.Path)
		case strings.HasSuffix(f.Path, ".bin"), strings.HasSuffix(f.Path, ".pt"), strings.HasSuffix(f.Path, ".ckpt"), strings.HasSuffix(f.Path, ".gguf"), strings.HasSuffix(f.Path, ".onnx"):
			others = append(others, f.Path)
		}
	}
	if asked != "" {
		return "", fmt.Errorf("no file %q; safetensors files: %s", asked, some(append(indexes, singles...)))
	}
	for _, usual := range []string{"model.safetensors", "model.safetensors.index.json"} {
		if slices.Contains(singles, usual) || slices.Contains(indexes, usual) {
			return usual, nil
		}
	}
	candidates := indexes
	if len(candidates) == 0 {
		candidates = singles
	}
	switch len(candidates) {
	case 1:
		return candidates[0], nil
	case 0:
		if len(others) > 0 {
			return "", fmt.Errorf("no safetensors file; only safetensors is read, never %s", some(others))
		}
		return "", fmt.Errorf("no safetensors file")
	}
	return "", fmt.Errorf("several weight files, name one: %s", some(candidates))
}

// some writes names for an error, at most a few.
func some(names []string) string {
	const most = 8
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// filesIn lists the regular files at the top of a source, symbolic links to them
// included.
func filesIn(fsys fs.StatFS) ([]hub.File, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var files []hub.File
	for _, e := range entries {
		info, err := fsys.Stat(e.Name())
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		files = append(files, hub.File{Path: e.Name(), Size: info.Size()})
	}
	return files, nil
}

// localSnapshot describes a directory or an archive as a source, which has to be
// closed.
func localSnapshot(path, file string) (_ *snapshot, err error) {
	opened, err := openFiles(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	listed, err := filesIn(opened)
	if err != nil {
		return nil, err
	}
	weights, err := chooseWeights(listed, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	src := &snapshot{path: path, files: opened, file: weights}
	_, linked := opened.(folder) // archives have no links
	for _, f := range listed {
		if f.Size > companionLimit || f.Path == weights || !isCompanion(f.Path) {
			continue
		}
		if linked && !staysInside(path, f.Path) {
			src.skipped = append(src.skipped, f.Path)
			continue
		}
		src.companions = append(src.companions, f.Path)
	}
	return src, nil
}

// staysInside reports whether a file of dir lies there, or, when dir is a
// snapshot of a Hub cache, in the folder of its repository. Companions are
// copied into packages that are made to be handed on: a link must not bring in
// what its owner did not mean to give away.
func staysInside(dir, name string) bool {
	real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return false
	}
	home, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	if snapshots := filepath.Dir(home); filepath.Base(snapshots) == "snapshots" && hub.IsCommit(filepath.Base(home)) {
		home = filepath.Dir(snapshots)
	}
	rel, err := filepath.Rel(home, real)
	return err == nil && filepath.IsLocal(rel)
}

// Close closes the files.
func (s *snapshot) Close() error { return s.files.Close() }

// configFile is the path of the configuration that belongs to the weights.
func (s *snapshot) configFile() string { return path.Join(path.Dir(s.file), "config.json") }

// configShown is configFile as errors name it.
func (s *snapshot) configShown() string {
	return filepath.Join(s.path, filepath.FromSlash(s.configFile()))
}

// readConfig reads the configuration, with the error that a user expects when it
// is not there.
func (s *snapshot) readConfig() ([]byte, error) {
	f, err := s.files.Open(s.configFile())
	if err != nil {
		return nil, fmt.Errorf("the model's configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, companionLimit+1))
	if err != nil {
		return nil, fmt.Errorf("the model's configuration: %s: %w", s.configShown(), err)
	}
	if len(data) > companionLimit {
		return nil, fmt.Errorf("%s is larger than %d bytes", s.configShown(), companionLimit)
	}
	return data, nil
}
