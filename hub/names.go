package hub

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// RepoType says which of the Hub's name spaces a repository lives in. The
// empty value means [Model].
type RepoType string

// The repository types that the Hub serves with git-like revisions.
const (
	Model   RepoType = "model"
	Dataset RepoType = "dataset"
	Space   RepoType = "space"
	Kernel  RepoType = "kernel"
)

// plural is the form used in API paths and cache folder names.
func (t RepoType) plural() string {
	if t == "" {
		t = Model
	}
	return string(t) + "s"
}

// urlPrefix is what stands before the repository id in a resolve URL.
func (t RepoType) urlPrefix() string {
	if t == "" || t == Model {
		return ""
	}
	return t.plural() + "/"
}

// DefaultRevision is the branch used when a revision is empty.
const DefaultRevision = "main"

// Repo names one repository on the Hub. ID is "name" or "namespace/name".
type Repo struct {
	Type RepoType
	ID   string
}

// ModelRepo names a model repository.
func ModelRepo(id string) Repo { return Repo{Type: Model, ID: id} }

// ParseRepo reads "ns/name" (a model), or the same with a type prefix:
// "models/…", "datasets/…", "spaces/…" or "kernels/…". The result is valid.
func ParseRepo(s string) (Repo, error) {
	r := Repo{Type: Model, ID: s}
	if prefix, rest, ok := strings.Cut(s, "/"); ok {
		for _, t := range []RepoType{Model, Dataset, Space, Kernel} {
			// "datasets/name" without a second slash could also be a
			// user called "datasets"; the Hub reserves these names.
			if prefix == t.plural() {
				r = Repo{Type: t, ID: rest}
			}
		}
	}
	return r, r.Validate()
}

// String gives the form that [ParseRepo] reads.
func (r Repo) String() string {
	return r.Type.urlPrefix() + r.ID
}

