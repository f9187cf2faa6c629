package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"sort"
	"strings"
)

// DefaultLFSSuffixes are the endings that the Hub's own .gitattributes tracks
// with LFS and that models use.
var DefaultLFSSuffixes = []string{".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".h5", ".msgpack", ".parquet", ".zip", ".npz"}

// Repo is one repository in memory.
type Repo struct {
	// Type is model (or empty), dataset, space or kernel.
	Type string
	// ID is "name" or "namespace/name".
	ID string
	// Private hides the repository from callers without a good token.
	Private bool
	// Gated lets callers see the listing but not the files; with Deny not
	// even with a good token.
	Gated, Deny bool
	// Disabled refuses everything.
	Disabled bool
	// Revisions maps branch names (or full commit hashes) to files.
	Revisions map[string]Files
	// Tags and PRs map names ("v1", "1") to a revision of Revisions.
	Tags map[string]string
	PRs  map[string]string
	// History is how many older commits the log of each revision has. Their
	// files are not kept.
	History int
}

// Files maps slash-separated paths to contents.
type Files map[string][]byte

type repo struct {
	Repo
	plural   string
	branches map[string]string // name → commit
	commits  map[string]*commit
}

type commit struct {
	hash   string
	files  []*file // sorted by path
	byPath map[string]*file
}

type file struct {
	path    string
	fsys    fs.FS
	name    string // in fsys
	size    int64
	gitOID  string // blob id: of the pointer, for LFS files
	sha256  string // LFS only
	pointer string
	xet     string // Xet hash, if the store has it
}

func (s *Server) addFS(fsys fs.FS) error {
	tops, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return err
	}
	for _, top := range tops {
		if !top.IsDir() || strings.HasPrefix(top.Name(), ".") {
			continue
		}
		dir, typ := ".", "model"
		if t, ok := strings.CutSuffix(top.Name(), "s"); ok && slices.Contains(repoTypes, t) {
			dir, typ = top.Name(), t
			orgs, err := fs.ReadDir(fsys, dir)
			if err != nil {
				return err
			}
			for _, org := range orgs {
				if org.IsDir() {
					if err := s.addOrg(fsys, path.Join(dir, org.Name()), org.Name(), typ); err != nil {
						return err
					}
				}
			}
			continue
		}
		if err := s.addOrg(fsys, top.Name(), top.Name(), typ); err != nil {
			return err
		}
	}
	return nil
}

var repoTypes = []string{"model", "dataset", "space", "kernel"}

func (s *Server) addOrg(fsys fs.FS, dir, org, typ string) error {
	names, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if !n.IsDir() {
			continue
		}
		r := s.newRepo(Repo{Type: typ, ID: org + "/" + n.Name()})
		revs, err := fs.ReadDir(fsys, path.Join(dir, n.Name()))
		if err != nil {
			return err
		}
		for _, rev := range revs {
			if !rev.IsDir() {
				continue
			}
			name, err := url.PathUnescape(rev.Name())
			if err != nil {
				return err
			}
			sub, err := fs.Sub(fsys, path.Join(dir, n.Name(), rev.Name()))
			if err != nil {
				return err
			}
			if err := s.addRevision(r, name, sub); err != nil {
				return fmt.Errorf("%s@%s: %w", r.ID, name, err)
			}
		}
	}
	return nil
}

func (s *Server) newRepo(r Repo) *repo {
	if r.Type == "" {
		r.Type = "model"
	}
	n := &repo{Repo: r, plural: r.Type + "s", branches: map[string]string{}, commits: map[string]*commit{}}
	s.repos[n.plural+"/"+r.ID] = n
	return n
}

func (s *Server) addRepo(def Repo) error {
	r := s.newRepo(def)
	for name, files := range def.Revisions {
		if err := s.addRevision(r, name, rawFS(files)); err != nil {
			return fmt.Errorf("%s@%s: %w", def.ID, name, err)
		}
	}
	for _, refs := range []map[string]string{def.Tags, def.PRs} {
		for name, target := range refs {
			if r.find(target) == nil {
				return fmt.Errorf("%s: %s points to the unknown revision %s", def.ID, name, target)
			}
		}
	}
	return nil
}

// rawFS holds files in memory under any name: fs.FS allows no "../x", which a
// hostile Hub lists.
type rawFS Files

