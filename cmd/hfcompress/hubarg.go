package main

import (
	"net/url"
	"strings"

	"github.com/hfcompress/compress/hub"
)

// hubURI is hf://[models/|datasets/|spaces/|kernels/]ns/name[@rev][/path].
type hubURI struct {
	repo           hub.Repo
	revision, path string
}

const uriScheme = "hf://"

// parseURI reads an hf:// address. A revision may hold slashes in the forms
// refs/pr/N and refs/convert/NAME; any other writes them as %2F.
func parseURI(text string) (hubURI, error) {
	rest, ok := strings.CutPrefix(text, uriScheme)
	if !ok {
		return hubURI{}, usagef("%q does not begin with %s", text, uriScheme)
	}
	u := hubURI{repo: hub.Repo{Type: hub.Model}}
	if kind, after, ok := strings.Cut(rest, "/"); ok {
		switch kind {
		case "buckets":
			return hubURI{}, usagef("%s is a bucket, which has no revisions and cannot be downloaded here", text)
		case "models", "datasets", "spaces", "kernels":
			u.repo.Type, rest = hub.RepoType(strings.TrimSuffix(kind, "s")), after
		}
	}
	id, after, pinned := strings.Cut(rest, "@")
	if parts := strings.SplitN(id, "/", 3); len(parts) == 3 {
		// A third part is a path, and an @ in it is none of ours.
		u.repo.ID, u.path, pinned = parts[0]+"/"+parts[1], strings.TrimPrefix(rest, parts[0]+"/"+parts[1]+"/"), false
	} else {
		u.repo.ID = id
	}
	if pinned {
		parts := strings.Split(after, "/")
		n := 1
		if parts[0] == "refs" && len(parts) >= 3 && (parts[1] == "pr" || parts[1] == "convert") {
			n = 3
		}
		u.path = strings.Join(parts[n:], "/")
		revision, err := url.PathUnescape(strings.Join(parts[:n], "/"))
		if err != nil || revision == "" {
			return hubURI{}, usagef("%q names no revision after @", text)
		}
		u.revision = revision
	}
	if err := u.repo.Validate(); err != nil {
		return hubURI{}, usageError{err}
	}
	if u.path != "" {
		if err := hub.CheckPath(strings.TrimSuffix(u.path, "/")); err != nil {
			return hubURI{}, usageError{err}
		}
	}
	return u, nil
}

// modelAddress reads an hf:// address of a model, or of a file or folder in it.
// revision is empty when the address names none.
func modelAddress(text string) (id, revision, file string, err error) {
	u, err := parseURI(text)
	if err != nil {
		return "", "", "", err
	}
	if u.repo.Type != hub.Model {
		return "", "", "", usagef("%s is a %s, and a model is needed", text, u.repo.Type)
	}
	return u.repo.ID, u.revision, strings.TrimSuffix(u.path, "/"), nil
}

// parseRepoArg reads ns/name, with a type from a flag or before the name as
// in dataset/ns/name or datasets/ns/name.
func parseRepoArg(text, kind string) (hub.Repo, error) {
	r := hub.Repo{Type: hub.RepoType(kind), ID: text}
	if kind == "" {
		r.Type = hub.Model
		if prefix, rest, ok := strings.Cut(text, "/"); ok {
			switch t := hub.RepoType(strings.TrimSuffix(prefix, "s")); t {
			case hub.Model, hub.Dataset, hub.Space, hub.Kernel:
				r = hub.Repo{Type: t, ID: rest}
			}
		}
	}
	if err := r.Validate(); err != nil {
		return r, usageError{err}
	}
	return r, nil
}

// repoTypeFlag checks the value of --repo-type.
func repoTypeFlag(kind string) error {
	switch hub.RepoType(kind) {
	case "", hub.Model, hub.Dataset, hub.Space, hub.Kernel:
		return nil
	}
	return usagef("--repo-type is %q; it is model, dataset, space or kernel", kind)
}

// cacheID is how a repository is shown and named in the cache: type/ns/name.
func cacheID(r hub.Repo) string { return string(r.Type) + "/" + r.ID }
