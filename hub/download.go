package hub

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
)

// Download brings one file into the cache and returns the path under which
// it lies in the snapshot. Revision "" is main.
//
// With a full commit hash and the file in the cache there is no network use
// and no write. Otherwise the Hub is asked once; if it cannot be reached the
// cached file of that revision stands in. A file that neither has is
// [ErrLocalEntryNotFound] offline and the failure of the request online.
func (c *Client) Download(ctx context.Context, r Repo, revision, file string) (string, error) {
	rev, err := checkTarget(r, revision, file)
	var path string
	if err == nil {
		path, err = c.download(ctx, r, rev, file)
	}
	if err != nil {
		return "", withPlace(err, "download", r, revision, file)
	}
	return path, nil
}

func (c *Client) download(ctx context.Context, r Repo, revision, file string) (string, error) {
	rc := c.cacheOf(r)
	cached := ""
	if !c.opts.Force {
		cached = rc.cached(revision, file)
	}
	if cached != "" && (IsCommit(revision) || c.opts.Offline) {
		return cached, nil
	}
	if c.opts.Offline {
		return "", rc.notCached(revision, file)
	}
	m, err := c.metadataQuick(ctx, r, revision, file, cached != "")
	if err != nil {
		var e *Error
		if errors.As(err, &e) && e.Kind == ErrEntryNotFound && e.commit != "" {
			if c.prepare(rc, revision, e.commit) == nil {
				rc.markNoExist(e.commit, file)
			}
		}
		if cached != "" && mayFallBack(ctx, err) {
			c.log.Warn("the Hub cannot be reached, using the cached file", "repo", r.String(), "file", file, "err", err)
			return cached, nil
		}
		return "", err
	}
	if IsCommit(revision) && string(m.Commit) != revision {
		return "", &Error{Kind: ErrMetadata, Message: "the Hub answers with the commit " + string(m.Commit)}
	}
	path, err := rc.pointer(m.Commit, file)
	if err != nil {
		return "", err
	}
	if !c.opts.Force && exists(path) {
		_ = rc.writeRef(revision, m.Commit)
		return path, nil
	}
	if err := c.prepare(rc, revision, m.Commit); err != nil {
		return "", err
	}
	return c.fetch(ctx, r, m.Commit, m.file(file))
}

// file turns what a HEAD says into the form of a listing.
func (m FileMetadata) file(path string) File {
	f := File{Path: path, Size: m.Size, XetHash: m.XetHash, xetAuth: m.XetAuth}
	if isSHA256(m.Etag) {
		f.SHA256 = m.Etag
	} else {
		f.BlobID = m.Etag
	}
	return f
}

// metadataQuick asks once and briefly if a cached file could stand in, so
// that work goes on soon when the network is gone; else with retries.
func (c *Client) metadataQuick(ctx context.Context, r Repo, revision, file string, haveCached bool) (FileMetadata, error) {
	if haveCached {
		m, err := c.metadataOnce(withStall(ctx, c.opts.MetadataTimeout), r, revision, file)
		if !isRateLimit(err) {
			return m, err
		}
	}
	return c.metadata(ctx, r, revision, file)
}

// cached returns the path of a file in the cache, or "".
func (rc repoCache) cached(revision, file string) string {
	cm := rc.readRef(revision)
	if cm == "" {
		return ""
	}
	p, err := rc.pointer(cm, file)
	if err != nil || !exists(p) {
		return ""
	}
	return p
}

// notCached is the error of a file that offline mode cannot have.
func (rc repoCache) notCached(revision, file string) error {
	if cm := rc.readRef(revision); cm != "" && rc.knownMissing(cm, file) {
		return &Error{Kind: ErrEntryNotFound, Message: "as the cache remembers"}
	}
	return &Error{Kind: ErrLocalEntryNotFound, Err: ErrOffline, Hint: "run once with network access"}
}