// Open makes rawFS a file system; contents are read directly.
func (f rawFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

func (s *Server) addRevision(r *repo, name string, fsys fs.FS) error {
	c := &commit{byPath: map[string]*file{}}
	add := func(p string, size int64, open func() (io.ReadCloser, error)) error {
		f := &file{path: p, fsys: fsys, name: p, size: size}
		if err := s.hash(f, open); err != nil {
			return err
		}
		c.files = append(c.files, f)
		c.byPath[p] = f
		if f.sha256 != "" {
			s.byOID[f.sha256] = f
		}
		return nil
	}
	var err error
	if raw, ok := fsys.(rawFS); ok {
		for p, data := range raw {
			if err = add(p, int64(len(data)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }); err != nil {
				break
			}
		}
	} else {
		err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			st, err := fs.Stat(fsys, p)
			if err != nil {
				return err
			}
			return add(p, st.Size(), func() (io.ReadCloser, error) { return fsys.Open(p) })
		})
	}
	if err != nil {
		return err
	}
	sort.Slice(c.files, func(i, j int) bool { return c.files[i].path < c.files[j].path })
	// The commit hash follows from the content alone, so that runs compare.
	h := sha1.New()
	fmt.Fprintf(h, "%s/%s\x00", r.plural, r.ID)
	for _, f := range c.files {
		fmt.Fprintf(h, "%s\x00%s\x00%d\x00", f.path, f.gitOID, f.size)
	}
	c.hash = hex.EncodeToString(h.Sum(nil))
	if isHex(name, 40) {
		c.hash = name
	} else {
		r.branches[name] = c.hash
	}
	r.commits[c.hash] = c
	return nil
}

// SetBranch adds or moves a branch of an in-memory repository, as a push does.
// It returns the new commit.
func (s *Server) SetBranch(typ, id, branch string, files Files) (string, error) {
	if typ == "" {
		typ = "model"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repos[typ+"s/"+id]
	if r == nil {
		return "", fmt.Errorf("no repository %s", id)
	}
	if err := s.addRevision(r, branch, rawFS(files)); err != nil {
		return "", err
	}
	return r.find(branch).hash, nil
}

// Commit is the hash that a branch, tag or "refs/pr/N" of a repository stands
// for, or "".
func (s *Server) Commit(typ, id, revision string) string {
	if typ == "" {
		typ = "model"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.repos[typ+"s/"+id]; r != nil {
		if c := r.find(revision); c != nil {
			return c.hash
		}
	}
	return ""
}

// Entry is one served file.
type Entry struct {
	Path   string
	Size   int64
	GitOID string
	// SHA256 is set for LFS files.
	SHA256 string
	// XetHash is set for LFS files that are offered over Xet.
	XetHash string
}

// Entries lists the files of a revision, sorted by path; nil if there is no
// such revision.
func (s *Server) Entries(typ, id, revision string) []Entry {
	if typ == "" {
		typ = "model"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repos[typ+"s/"+id]
	if r == nil {
		return nil
	}
	c := r.find(revision)
	if c == nil {
		return nil
	}
	out := make([]Entry, 0, len(c.files))
	for _, f := range c.files {
		out = append(out, Entry{f.path, f.size, f.gitOID, f.sha256, f.xet})
	}
	return out
}

func (r *repo) find(revision string) *commit {
	if c := r.commits[revision]; c != nil {
		return c
	}
	if h, ok := r.branches[revision]; ok {
		return r.commits[h]
	}
	if b, ok := strings.CutPrefix(revision, "refs/heads/"); ok {
		return r.commits[r.branches[b]]
	}
	if t, ok := r.Tags[strings.TrimPrefix(revision, "refs/tags/")]; ok {
		return r.find(t)
	}
	if n, ok := strings.CutPrefix(revision, "refs/pr/"); ok {
		if t, ok := r.PRs[n]; ok {
			return r.find(t)
		}
	}
	return nil
}

// hash fills in the object ids by reading the content once.
func (s *Server) hash(f *file, open func() (io.ReadCloser, error)) error {
	lfs := f.size >= s.opts.LFSThreshold || slices.ContainsFunc(s.opts.LFSSuffixes, func(suffix string) bool { return strings.HasSuffix(f.path, suffix) })
	rc, err := open()
	if err != nil {
		return err
	}
	defer rc.Close()
	if !lfs {
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", f.size)
		n, err := io.Copy(h, rc)
		if err != nil || n != f.size {
			return errors.Join(err, fmt.Errorf("%s: read %d of %d bytes", f.path, n, f.size))
		}
		f.gitOID = hex.EncodeToString(h.Sum(nil))
		return nil
	}
	h := sha256.New()
	n, err := io.Copy(h, rc)
	if err != nil || n != f.size {
		return errors.Join(err, fmt.Errorf("%s: read %d of %d bytes", f.path, n, f.size))
	}
	f.sha256 = hex.EncodeToString(h.Sum(nil))
	f.pointer = fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", f.sha256, f.size)
	f.gitOID = fmt.Sprintf("%x", sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(f.pointer), f.pointer))))
	return s.store(f, open)
}

// open gives the content with random access.
func (f *file) open() (io.ReadSeeker, func(), error) {
	if raw, ok := f.fsys.(rawFS); ok {
		return bytes.NewReader(raw[f.name]), func() {}, nil
	}
	g, err := f.fsys.Open(f.name)
	if err != nil {
		return nil, nil, err
	}
	if rs, ok := g.(io.ReadSeeker); ok {
		return rs, func() { _ = g.Close() }, nil
	}
	defer g.Close()
	b, err := io.ReadAll(g)
	return bytes.NewReader(b), func() {}, err
}

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
