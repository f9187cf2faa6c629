package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// CacheInfo is what a cache holds, as [ScanCache] found it. Sizes are bytes,
// paths absolute. It is not changed after the scan and may be shared.
type CacheInfo struct {
	Dir string
	// Repos are sorted by type and id. A repository that is damaged stands
	// in Warnings instead.
	Repos []CachedRepo
	// SizeOnDisk counts every blob that a snapshot uses once, and the shared
	// store. Incomplete and Unused come on top.
	SizeOnDisk int64
	// Incomplete are the files of downloads that run or were cut off.
	Incomplete []CacheFile
	// Unused are blobs that no snapshot refers to.
	Unused []CacheFile
	// UnusedShared are payloads of the shared store whose manifest names no
	// reference that still exists.
	UnusedShared []CacheFile
	// Warnings say why entries were left out, in the order of their paths.
	Warnings []CacheWarning

	// trash are remains of deletions that were cut off.
	trash []string
}

// CachedRepo is one repository of a cache.
type CachedRepo struct {
	Repo Repo
	Dir  string
	// Revisions are sorted by commit.
	Revisions []CachedRevision
	// SizeOnDisk counts every blob of the repository once; Files is how many
	// there are.
	SizeOnDisk int64
	Files      int
	// LastAccessed and LastModified are the latest of all blobs.
	LastAccessed, LastModified time.Time

	// linked: the repository's folder is a symbolic link.
	linked bool
}

// Refs are the revisions by name that the repository knows, sorted.
func (r *CachedRepo) Refs() []string {
	var out []string
	for _, rev := range r.Revisions {
		out = append(out, rev.Refs...)
	}
	slices.Sort(out)
	return out
}

// CachedRevision is one commit of a repository in a cache. Without Refs it is
// detached: nothing leads to it but its hash.
type CachedRevision struct {
	Commit Commit
	Dir    string
	Refs   []string // sorted
	Files  []CachedFile
	// SizeOnDisk counts every blob of the revision once, whether others use
	// it or not.
	SizeOnDisk   int64
	LastModified time.Time
}

// CachedFile is one file of a revision.
type CachedFile struct {
	// Path is the name in the repository, File where it lies.
	Path, File string
	// Blob holds the content: a file in blobs/, or File itself where the
	// cache works without symbolic links.
	Blob                       string
	Size                       int64
	LastAccessed, LastModified time.Time
}

// CacheFile is a file of the cache outside its snapshots.
type CacheFile struct {
	Repo Repo // empty in the shared store
	Path string
	Size int64 // bytes that it occupies
}

// CacheWarning says what is wrong with an entry of the cache. Repo is set if
// the entry is a repository's folder.
type CacheWarning struct {
	Repo   Repo
	Path   string
	Reason string
}

func (w CacheWarning) String() string { return w.Path + ": " + w.Reason }

// helperFiles are what operating systems strew over directories.
func helperFile(name string) bool {
	return name == ".DS_Store" || name == "Thumbs.db" || name == "desktop.ini"
}

// damage is the reason why a repository of a cache cannot be described.
type damage struct{ path, reason string }

func (d damage) Error() string { return d.path + ": " + d.reason }

// ScanCache describes a cache without changing it, by the rules of Python's
// scan_cache_dir: a repository with a broken link, a reference to a commit
// that is not there or a stray file is left out with a warning, and the scan
// goes on. So is, unlike there, one whose snapshots link to anything but its
// own blobs: what they lead to is not the cache's. Other processes may use
// the cache meanwhile. A cache that does not exist is an [ErrCache].
func ScanCache(dir string) (*CacheInfo, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		if abs, err = filepath.EvalSymlinks(abs); err != nil && !strings.Contains(err.Error(), dir) {
			err = fmt.Errorf("%s: %w", dir, err) // a loop of links is reported without its name
		}
	}
	if err != nil {
		return nil, &Error{Kind: ErrCache, Op: "scan", Err: err}
	}
	entries, err := os.ReadDir(extended(abs))
	if err != nil {
		return nil, &Error{Kind: ErrCache, Op: "scan", Err: err}
	}
	info := &CacheInfo{Dir: abs}
	store := openStore(abs)
	for _, e := range entries {
		path := filepath.Join(abs, e.Name())
		switch name := e.Name(); {
		case helperFile(name), name == "CACHEDIR.TAG", name == ".locks", strings.HasPrefix(name, ".symlink-probe-"):
			continue
		case name == "blobs" && store != nil:
			continue
		}
		repo, err := repoOfFolder(e.Name())
		if err != nil {
			info.Warnings = append(info.Warnings, CacheWarning{Path: path, Reason: err.Error()})
			continue
		}
		if err := info.addRepo(path, repo); err != nil {
			w := CacheWarning{Repo: repo, Path: path, Reason: err.Error()}
			var d damage
			if errors.As(err, &d) {
				w.Path, w.Reason = d.path, d.reason
			}
			info.Warnings = append(info.Warnings, w)
		}
	}
	slices.SortFunc(info.Repos, func(a, b CachedRepo) int { return strings.Compare(a.Dir, b.Dir) })
	info.count(store)
	info.trash = leftovers(abs)
	return info, nil
}

