package hub

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CacheTarget names what to delete: a repository; with Commit one of its
// revisions, or without Repo the revision wherever it is; with File one file
// of that revision, or of all of them without Commit.
type CacheTarget struct {
	Repo   Repo
	Commit Commit
	File   string
}

// String gives repository, commit and file as far as they are set.
func (t CacheTarget) String() string {
	s := string(t.Commit)
	if t.Repo.ID != "" {
		s = t.Repo.String()
		if t.Commit != "" {
			s += "@" + string(t.Commit)
		}
	}
	if t.File != "" {
		s += "/" + t.File
	}
	return s
}

// DeleteKind says what an item of a [DeletePlan] is.
type DeleteKind string

// The kinds, in the order in which they are deleted.
const (
	DeleteRepo       DeleteKind = "repo"       // a repository's folder
	DeleteRevision   DeleteKind = "revision"   // a snapshot, its refs and its listing
	DeleteFile       DeleteKind = "file"       // a file's entry in a snapshot
	DeleteBlob       DeleteKind = "blob"       // content that no snapshot uses any more
	DeleteIncomplete DeleteKind = "incomplete" // what a cut off download left
	DeleteShared     DeleteKind = "shared"     // a payload of the shared store
	DeleteTrash      DeleteKind = "trash"      // what a cut off deletion left
)

var deleteOrder = []DeleteKind{DeleteRepo, DeleteRevision, DeleteFile, DeleteBlob, DeleteIncomplete, DeleteShared, DeleteTrash}

// DeleteItem is one step of a deletion.
type DeleteItem struct {
	Kind   DeleteKind
	Repo   Repo     // not for DeleteShared and DeleteTrash
	Commit Commit   // DeleteRevision, DeleteFile
	Refs   []string // DeleteRevision: the names that go with it
	File   string   // DeleteFile: the name in the repository
	Path   string   // what is removed
	Size   int64    // bytes that become free
}

// DeletePlan is what a deletion would do. Making one changes nothing; see
// [DeletePlan.Delete].
type DeletePlan struct {
	Dir   string
	Items []DeleteItem
	// Size is the sum over all items.
	Size int64
	// NotFound are targets that the cache does not hold.
	NotFound []CacheTarget

	// settled: only what has not changed lately may go.
	settled bool
}

// deleteSet collects what shall go.
type deleteSet struct {
	info      *CacheInfo
	repos     map[string]bool // by folder
	revisions map[string]bool // by folder of the snapshot
	files     map[string]bool // by path
}

// PlanDelete plans the deletion of repositories, revisions and files. Content
// goes with the last snapshot that uses it. A repository that loses its last
// revision goes as a whole; one that is damaged can only go as a whole. A
// target that is not in the cache stands in NotFound.
func (info *CacheInfo) PlanDelete(targets ...CacheTarget) *DeletePlan {
	set := &deleteSet{info: info, repos: map[string]bool{}, revisions: map[string]bool{}, files: map[string]bool{}}
	p := &DeletePlan{Dir: info.Dir}
	for _, t := range targets {
		if !set.add(t) {
			p.NotFound = append(p.NotFound, t)
		}
	}
	set.plan(p)
	p.finish()
	return p
}

// PlanPrune plans the deletion of revisions to which no ref leads, of partial
// downloads that nobody works on, of blobs that no snapshot uses, and of
// payloads of the shared store whose manifest proves that nothing refers to
// them. A download holds no lock between two files, so a revision that has
// changed within the last minute will stay as [ErrInUse].
func (info *CacheInfo) PlanPrune() *DeletePlan {
	set := &deleteSet{info: info, repos: map[string]bool{}, revisions: map[string]bool{}, files: map[string]bool{}}
	p := &DeletePlan{Dir: info.Dir, settled: true}
	for _, r := range info.Repos {
		for _, rev := range r.Revisions {
			// What lies behind a link to a folder is not ours to tidy.
			if !r.linked && len(rev.Refs) == 0 && IsCommit(string(rev.Commit)) {
				set.add(CacheTarget{Repo: r.Repo, Commit: rev.Commit})
			}
		}
	}
	set.plan(p)
	shared := map[string]bool{}
	for _, it := range p.Items {
		shared[it.Path] = it.Kind == DeleteShared
	}
	rest := func(kind DeleteKind, files []CacheFile) {
		for _, f := range files {
			if dir := filepath.Dir(filepath.Dir(f.Path)); realDir(dir) && !set.repos[dir] && !shared[f.Path] {
				p.Items = append(p.Items, DeleteItem{Kind: kind, Repo: f.Repo, Path: f.Path, Size: f.Size})
			}
		}
	}
	rest(DeleteIncomplete, info.Incomplete)
	rest(DeleteBlob, info.Unused)
	rest(DeleteShared, info.UnusedShared)
	for _, t := range info.trash {
		p.Items = append(p.Items, DeleteItem{Kind: DeleteTrash, Path: t, Size: treeSize(t)})
	}
	p.finish()
	return p
}

// add takes a target in and reports whether the cache holds it.
func (s *deleteSet) add(t CacheTarget) bool {
	found := false
	for _, r := range s.info.Repos {
		if t.Repo.ID != "" && !t.Repo.same(r.Repo) || t.Repo.ID == "" && (t.Commit == "" || t.File != "") {
			continue
		}
		if t.Commit == "" && t.File == "" {
			s.repos[r.Dir], found = true, true
			continue
		}
		for _, rev := range r.Revisions {
			if t.Commit != "" && t.Commit != rev.Commit {
				continue
			}
			if t.File == "" {
				s.revisions[rev.Dir], found = true, true
				continue
			}
			for _, f := range rev.Files {
				if f.Path == t.File {
					s.files[f.File], found = true, true
				}
			}
		}
	}
	if t.Repo.ID != "" && t.Commit == "" && t.File == "" {
		for _, w := range s.info.Warnings {
			if dir := filepath.Join(s.info.Dir, w.Repo.folder()); w.Repo.ID != "" && t.Repo.same(w.Repo) && realDir(dir) {
				s.repos[dir], found = true, true
			}
		}
	}
	return found
}

