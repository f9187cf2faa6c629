package compress

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Inspection tells what a checkpoint holds and what could be saved, from
// config.json and the headers of its files alone.
type Inspection struct {
	Repo     string `json:"repo,omitempty"`
	Revision string `json:"revision,omitempty"`
	Commit   string `json:"commit,omitempty"`
	Path     string `json:"path"`
	// Files are the weight files, DTypes the tensors by element type.
	Files   []InspectedFile       `json:"files"`
	Tensors int                   `json:"tensors"`
	Values  int64                 `json:"values"`
	Bytes   int64                 `json:"bytes"`
	DTypes  map[string]DTypeCount `json:"dtypes"`
	// Architecture is the registered family, or empty with the reason in Problem.
	Architecture string `json:"architecture,omitempty"`
	// Plans is what arithmetic says of each declared block with one table.
	Plans []finitepass.Plan `json:"plans"`
	// Problem says why the model could not be compressed, such as an unknown
	// architecture or tensors that do not match it.
	Problem string `json:"problem,omitempty"`
	// Stored lists every tensor.
	Stored []InspectedTensor `json:"stored"`
}

// InspectedFile is a weight file.
type InspectedFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// DTypeCount counts the tensors of one element type.
type DTypeCount struct {
	Tensors int   `json:"tensors"`
	Bytes   int64 `json:"bytes"`
}

// InspectedTensor is a tensor as its header describes it.
type InspectedTensor struct {
	Name  string       `json:"name"`
	DType string       `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
	File  string       `json:"file"`
}

// InspectHub inspects a repository at a revision. Options.Revision, File,
// Architecture, Hub and Observe are used. Only config.json, an index and the
// headers of the weight files are read, by ranges, so that a model of any size
// takes a moment; what the cache holds is read there.
func InspectHub(ctx context.Context, repo string, o Options) (*Inspection, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	ref, err := hub.ParseRepo(repo)
	if err != nil {
		return nil, err
	}
	client, err := hub.New(o.Hub)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdle()
	first, files, err := list(ctx, client, ref, o.Revision)
	if err != nil {
		return nil, err
	}
	weights, err := chooseWeights(files, o.File)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", ref, o.Revision, err)
	}
	fsys := &remoteFS{ctx: ctx, client: client, repo: ref, commit: first.Commit, cached: first.Dir, files: files}
	c, err := loader.OpenFS(fsys, weights, loader.Options{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	src := &snapshot{path: first.Dir, file: weights, repo: ref.ID, revision: o.Revision, commit: string(first.Commit)}
	config, err := fs.ReadFile(fsys, src.configFile())
	return inspect(src, o, c, config, err)
}

// InspectLocal inspects a directory or an archive with config.json and safetensors
// files, or one safetensors file. Options.File and Architecture are used.
func InspectLocal(path string, o Options) (*Inspection, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	if filepath.Ext(path) == ".safetensors" {
		path, o.File = filepath.Split(path)
		path = filepath.Clean(path)
	}
	src, err := localSnapshot(path, o.File)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	c, err := src.files.weights(src.file)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	config, err := src.readConfig()
	return inspect(src, o, c, config, err)
}

// inspect describes a checkpoint. configErr says why there is no configuration.
func inspect(src *snapshot, o Options, c *loader.Checkpoint, config []byte, configErr error) (*Inspection, error) {
	i := &Inspection{
		Repo: src.repo, Revision: src.revision, Commit: src.commit, Path: src.path,
		DTypes: map[string]DTypeCount{}, Plans: []finitepass.Plan{},
	}
	for _, f := range c.Files() {
		i.Files = append(i.Files, InspectedFile{f.Name, f.Size})
	}
	for _, name := range c.Names() {
		info, err := c.Info(name)
		if err != nil {
			return nil, err
		}
		n, err := info.Shape.Elements()
		if err != nil {
			return nil, err
		}
		i.Tensors++
		i.Values += int64(n)
		i.Bytes += info.Bytes()
		d := i.DTypes[info.DTypeName]
		i.DTypes[info.DTypeName] = DTypeCount{d.Tensors + 1, d.Bytes + info.Bytes()}
		i.Stored = append(i.Stored, InspectedTensor{name, info.DTypeName, info.Shape, c.FileOf(name)})
	}
	if err := i.plan(o, c, config, configErr); err != nil {
		i.Problem = err.Error()
	}
	return i, nil
}

// plan finds the architecture and counts what its blocks would save.
func (i *Inspection) plan(o Options, c *loader.Checkpoint, config []byte, configErr error) error {
	archFile, err := o.readArchFile()
	if err != nil {
		return err
	}
	d, err := readDesign(o.Architecture, archFile, config, configErr, "config.json")
	if err != nil {
		return err
	}
	i.Architecture = d.arch
	if err := d.check(c); err != nil {
		return err
	}
	inventory, err := finitepass.PlannedInventory(d.plan.Params(), dtypeIn(c))
	if err != nil {
		return err
	}
	for _, spec := range d.plan.Blocks() {
		i.Plans = append(i.Plans, finitepass.PlanBlock(spec, inventory, 0))
	}
	return nil
}

// RepoOrPath tells a repository id from a path: a path exists, or begins with a
// dot or a separator.
func RepoOrPath(s string) (isRepo bool, err error) {
	if s == "" {
		return false, fmt.Errorf("%w: neither a repository nor a path", ErrOption)
	}
	if s[0] == '.' || filepath.IsAbs(s) || pathExists(s) {
		return false, nil
	}
	if _, err := hub.ParseRepo(s); err != nil {
		return false, fmt.Errorf("%q is neither a path that exists nor a repository: %w", s, err)
	}
	return true, nil
}