// repoOfFolder reads the name of a repository's folder.
func repoOfFolder(name string) (Repo, error) {
	kind, id, ok := strings.Cut(name, "--")
	if !ok {
		return Repo{}, errors.New("not a folder of the Hub's cache")
	}
	for _, t := range []RepoType{Model, Dataset, Space, Kernel} {
		if kind == t.plural() {
			r := Repo{Type: t, ID: strings.ReplaceAll(id, "--", "/")}
			return r, r.Validate()
		}
	}
	return Repo{}, fmt.Errorf("unknown repository type %q", clip(kind, 32))
}

// addRepo describes one folder. Its partials and unused blobs are kept even
// if the rest is damaged: they can be pruned all the same.
func (info *CacheInfo) addRepo(dir string, r Repo) error {
	st, err := os.Stat(extended(dir))
	if err != nil || !st.IsDir() {
		return damage{dir, "not a directory"}
	}
	link, err := os.Lstat(extended(dir))
	if err != nil {
		return err
	}
	repo := CachedRepo{Repo: r, Dir: dir, linked: link.Mode()&fs.ModeSymlink != 0}
	blobs, scanErr := repo.scan()
	rest, err := os.ReadDir(extended(filepath.Join(dir, "blobs")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(scanErr, err)
	}
	for _, e := range rest {
		f := CacheFile{Repo: r, Path: filepath.Join(dir, "blobs", e.Name())}
		st, err := e.Info()
		if err != nil || e.IsDir() {
			continue
		}
		f.Size = allocated(st)
		switch {
		case strings.HasSuffix(e.Name(), suffixPartial):
			info.Incomplete = append(info.Incomplete, f)
		case scanErr == nil && !blobs[f.Path] && validEtag(e.Name()):
			info.Unused = append(info.Unused, f)
		}
	}
	if scanErr != nil {
		return scanErr
	}
	repo.LastAccessed, repo.LastModified = accessed(dir, st), st.ModTime()
	if len(blobs) > 0 {
		repo.LastAccessed, repo.LastModified = time.Time{}, time.Time{}
	}
	seen := map[string]bool{}
	for _, rev := range repo.Revisions {
		for _, f := range rev.Files {
			repo.LastAccessed, repo.LastModified = later(repo.LastAccessed, f.LastAccessed), later(repo.LastModified, f.LastModified)
			if !seen[f.Blob] {
				seen[f.Blob] = true
				repo.SizeOnDisk += f.Size
				repo.Files++
			}
		}
	}
	info.Repos = append(info.Repos, repo)
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// realDir reports whether a path is a directory and no link to one.
func realDir(path string) bool {
	st, err := os.Lstat(extended(path))
	return err == nil && st.IsDir()
}

// scan reads refs and snapshots and returns the blobs in use.
func (r *CachedRepo) scan() (map[string]bool, error) {
	snapshots := filepath.Join(r.Dir, "snapshots")
	if !realDir(snapshots) {
		return nil, damage{snapshots, "no such directory"}
	}
	refs, err := scanRefs(filepath.Join(r.Dir, "refs"))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(extended(snapshots))
	if err != nil {
		return nil, err
	}
	blobs := map[string]bool{}
	for _, e := range entries {
		path := filepath.Join(snapshots, e.Name())
		if helperFile(e.Name()) {
			continue
		}
		if !realDir(path) {
			return nil, damage{path, "not a directory, where only those of commits may be"}
		}
		rev := CachedRevision{Commit: Commit(e.Name()), Dir: path, Refs: refs[e.Name()]}
		delete(refs, e.Name())
		if err := rev.scan(filepath.Join(r.Dir, "blobs")); err != nil {
			return nil, err
		}
		for _, f := range rev.Files {
			blobs[f.Blob] = true
		}
		r.Revisions = append(r.Revisions, rev)
	}
	for commit, names := range refs {
		return nil, damage{filepath.Join(r.Dir, "refs", filepath.FromSlash(names[0])), fmt.Sprintf("refers to commit %q, which has no snapshot", clip(commit, 40))}
	}
	return blobs, nil
}

// scanRefs maps commits to the names that stand for them.
func scanRefs(dir string) (map[string][]string, error) {
	refs := map[string][]string{}
	if st, err := os.Lstat(extended(dir)); errors.Is(err, fs.ErrNotExist) {
		return refs, nil
	} else if err != nil || !st.IsDir() {
		return nil, damage{dir, "not a directory"}
	}
	err := filepath.WalkDir(extended(dir), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || helperFile(d.Name()) {
			return err
		}
		if !d.Type().IsRegular() {
			return damage{p, "not a regular file"}
		}
		b, err := readSmall(p, maxSmallFile)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(extended(dir), p)
		if err != nil {
			return err
		}
		commit := strings.TrimSpace(string(b))
		refs[commit] = append(refs[commit], filepath.ToSlash(rel))
		return nil
	})
	for _, names := range refs {
		slices.Sort(names)
	}
	return refs, err
}

// scan lists the files of a revision. blobs is where its links may lead.
func (r *CachedRevision) scan(blobs string) error {
	st, err := os.Stat(extended(r.Dir))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	err = filepath.WalkDir(extended(r.Dir), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(extended(r.Dir), p)
		if err != nil {
			return err
		}
		f := CachedFile{Path: filepath.ToSlash(rel), File: filepath.Join(r.Dir, rel)}
		blob, inside, err := firstHop(f.File, d, blobs)
		if err != nil {
			return err
		}
		if !inside {
			return damage{f.File, "a link that leads out of the repository's blobs"}
		}
		f.Blob = blob
		bst, err := os.Stat(extended(blob))
		switch {
		case err != nil:
			return damage{f.File, "its blob is missing: " + blob}
		case !bst.Mode().IsRegular():
			return damage{blob, "not a regular file"}
		}
		f.Size, f.LastAccessed, f.LastModified = bst.Size(), accessed(blob, bst), bst.ModTime()
		r.LastModified = later(r.LastModified, f.LastModified)
		if !seen[blob] {
			seen[blob] = true
			r.SizeOnDisk += f.Size
		}
		r.Files = append(r.Files, f)
		return nil
	})
	if len(r.Files) == 0 {
		r.LastModified = st.ModTime()
	}
	slices.SortFunc(r.Files, func(a, b CachedFile) int { return strings.Compare(a.Path, b.Path) })
	return err
}