// same compares repositories; an empty type is a model.
func (r Repo) same(o Repo) bool { return r.Type.plural() == o.Type.plural() && r.ID == o.ID }

// plan turns the set into items.
func (s *deleteSet) plan(p *DeletePlan) {
	store := openStore(s.info.Dir)
	gone := map[string]bool{} // blobs that go
	for _, r := range s.info.Repos {
		if !s.repos[r.Dir] && len(r.Revisions) > 0 && !slices.ContainsFunc(r.Revisions, func(rev CachedRevision) bool { return !s.revisions[rev.Dir] }) {
			s.repos[r.Dir] = true
		}
		if s.repos[r.Dir] {
			it := DeleteItem{Kind: DeleteRepo, Repo: r.Repo, Path: r.Dir}
			for blob, size := range r.blobs(func(CachedRevision, CachedFile) bool { return true }) {
				gone[blob] = true
				if store.target(blob) == "" {
					it.Size += size
				}
			}
			for _, f := range slices.Concat(s.info.Incomplete, s.info.Unused) {
				if filepath.Dir(filepath.Dir(f.Path)) == r.Dir {
					it.Size += f.Size
				}
			}
			p.Items = append(p.Items, it)
			continue
		}
		s.planParts(p, r, store, gone)
	}
	for dir := range s.repos {
		if !slices.ContainsFunc(s.info.Repos, func(r CachedRepo) bool { return r.Dir == dir }) {
			repo, err := repoOfFolder(filepath.Base(dir))
			if err == nil {
				p.Items = append(p.Items, DeleteItem{Kind: DeleteRepo, Repo: repo, Path: dir, Size: treeSize(dir)})
			}
		}
	}
	planShared(p, store, gone)
}

// planParts plans for a repository of which something stays.
func (s *deleteSet) planParts(p *DeletePlan, r CachedRepo, store *sharedBlobs, gone map[string]bool) {
	goes := func(rev CachedRevision, f CachedFile) bool { return s.revisions[rev.Dir] || s.files[f.File] }
	kept := r.blobs(func(rev CachedRevision, f CachedFile) bool { return !goes(rev, f) })
	for _, rev := range r.Revisions {
		whole := DeleteItem{Kind: DeleteRevision, Repo: r.Repo, Commit: rev.Commit, Refs: rev.Refs, Path: rev.Dir}
		for _, f := range rev.Files {
			if !goes(rev, f) {
				continue
			}
			own := int64(0) // content that lies in the snapshot itself
			if f.File == f.Blob {
				own = f.Size
			}
			if whole.Size += own; !s.revisions[rev.Dir] {
				p.Items = append(p.Items, DeleteItem{Kind: DeleteFile, Repo: r.Repo, Commit: rev.Commit, File: f.Path, Path: f.File, Size: own})
			}
			if _, stays := kept[f.Blob]; f.File == f.Blob || stays || gone[f.Blob] {
				continue
			}
			gone[f.Blob] = true
			it := DeleteItem{Kind: DeleteBlob, Repo: r.Repo, Path: f.Blob, Size: f.Size}
			if store.target(f.Blob) != "" {
				it.Size = 0
			}
			p.Items = append(p.Items, it)
		}
		if s.revisions[rev.Dir] {
			p.Items = append(p.Items, whole)
		}
	}
}

// blobs are the contents of the chosen files, with their sizes.
func (r *CachedRepo) blobs(choose func(CachedRevision, CachedFile) bool) map[string]int64 {
	out := map[string]int64{}
	for _, rev := range r.Revisions {
		for _, f := range rev.Files {
			if choose(rev, f) {
				out[f.Blob] = f.Size
			}
		}
	}
	return out
}

// planShared adds the payloads whose last references go.
func planShared(p *DeletePlan, store *sharedBlobs, gone map[string]bool) {
	if store == nil {
		return
	}
	payloads := map[string]bool{}
	for blob := range gone {
		if payload := store.target(blob); payload != "" {
			payloads[payload] = true
		}
	}
	for payload := range payloads {
		refs, ok := store.references(payload)
		st, err := os.Lstat(extended(payload))
		if ok && err == nil && len(refs) > 0 && !slices.ContainsFunc(refs, func(b string) bool { return !gone[b] }) {
			p.Items = append(p.Items, DeleteItem{Kind: DeleteShared, Path: payload, Size: st.Size()})
		}
	}
}

// finish orders the items and adds their sizes up.
func (p *DeletePlan) finish() {
	slices.SortStableFunc(p.Items, func(a, b DeleteItem) int {
		return cmp.Or(cmp.Compare(slices.Index(deleteOrder, a.Kind), slices.Index(deleteOrder, b.Kind)), strings.Compare(a.Path, b.Path))
	})
	p.Size = 0
	for _, it := range p.Items {
		p.Size += it.Size
	}
}

// treeSize adds up the regular files below a directory, without following
// links.
func treeSize(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(extended(dir), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				n += st.Size()
			}
		}
		return nil
	})
	return n
}
