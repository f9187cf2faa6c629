package hub

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
)

// The shared store is Python's (huggingface_hub 1.32 and later): contents of
// Xet files lie once under blobs/<2 hex>/<xet hash> of the cache, and the
// blobs of repositories are links to them. This client uses what is there and
// adds nothing: some programs refuse files that resolve into another
// directory.
const (
	sharedMarker  = ".huggingface-shared-blobs"
	sharedVersion = "1\n"
	maxManifest   = 16 << 20
)

// sharedStore returns the store of the cache, if it has one of the known
// layout. A directory without the mark is somebody else's.
func (rc repoCache) sharedStore() (string, bool) {
	dir := filepath.Join(rc.root, "blobs")
	if st, err := os.Lstat(extended(dir)); err != nil || !st.IsDir() {
		return "", false
	}
	b, err := readSmall(filepath.Join(dir, sharedMarker), 16)
	return dir, err == nil && string(b) == sharedVersion
}

// linkShared makes a blob a link into the shared store, if the store has its
// content. The content is checked against the etag first, like a download.
// Whatever goes wrong here, a download does instead.
func (c *Client) linkShared(ctx context.Context, rc repoCache, f File) bool {
	if c.opts.DisableSharedBlobs || !isHex(f.XetHash, 64) || !isSHA256(f.Etag()) || !c.symlinks.supported(rc.root) {
		return false
	}
	store, ok := rc.sharedStore()
	if !ok {
		return false
	}
	payload := filepath.Join(store, f.XetHash[:2], f.XetHash)
	usable := func() bool {
		st, err := os.Lstat(extended(payload))
		return err == nil && st.Mode().IsRegular() && st.Size() == f.Size
	}
	if !usable() {
		return false
	}
	lock, err := c.acquire(ctx, payload+".lock", f.Path)
	if err != nil {
		return false
	}
	defer lock.release()
	if !usable() {
		return false
	}
	if got, err := fileDigest(payload, f.Etag(), f.Size); err != nil || got != f.Etag() {
		c.log.Warn("an entry of the shared store is not what it should be", "path", payload)
		return false
	}
	// The manifest names the link before the link exists: a collector that
	// runs in between keeps the content.
	if err := addReference(payload+".refs", rc.name+"/blobs/"+f.Etag()); err != nil {
		c.log.Debug("shared store not used", "err", err)
		return false
	}
	tmp := filepath.Join(rc.blobs(), "."+f.Etag()+"."+randomHex(8)+".shared")
	target := filepath.Join("..", "..", "blobs", f.XetHash[:2], f.XetHash)
	if err := c.symlinks.symlink(target, extended(tmp)); err != nil {
		return false
	}
	if err := os.Rename(extended(tmp), extended(rc.blob(f.Etag()))); err != nil {
		_ = os.Remove(extended(tmp))
		return false
	}
	return true
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
	_, err = f.Write(add.Bytes())
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
