package compress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/planner"
	"github.com/hfcompress/compress/tensor"
)

// Planned is the plan of a source.
type Planned struct {
	Repo     string `json:"repo,omitempty"`
	Revision string `json:"revision,omitempty"`
	Commit   string `json:"commit,omitempty"`
	Path     string `json:"path"`
	planner.Report
	// Network is what was sent and received, zero where everything was on disk.
	Network NetworkUse `json:"network"`
}

// NetworkUse counts the bytes of all connections, encryption included.
type NetworkUse struct {
	Connections   int64 `json:"connections"`
	BytesSent     int64 `json:"bytes_sent"`
	BytesReceived int64 `json:"bytes_received"`
}

// PlanHub says what the passes would save on a repository at a revision, from
// its configurations and the headers of its weight files alone, read by ranges;
// what the cache holds is read there. Options.Revision, File, ArchFile and Hub
// are used. A File that is a folder plans what lies in it.
func PlanHub(ctx context.Context, repo string, o Options, p planner.Options) (*Planned, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	ref, err := hub.ParseRepo(repo)
	if err != nil {
		return nil, err
	}
	if err := o.designFor(&p); err != nil {
		return nil, err
	}
	meter := &meter{}
	o.Hub.DialContext = meter.dialler(o.Hub)
	client, err := hub.New(o.Hub)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdle()
	// As everywhere, one call names the revision, and the rest is pinned.
	first, err := client.Snapshot(ctx, ref, o.Revision, hub.SnapshotOptions{Allow: []string{"config.json", "*/config.json"}})
	if err != nil {
		return nil, err
	}
	files, err := client.List(ctx, ref, first.Commit)
	if errors.Is(err, hub.ErrOffline) {
		files, err = filesBelow(folder(first.Dir))
	}
	if err != nil {
		return nil, err
	}
	places, err := choosePlaces(files, o.File)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", ref, o.Revision, err)
	}
	var wanted []string
	for _, place := range places {
		wanted = append(wanted, place.files...)
	}
	info, err := client.RemoteSafetensors(ctx, ref, string(first.Commit), hub.SafetensorsOptions{Files: wanted})
	if err != nil {
		return nil, err
	}
	var checkpoints []planner.Checkpoint
	for _, place := range places {
		c, err := place.remote(info, folder(first.Dir))
		if err != nil {
			return nil, err
		}
		checkpoints = append(checkpoints, c)
	}
	report, err := planner.Make(checkpoints, p)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", ref, o.Revision, err)
	}
	return &Planned{
		Repo: ref.ID, Revision: o.Revision, Commit: string(first.Commit), Path: first.Dir, Report: *report,
		Network: NetworkUse{meter.connections.Load(), meter.sent.Load(), meter.received.Load()},
	}, nil
}

// PlanLocal does the same for a directory, an archive or one safetensors file.
// Options.File and ArchFile are used.
func PlanLocal(name string, o Options, p planner.Options) (*Planned, error) {
	if err := o.designFor(&p); err != nil {
		return nil, err
	}
	shown := name
	if filepath.Ext(name) == ".safetensors" {
		name, o.File = filepath.Split(name)
		name = filepath.Clean(name)
	}
	opened, err := openFiles(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	files, err := filesBelow(opened)
	if err != nil {
		return nil, err
	}
	places, err := choosePlaces(files, o.File)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	var checkpoints []planner.Checkpoint
	for _, place := range places {
		c, err := place.local(opened)
		if err != nil {
			return nil, err
		}
		checkpoints = append(checkpoints, c)
	}
	report, err := planner.Make(checkpoints, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	return &Planned{Path: shown, Report: *report}, nil
}

// designFor enters the architecture file of the options.
func (o Options) designFor(p *planner.Options) error {
	text, err := o.readArchFile()
	if err != nil || text == nil {
		return err
	}
	b, err := declared.Parse(text)
	if err != nil {
		return err
	}
	p.Blueprint = b
	return nil
}

// place is a folder of a source with one checkpoint.
type place struct {
	folder string
	// opens is what a loader opens, and files are the safetensors files behind it.
	opens string
	files []string
}

// Limits of a source's tree; larger ones are no model repositories.
const (
	maxPlaces      = 64
	maxPlannedTree = 100_000
	maxTreeDepth   = 4
)

// filesBelow lists the regular files of a source, in its folders too. Links are
// followed for files and not for folders; hidden folders are left out.
func filesBelow(fsys fs.StatFS) ([]hub.File, error) {
	var files []hub.File
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name != "." && (strings.HasPrefix(e.Name(), ".") || strings.Count(name, "/") >= maxTreeDepth) {
				return fs.SkipDir
			}
			return nil
		}
		info, err := fsys.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return nil // a broken link is missed where it is needed
		}
		if len(files) == maxPlannedTree {
			return fmt.Errorf("more than %d files", maxPlannedTree)
		}
		files = append(files, hub.File{Path: name, Size: info.Size()})
		return nil
	})
	return files, err
}

