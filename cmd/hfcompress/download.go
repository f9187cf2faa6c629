package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/hub"
)

// downloadFlags are the flags of download.
type downloadFlags struct {
	repoType, revision string
	include, exclude   []string
	localDir           string
	dryRun             bool
	workers            int
	hub                hubFlags
	json, quiet        bool
}

func (a *app) downloadCommand() *cobra.Command {
	f := &downloadFlags{}
	cmd := &cobra.Command{
		Use:   "download REPO|hf://[datasets/|spaces/]NS/NAME[@REV][/PATH] [FILE|DIR/]…",
		Short: "Download a repository or some of its files, verified and resumable",
		Long: `download brings files of a repository into the Hub's cache, or into a plain
directory with --local-dir, and prints where they lie: the file, if exactly one
is named, else the folder of the snapshot. Every file is checked against its
digest before it gets its name; a download that was cut off goes on where it
stopped. A name that ends in / stands for everything below it.`,
		Example: `  hfcompress download org/model
  hfcompress download org/model config.json
  hfcompress download hf://datasets/org/words@v1 --include '*.parquet'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%q takes a repository", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := f.target(args, cmd.Flags())
			if err != nil {
				return err
			}
			return a.download(cmd.Context(), f, d)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.repoType, "repo-type", "", "model, dataset, space or kernel (also --type; default: model)")
	fs.SetNormalizeFunc(typeAlias)
	fs.StringVar(&f.revision, "revision", "main", "branch, tag, refs/pr/N or commit")
	fs.StringArrayVar(&f.include, "include", nil, "take only files that match this pattern; may be repeated")
	fs.StringArrayVar(&f.exclude, "exclude", nil, "leave out files that match this pattern; may be repeated")
	fs.StringVar(&f.localDir, "local-dir", "", "directory for the plain files, in place of the cache")
	fs.BoolVar(&f.dryRun, "dry-run", false, "say what would be downloaded")
	fs.BoolVar(&f.hub.force, "force-download", false, "download anew what is there already")
	fs.BoolVar(&f.hub.share, "share-blobs", false, "put Xet files where repositories of the cache share them, leaving links")
	fs.IntVar(&f.workers, "max-workers", 8, "files downloaded at once")
	addHubFlags(cmd, &f.hub)
	addOutputFlags(cmd, &f.json, &f.quiet)
	return cmd
}

// typeAlias lets --type stand for --repo-type.
func typeAlias(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "type" {
		name = "repo-type"
	}
	return pflag.NormalizedName(name)
}

// wanted is what download shall fetch.
type wanted struct {
	repo     hub.Repo
	revision string
	// file is set where exactly one plain file is named.
	file    string
	names   []string // plain files that must be there
	dirs    []string // directories in which there must be some, with a slash
	choose  hub.SnapshotOptions
	ignored bool // patterns that names make pointless
}

// target reads the arguments.
func (f *downloadFlags) target(args []string, set *pflag.FlagSet) (wanted, error) {
	w := wanted{revision: f.revision}
	names := args[1:]
	var err error
	if err = repoTypeFlag(f.repoType); err != nil {
		return w, err
	}
	if strings.HasPrefix(args[0], uriScheme) {
		for _, name := range []string{"repo-type", "revision"} {
			if set.Changed(name) {
				return w, usagef("%s says all that --%s could", uriScheme, name)
			}
		}
		u, err := parseURI(args[0])
		if err != nil {
			return w, err
		}
		if u.path != "" && len(names) > 0 {
			return w, usagef("%q names a path, and %q comes on top", args[0], names[0])
		}
		if u.path != "" {
			names = []string{u.path}
		}
		if w.repo = u.repo; u.revision != "" {
			w.revision = u.revision
		}
	} else if w.repo, err = parseRepoArg(args[0], f.repoType); err != nil {
		return w, err
	}
	switch {
	case f.localDir != "" && f.hub.cacheDir != "":
		return w, usagef("--local-dir and --cache-dir exclude each other")
	case f.localDir != "" && f.hub.share:
		return w, usagef("--local-dir and --share-blobs exclude each other")
	case f.hub.force && f.hub.offline:
		return w, usagef("--force-download and --offline exclude each other")
	case f.workers < 1:
		return w, usagef("--max-workers must be at least 1")
	}
	return w, f.choose(&w, names)
}

// choose turns names and patterns into a selection.
func (f *downloadFlags) choose(w *wanted, names []string) error {
	w.choose.Workers = f.workers
	var dirs []string
	for _, name := range names {
		dir, isDir := strings.CutSuffix(name, "/")
		if err := hub.CheckPath(dir); err != nil {
			return usageError{err}
		}
		if isDir {
			dirs = append(dirs, literal(dir)+"/*")
			w.dirs = append(w.dirs, name)
		} else if !slices.Contains(w.names, name) {
			w.names = append(w.names, name)
		}
	}
	patterns := len(f.include)+len(f.exclude) > 0
	switch {
	case len(dirs) > 0 && patterns:
		return usagef("a directory cannot be combined with --include or --exclude; use --include '%s'", dirs[0])
	case len(dirs) > 0:
		w.choose.Allow = dirs
		for _, name := range w.names {
			w.choose.Allow = append(w.choose.Allow, literal(name))
		}
	case len(w.names) > 0:
		w.choose.Files, w.ignored = w.names, patterns
		if len(w.names) == 1 {
			w.file = w.names[0]
		}
	default:
		w.choose.Allow, w.choose.Ignore = f.include, f.exclude
	}
	return nil
}

// literal is a pattern that matches a name and nothing else.
func literal(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if strings.IndexByte("*?[", c) >= 0 {
			b.WriteString("[" + string(c) + "]")
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// downloaded is the JSON object of download.
type downloaded struct {
	Repo     string           `json:"repo"`
	RepoType hub.RepoType     `json:"repo_type"`
	Revision string           `json:"revision"`
	Commit   hub.Commit       `json:"commit,omitempty"`
	Path     string           `json:"path"`
	DryRun   bool             `json:"dry_run"`
	Files    []downloadedFile `json:"files"`
	Bytes    int64            `json:"bytes"`
	// Unverified: offline, and nobody can say whether files are missing.
	Unverified bool `json:"unverified,omitempty"`
	// Fetch and FetchBytes are what a dry run would download.
	Fetch      *int   `json:"fetch,omitempty"`
	FetchBytes *int64 `json:"fetch_bytes,omitempty"`
}

type downloadedFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
	Cached *bool  `json:"cached,omitempty"` // only of a dry run
}

func (a *app) download(ctx context.Context, f *downloadFlags, w wanted) error {
	if w.ignored {
		a.warn("--include and --exclude are ignored, since files are named")
	}
	if f.dryRun {
		return a.planDownload(ctx, f, w)
	}
	show := a.progress(f.quiet)
	c, err := a.hubClient(f.hub, show, compress.StageDownload)
	if err != nil {
		show.stop()
		return err
	}
	defer c.CloseIdle()
	result, err := fetch(ctx, c, f.localDir, w)
	show.stop()
	if err != nil {
		return err
	}
	if len(result.Files) == 0 && !result.Unverified {
		a.warn(nothingMatches)
	}
	if f.json {
		return a.printJSON(result)
	}
	if result.Unverified {
		a.warn("offline, and no listing is cached: files may be missing")
	}
	fmt.Fprintln(a.stdout, result.Path)
	return nil
}

const nothingMatches = "no file of the repository was chosen"

// fetch downloads one file or a snapshot.
func fetch(ctx context.Context, c *hub.Client, localDir string, w wanted) (*downloaded, error) {
	d := &downloaded{Repo: w.repo.ID, RepoType: w.repo.Type, Revision: w.revision, Files: []downloadedFile{}}
	var err error
	if w.file != "" {
		if localDir != "" {
			d.Path, err = c.DownloadTo(ctx, w.repo, w.revision, w.file, localDir)
		} else if d.Path, err = c.Download(ctx, w.repo, w.revision, w.file); err == nil {
			d.Commit = commitOf(d.Path, w.file)
		}
		if err != nil {
			return nil, err
		}
		st, err := os.Stat(d.Path)
		if err != nil {
			return nil, err
		}
		d.Files, d.Bytes = append(d.Files, downloadedFile{Name: w.file, Size: st.Size()}), st.Size()
		return d, nil
	}
	var snap hub.Snapshot
	if localDir != "" {
		snap, err = c.SnapshotTo(ctx, w.repo, w.revision, localDir, w.choose)
	} else {
		snap, err = c.Snapshot(ctx, w.repo, w.revision, w.choose)
	}
	if err != nil {
		return nil, err
	}
	d.Path, d.Commit, d.Unverified = snap.Dir, snap.Commit, snap.Unverified
	for _, file := range snap.Files {
		d.Files = append(d.Files, downloadedFile{Name: file.Path, Size: file.Size, SHA256: file.SHA256})
		d.Bytes += file.Size
	}
	return d, w.complete(snap.Files)
}

// complete demands the files and directories that were named.
func (w wanted) complete(files []hub.File) error {
	for _, name := range w.names {
		if !slices.ContainsFunc(files, func(f hub.File) bool { return f.Path == name }) {
			return &hub.Error{Kind: hub.ErrEntryNotFound, Op: "download", Repo: w.repo, Revision: w.revision, File: name}
		}
	}
	for _, dir := range w.dirs {
		if !slices.ContainsFunc(files, func(f hub.File) bool { return strings.HasPrefix(f.Path, dir) }) {
			return &hub.Error{Kind: hub.ErrEntryNotFound, Op: "download", Repo: w.repo, Revision: w.revision, File: dir}
		}
	}
	return nil
}

// commitOf reads the commit from a path …/snapshots/COMMIT/file.
func commitOf(path, file string) hub.Commit {
	dir := strings.TrimSuffix(filepath.ToSlash(path), "/"+file)
	if cm := dir[strings.LastIndexByte(dir, '/')+1:]; hub.IsCommit(cm) {
		return hub.Commit(cm)
	}
	return ""
}

// planDownload is --dry-run.
func (a *app) planDownload(ctx context.Context, f *downloadFlags, w wanted) error {
	c, err := a.hubClient(f.hub, nil, "")
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	var p *hub.Plan
	dir := f.localDir
	if dir != "" {
		p, err = c.PlanTo(ctx, w.repo, w.revision, dir, w.choose)
	} else {
		dir = c.CacheDir()
		p, err = c.Plan(ctx, w.repo, w.revision, w.choose)
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	n := 0
	d := &downloaded{Repo: w.repo.ID, RepoType: w.repo.Type, Revision: w.revision, Commit: p.Commit, Path: dir,
		DryRun: true, Files: []downloadedFile{}, Bytes: p.Total, Fetch: &n, FetchBytes: &p.Missing}
	listed := make([]hub.File, len(p.Files))
	for i, file := range p.Files {
		listed[i] = file.File
		d.Files = append(d.Files, downloadedFile{Name: file.Path, Size: file.Size, SHA256: file.SHA256, Cached: &file.Cached})
		if !file.Cached {
			n++
		}
	}
	if err := w.complete(listed); err != nil {
		return err
	}
	if len(p.Files) == 0 {
		a.warn(nothingMatches)
	}
	if f.json {
		return a.printJSON(d)
	}
	tw := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, file := range p.Files {
		state := "to download"
		if file.Cached {
			state = "cached"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", file.Path, compress.BytesText(file.Size), state)
	}
	fmt.Fprintf(tw, "would download %d of %d files, %s, to %s\n", n, len(p.Files), compress.BytesText(p.Missing), dir)
	return tw.Flush()
}