// fetch makes a file of a known commit appear in the cache. The directories
// and the ref exist already.
func (c *Client) fetch(ctx context.Context, r Repo, cm Commit, f File) (string, error) {
	rc := c.cacheOf(r)
	pointer, err := rc.pointer(cm, f.Path)
	if err != nil {
		return "", err
	}
	etag := f.Etag()
	blob := rc.blob(etag)
	lock, err := c.acquire(ctx, rc.lockPath(etag), f.Path)
	if err != nil {
		return "", err
	}
	defer lock.release()
	cachedEvent := Event{Kind: FileCached, Repo: r, File: f.Path, Done: f.Size, Total: f.Size}
	// Another process may have finished while this one waited.
	if !c.opts.Force && exists(pointer) {
		c.progress.send(cachedEvent)
		return pointer, nil
	}
	if st, err := os.Stat(extended(blob)); err == nil && !c.opts.Force && st.Mode().IsRegular() && st.Size() == f.Size {
		c.tidy(rc.spot(etag), etag, f.Size)
		if err := c.place(rc, blob, pointer, false); err != nil {
			return "", &Error{Kind: ErrCache, Err: err}
		}
		c.progress.send(cachedEvent)
		return pointer, nil
	}
	if c.linkShared(ctx, rc, f) {
		// A blob that is a link is never moved into a snapshot.
		if err := c.place(rc, blob, pointer, false); err != nil {
			return "", &Error{Kind: ErrCache, Err: err}
		}
		c.progress.send(cachedEvent)
		return pointer, nil
	}
	if err := c.transferTo(ctx, r, cm, f, rc.spot(etag)); err != nil {
		c.progress.send(Event{Kind: FileFailed, Repo: r, File: f.Path, Total: f.Size, Err: err})
		return "", err
	}
	// A blob that has become a link is not moved either.
	shared, err := c.publishShared(ctx, rc, f)
	if err != nil {
		return "", err
	}
	if err := c.place(rc, blob, pointer, !shared); err != nil {
		return "", &Error{Kind: ErrCache, Err: err}
	}
	c.progress.send(Event{Kind: FileDone, Repo: r, File: f.Path, Done: f.Size, Total: f.Size})
	return pointer, nil
}

// transferTo downloads, verifies and names one file. A wrong digest gets a
// second chance from the start, over plain HTTP and with a fresh address, no
// more.
func (c *Client) transferTo(ctx context.Context, r Repo, cm Commit, f File, at spot) error {
	etag := f.Etag()
	u, err := url.Parse(c.resolveURL(r, string(cm), f.Path))
	if err != nil {
		return err
	}
	if err := c.checkSpace(at.dir, f.Size-at.partialBytes()); err != nil {
		return err
	}
	for try := 0; ; try++ {
		p, err := c.openPartial(at, etag, f.Size)
		if err != nil {
			if isNoSpace(err) {
				free, _ := freeSpace(at.dir)
				return &DiskSpaceError{Dir: at.dir, Need: f.Size, Free: free}
			}
			return &Error{Kind: ErrCache, Err: err}
		}
		have, _ := p.state()
		t := &transfer{c: c, repo: r, file: f.Path, etag: etag, size: f.Size, p: p, sent: have,
			src: &source{c: c, resolve: u, file: f.Path, etag: etag, size: f.Size}}
		c.progress.send(Event{Kind: FileStarted, Repo: r, File: f.Path, Done: have, Total: f.Size})
		err = t.run(ctx, try, cm, f)
		switch {
		case err == nil:
			if err := p.finish(at.final); err != nil {
				return &Error{Kind: ErrCache, Err: err}
			}
			return nil
		case errors.Is(err, ErrChecksum):
			p.remove()
			if try == 0 {
				c.log.Warn("wrong digest, downloading once more", "file", f.Path, "err", err)
				c.progress.send(Event{Kind: Retrying, Repo: r, File: f.Path, Err: err})
				continue
			}
		default:
			p.close()
		}
		return err
	}
}

// checkSpace compares what is needed with what the volume of a directory has.
func (c *Client) checkSpace(target string, need int64) error {
	if need <= 0 || c.opts.IgnoreDiskSpace {
		return nil
	}
	dir := target
	free, err := freeSpace(dir)
	for err != nil && filepath.Dir(dir) != dir {
		// The directory may not exist yet; its parent is on the same volume.
		dir = filepath.Dir(dir)
		free, err = freeSpace(dir)
	}
	if err == nil && free < need {
		return &DiskSpaceError{Dir: target, Need: need, Free: free}
	}
	return nil
}