// firstHop is where an entry of a snapshot has its content: itself, or the
// blob that it links to. A blob may be a link again, into the shared store;
// deletion must remove the blob and not what others share. inside is false
// for a link to anything but a direct child of blobs.
func firstHop(path string, d fs.DirEntry, blobs string) (blob string, inside bool, err error) {
	if d.Type()&fs.ModeSymlink == 0 {
		return path, true, nil
	}
	to, err := os.Readlink(extended(path))
	if err != nil {
		return "", false, err
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	if filepath.Dir(to) == filepath.Clean(blobs) {
		return filepath.Clean(to), true, nil
	}
	// An absolute link may spell the cache's own directory in another way.
	a, aerr := filepath.EvalSymlinks(filepath.Dir(to))
	b, berr := filepath.EvalSymlinks(blobs)
	return filepath.Join(blobs, filepath.Base(to)), aerr == nil && berr == nil && a == b, nil
}

// count adds up what the cache occupies and judges the shared store.
func (info *CacheInfo) count(store *sharedBlobs) {
	seen := map[string]bool{}
	for _, r := range info.Repos {
		for _, rev := range r.Revisions {
			for _, f := range rev.Files {
				if store.target(f.Blob) == "" && !seen[f.Blob] {
					seen[f.Blob] = true
					info.SizeOnDisk += f.Size
				}
			}
		}
	}
	for _, p := range store.payloads() {
		info.SizeOnDisk += p.Size
		if refs, ok := store.references(p.Path); ok && len(refs) == 0 {
			info.UnusedShared = append(info.UnusedShared, p)
		}
	}
}