// choosePlaces finds the checkpoints among files: in each folder the one that
// has the usual name, or else the only one. asked names one file, one index or
// one folder. The folders of a diffusers pipeline take the place of whole
// models that lie beside them.
func choosePlaces(files []hub.File, asked string) ([]place, error) {
	asked = strings.TrimSuffix(filepath.ToSlash(asked), "/")
	folders := map[string][]hub.File{}
	pipeline := false
	for _, f := range files {
		dir := path.Dir(f.Path)
		folders[dir] = append(folders[dir], f)
		pipeline = pipeline || f.Path == "model_index.json"
	}
	order, file := slices.Sorted(maps.Keys(folders)), ""
	switch _, isFolder := folders[asked]; {
	case asked == "":
		if pipeline {
			order = slices.DeleteFunc(order, func(dir string) bool { return dir == "." })
		}
	case isFolder:
		order = []string{asked}
	default:
		order, file = []string{path.Dir(asked)}, asked
	}
	var places []place
	for _, dir := range order {
		p, found, err := choosePlace(dir, folders[dir], file)
		if err != nil {
			return nil, err
		}
		if found {
			places = append(places, p)
		}
	}
	switch {
	case len(places) > maxPlaces:
		return nil, fmt.Errorf("%d folders with weights, name one of them", len(places))
	case len(places) > 0:
		return places, nil
	}
	// Nothing was found, and chooseWeights knows how to say why.
	if _, err := chooseWeights(files, file); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("no safetensors file")
}

// usualWeights are the names that the libraries write, in the order in which they
// are looked for.
var usualWeights = []string{"model.safetensors", "diffusion_pytorch_model.safetensors"}

func choosePlace(dir string, files []hub.File, asked string) (place, bool, error) {
	var singles, indexes []string
	for _, f := range files {
		switch {
		case strings.HasSuffix(f.Path, ".safetensors.index.json"):
			indexes = append(indexes, f.Path)
		case strings.HasSuffix(f.Path, ".safetensors"):
			singles = append(singles, f.Path)
		}
	}
	choose := func(name string) (place, bool, error) {
		p := place{folder: dir, opens: name, files: []string{name}}
		if stem, ok := strings.CutSuffix(name, ".safetensors.index.json"); ok {
			p.files = slices.DeleteFunc(slices.Clone(singles), func(s string) bool { return !isShard(s, stem) })
			if len(p.files) == 0 {
				return place{}, false, fmt.Errorf("%s has no shards beside it", name)
			}
			slices.Sort(p.files)
		}
		return p, true, nil
	}
	if asked != "" {
		if slices.Contains(singles, asked) || slices.Contains(indexes, asked) {
			return choose(asked)
		}
		return place{}, false, nil
	}
	for _, usual := range usualWeights {
		for _, name := range []string{path.Join(dir, usual), path.Join(dir, usual+".index.json")} {
			if slices.Contains(singles, name) || slices.Contains(indexes, name) {
				return choose(name)
			}
		}
	}
	candidates := indexes
	if len(candidates) == 0 {
		candidates = singles
	}
	switch len(candidates) {
	case 0:
		return place{}, false, nil
	case 1:
		return choose(candidates[0])
	}
	return place{}, false, fmt.Errorf("several weight files, name one: %s", some(candidates))
}

// isShard reports whether name is stem with numbers, as model-00001-of-00009.
func isShard(name, stem string) bool {
	rest, ok := strings.CutPrefix(name, stem+"-")
	number, of, found := strings.Cut(strings.TrimSuffix(rest, ".safetensors"), "-of-")
	return ok && found && number != "" && of != "" && strings.Trim(number+of, "0123456789") == ""
}

// configOf reads the configuration beside a checkpoint; nil when there is none.
func (p place) configOf(fsys fs.FS) ([]byte, error) {
	name := path.Join(p.folder, "config.json")
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, companionLimit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > companionLimit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, companionLimit)
	}
	return data, nil
}

// name is what a plan calls the checkpoint.
func (p place) name() string {
	if p.folder == "." {
		return ""
	}
	return p.folder
}

func (p place) local(opened files) (planner.Checkpoint, error) {
	config, err := p.configOf(opened)
	if err != nil {
		return planner.Checkpoint{}, err
	}
	c, err := opened.weights(p.opens)
	if err != nil {
		return planner.Checkpoint{}, err
	}
	defer c.Close()
	out, err := planner.FromLoader(c, config)
	out.Name = p.name()
	return out, err
}

// remote builds the checkpoint from headers that the client has read; they are
// checked as those of local files are.
func (p place) remote(info *hub.SafetensorsInfo, cached fs.FS) (planner.Checkpoint, error) {
	config, err := p.configOf(cached)
	if err != nil {
		return planner.Checkpoint{}, err
	}
	out := planner.Checkpoint{Name: p.name(), Config: config}
	for _, f := range info.Files {
		if !slices.Contains(p.files, f.File.Path) {
			continue
		}
		header, err := loader.ParseHeader(f.Header, loader.Limits{OpaqueDTypes: true})
		if err != nil {
			return planner.Checkpoint{}, fmt.Errorf("%s: %w", f.File.Path, err)
		}
		out.Files = append(out.Files, planner.File{Name: f.File.Path, Size: f.File.Size})
		for _, t := range header.Tensors() {
			out.Tensors = append(out.Tensors, planner.Tensor{Name: t.Name, DType: t.DTypeName, Shape: tensor.Shape(t.Shape), Bytes: t.Bytes()})
		}
	}
	return out, nil
}

// meter counts what goes over a client's connections.
type meter struct{ connections, sent, received atomic.Int64 }

// dialler wraps the dialler of options.
func (m *meter) dialler(o hub.Options) func(context.Context, string, string) (net.Conn, error) {
	dial := o.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: cmp.Or(o.ConnectTimeout, 10*time.Second), KeepAlive: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		m.connections.Add(1)
		return &meteredConn{c, m}, nil
	}
}

type meteredConn struct {
	net.Conn
	m *meter
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.m.received.Add(int64(n))
	return n, err
}

func (c *meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.m.sent.Add(int64(n))
	return n, err
}