// Validate checks the type and the id by the Hub's rules. Every method that
// takes a Repo calls it before any path or URL is built.
func (r Repo) Validate() error {
	bad := func(why string) error {
		return &Error{Kind: ErrInvalidRepo, Op: "validate", Message: fmt.Sprintf("repository id %q %s", clip(r.ID, 128), why)}
	}
	switch r.Type {
	case "", Model, Dataset, Space, Kernel:
	default:
		return &Error{Kind: ErrInvalidRepo, Op: "validate", Message: fmt.Sprintf("unknown repository type %q (model, dataset, space or kernel)", clip(string(r.Type), 32))}
	}
	parts := strings.Split(r.ID, "/")
	switch {
	case r.ID == "":
		return bad("is empty")
	case len(parts) > 2:
		return bad("has more than one slash")
	case strings.Contains(r.ID, "--"), strings.Contains(r.ID, ".."):
		return bad("contains -- or ..")
	case strings.HasSuffix(r.ID, ".git"):
		return bad("ends in .git")
	}
	for _, p := range parts {
		if len(p) < 1 || len(p) > 96 {
			return bad("has a part that is empty or longer than 96 characters")
		}
		for i := 0; i < len(p); i++ {
			c := p[i]
			if !isWordByte(c) && c != '-' && c != '.' {
				return bad("has a character outside letters, digits, '-', '_' and '.'")
			}
		}
		if !isWordByte(p[0]) || !isWordByte(p[len(p)-1]) {
			return bad("has a part that starts or ends with '-' or '.'")
		}
	}
	return nil
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// folder is the repository's directory name inside the cache.
func (r Repo) folder() string {
	return r.Type.plural() + "--" + strings.ReplaceAll(r.ID, "/", "--")
}

// Commit is a full commit hash: 40 lower-case hexadecimal digits.
type Commit string

// IsCommit reports whether a revision is a full commit hash. Upper-case
// digits make it a branch name, as on the Hub.
func IsCommit(revision string) bool { return isHex(revision, 40) }

// isSHA256 reports whether an etag is the digest of an LFS file.
func isSHA256(s string) bool { return isHex(s, 64) }

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// validEtag says whether an etag may become a file name in blobs/. Only hash
// shapes pass: anything else would let a server choose a path.
func validEtag(s string) bool { return isHex(s, 40) || isHex(s, 64) }

// checkRevision returns the revision to use ("" becomes main) or says why it
// cannot name a file under refs/.
func checkRevision(revision string) (string, error) {
	if revision == "" {
		return DefaultRevision, nil
	}
	if err := checkPath(revision); err != nil || len(revision) > 1024 {
		return "", &Error{Kind: ErrInvalidRevision, Op: "validate", Message: fmt.Sprintf("revision %q is not a branch, tag, ref or commit name", clip(revision, 128))}
	}
	return revision, nil
}

var (
	errPathEmpty    = errors.New("an empty segment")
	errPathDots     = errors.New("a . or .. segment")
	errPathAbsolute = errors.New("an absolute or drive path")
	errPathByte     = errors.New("a NUL or control byte")
	errPathWindows  = errors.New("a name that Windows reserves")
)

// CheckPath says whether a file name from a repository may be joined to a
// directory. The rules of POSIX and of Windows hold on every system: no
// absolute, drive, root-relative or UNC name, no ".." between slashes of
// either kind. The error matches [ErrUnsafePath].
func CheckPath(name string) error {
	if err := checkPath(name); err != nil {
		return &Error{Kind: ErrUnsafePath, Op: "validate", Message: fmt.Sprintf("file name %q has %v", clip(name, 128), err)}
	}
	return nil
}

func checkPath(name string) error { return checkPathOS(name, runtime.GOOS == "windows") }

func checkPathOS(name string, windows bool) error {
	if name == "" || len(name) > 4096 {
		return errPathEmpty
	}
	for i := 0; i < len(name); i++ {
		if name[i] < 0x20 || name[i] == 0x7f {
			return errPathByte
		}
	}
	if name[0] == '/' || name[0] == '\\' {
		return errPathAbsolute
	}
	for _, seg := range strings.Split(name, "/") {
		if seg == "" {
			return errPathEmpty
		}
		for _, s := range strings.Split(seg, `\`) {
			if s == "." || s == ".." {
				return errPathDots
			}
		}
		if len(seg) >= 2 && seg[1] == ':' && isLetter(seg[0]) || seg[0] == '\\' {
			return errPathAbsolute
		}
		if windows && windowsReserved(seg) {
			return errPathWindows
		}
	}
	return nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// windowsReserved reports whether a segment cannot be a plain file name on
// Windows: a device name, a stream, a separator, or a name that Windows
// would silently shorten.
func windowsReserved(seg string) bool {
	if strings.ContainsAny(seg, `<>:"|?*\`) || strings.HasSuffix(seg, ".") || strings.HasSuffix(seg, " ") {
		return true
	}
	base, _, _ := strings.Cut(strings.ToUpper(seg), ".")
	base = strings.TrimRight(base, " ")
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	if len(base) == 4 && (base[:3] == "COM" || base[:3] == "LPT") && base[3] >= '0' && base[3] <= '9' {
		return true
	}
	return false
}

// safeJoin joins a checked name to a directory and verifies once more that
// the result lies inside it.
func safeJoin(dir, name string) (string, error) {
	if err := CheckPath(name); err != nil {
		return "", err
	}
	p := filepath.Join(dir, filepath.FromSlash(name))
	rel, err := filepath.Rel(dir, p)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", &Error{Kind: ErrUnsafePath, Op: "validate", Message: fmt.Sprintf("file name %q leaves its directory", clip(name, 128))}
	}
	return p, nil
}

const upperHex = "0123456789ABCDEF"

// escapePath percent-encodes every byte outside A-Za-z0-9_.-~ and, where
// keepSlash is set, '/'. url.PathEscape is not used: it keeps '+', '&', '='
// and others that the Hub's own client encodes.
func escapePath(s string, keepSlash bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if isWordByte(c) || c == '.' || c == '-' || c == '~' || keepSlash && c == '/' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(upperHex[c>>4])
		b.WriteByte(upperHex[c&15])
	}
	return b.String()
}

// resolveURL is where the content of a file lives.
func (c *Client) resolveURL(r Repo, revision, file string) string {
	return c.endpoint.String() + "/" + r.Type.urlPrefix() + r.ID + "/resolve/" + escapePath(revision, false) + "/" + escapePath(file, true)
}

// apiURL builds an API address: /api/{plural}/{id} and then escaped segments.
func (c *Client) apiURL(r Repo, segments ...string) string {
	u := c.endpoint.String() + "/api/" + r.Type.plural() + "/" + r.ID
	for _, s := range segments {
		u += "/" + escapePath(s, false)
	}
	return u
}

// clip shortens text from outside before it goes into an error.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
