package hub

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/hfcompress/compress/hub/xet"
)

// The shared store is Python's (huggingface_hub 1.32 and later): contents of
// Xet files lie once under blobs/<2 hex>/<xet hash> of the cache, and the
// blobs of repositories are links to them. This client uses what is there. It
// adds to it only with [Options.PublishShared]: some programs refuse files
// that resolve into another directory.
const (
	sharedMarker  = ".huggingface-shared-blobs"
	sharedVersion = "1\n"
	maxManifest   = 16 << 20
)

// shareable reports whether a file's content may live in the shared store.
func (c *Client) shareable(rc repoCache, f File) bool {
	return !c.opts.DisableSharedBlobs && isHex(f.XetHash, 64) && isSHA256(f.Etag()) && c.symlinks.supported(rc.root)
}

// usable reports whether a payload is a file of the expected size.
func usable(payload string, size int64) bool {
	st, err := os.Lstat(extended(payload))
	return err == nil && st.Mode().IsRegular() && st.Size() == size
}

// linkShared makes a blob a link into the shared store, if the store has its
// content. The content is checked against the etag first, like a download.
// Whatever goes wrong here, a download does instead.
func (c *Client) linkShared(ctx context.Context, rc repoCache, f File) bool {
	if c.opts.Force || !c.shareable(rc, f) {
		return false
	}
	store := openStore(rc.root)
	if store == nil {
		return false
	}
	payload := store.payload(f.XetHash)
	if !usable(payload, f.Size) {
		return false
	}
	lock, err := c.acquireShared(ctx, payload, f.Path)
	if err != nil {
		return false
	}
	defer lock.release()
	if !usable(payload, f.Size) {
		return false
	}
	if got, err := fileDigest(payload, f.Etag(), f.Size); err != nil || got != f.Etag() {
		c.log.Warn("an entry of the shared store is not what it should be", "path", payload)
		return false
	}
	if err := c.linkTo(rc, payload, f.Etag(), func() error { return nil }); err != nil {
		c.log.Debug("shared store not used", "err", err)
		return false
	}
	return true
}

// linkTo replaces a blob by a link to a payload whose lock is held. The
// manifest names the link before the link exists, so that a collector that
// runs in between keeps the content. before runs when all that can fail but
// the last step has succeeded.
func (c *Client) linkTo(rc repoCache, payload, etag string, before func() error) error {
	tmp := filepath.Join(rc.blobs(), "."+etag+"."+randomHex(8)+".shared")
	target, err := filepath.Rel(rc.blobs(), payload)
	if err != nil {
		return err
	}
	if err := c.symlinks.symlink(target, extended(tmp)); err != nil {
		return err
	}
	err = addReference(payload+storeRefs, rc.name+"/blobs/"+etag)
	if err == nil {
		err = before()
	}
	if err == nil {
		err = os.Rename(extended(tmp), extended(rc.blob(etag)))
	}
	if err != nil {
		_ = os.Remove(extended(tmp))
	}
	return err
}

// publishShared moves a verified blob into the shared store and leaves a link
// to it, if the caller asked for that. Other clients trust an entry of the
// store for its name, so the content must have the Xet hash; a file that an
// older uploader cut in another way has not and stays where it is. So it does
// whenever something fails, and the result is false. An error means that the
// blob could not be kept either.
func (c *Client) publishShared(ctx context.Context, rc repoCache, f File) (bool, error) {
	if !c.opts.PublishShared || !c.shareable(rc, f) {
		return false, nil
	}
	blob := rc.blob(f.Etag())
	if !regular(blob) || !hasXetHash(blob, f.XetHash) {
		return false, nil
	}
	store, err := makeStore(rc.root)
	if err == nil {
		err = store.makePrefix(f.XetHash[:2])
	}
	if err != nil {
		c.log.Debug("shared store not used", "err", err)
		return false, nil
	}
	payload := store.payload(f.XetHash)
	lock, err := c.acquireShared(ctx, payload, f.Path)
	if err != nil {
		return false, nil
	}
	defer lock.release()
	moved := false
	err = c.linkTo(rc, payload, f.Etag(), func() error {
		if usable(payload, f.Size) && hasXetHash(payload, f.XetHash) {
			return nil
		}
		if err := os.Chmod(extended(blob), store.fileMode()); err != nil {
			return err
		}
		err := os.Rename(extended(blob), extended(payload))
		moved = err == nil
		return err
	})
	if err != nil && moved {
		// Back under its name, before the lock is given up.
		if cerr := copyFile(rc.blobs(), payload, blob); cerr != nil {
			return false, &Error{Kind: ErrCache, Err: errors.Join(err, cerr)}
		}
	}
	if err != nil {
		c.log.Warn("not put into the shared store", "file", f.Path, "err", err)
	}
	return err == nil, nil
}

// hasXetHash hashes a file as the store does.
func hasXetHash(path, hash string) bool {
	f, err := os.Open(extended(path))
	if err != nil {
		return false
	}
	defer f.Close()
	h, _, err := xet.HashFile(f)
	return err == nil && h.String() == hash
}

// acquireShared takes the lock of a payload. Here a lock does more than save
// work: without one nobody may link to the payload or replace it.
func (c *Client) acquireShared(ctx context.Context, payload, file string) (*fileLock, error) {
	lock, err := c.acquireAs(ctx, payload+storeLock, payload+storeLock+".soft", file)
	if err == nil && lock.f == nil && lock.soft == nil {
		return nil, errNoLocks
	}
	if err == nil && lock.f != nil {
		// Others who share the cache take the same lock.
		_ = lock.f.Chmod(0o666)
	}
	return lock, err
}

// addReference appends a line to a manifest, durably, unless it is there.
func addReference(manifest, line string) error {
	b, err := readSmall(manifest, maxManifest)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, l := range strings.Split(string(b), "\n") {
		if l == line {
			return nil
		}
	}
	var add bytes.Buffer
	if len(b) > 0 && b[len(b)-1] != '\n' {
		add.WriteByte('\n')
	}
	add.WriteString(line + "\n")
	f, err := os.OpenFile(extended(manifest), os.O_WRONLY|os.O_APPEND|os.O_CREATE|noFollow, 0o666)
	if err != nil {
		return err
	}
	_ = f.Chmod(0o666) // for others who share the cache
	_, err = f.Write(add.Bytes())
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
