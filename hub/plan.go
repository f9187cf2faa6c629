package hub

import "context"

// PlannedFile is one file of a [Plan].
type PlannedFile struct {
	File
	// Target is where the file will lie.
	Target string
	// Cached says that its content is in the cache already.
	Cached bool
}

// Plan is what a snapshot would bring.
type Plan struct {
	Commit Commit
	Files  []PlannedFile
	// Total and Missing are bytes: of all files, and of those to download.
	Total, Missing int64
}

// Plan says what [Client.Snapshot] would do, without downloading a file or
// writing to the cache. It needs the network unless the cache knows the
// revision and its listing.
func (c *Client) Plan(ctx context.Context, r Repo, revision string, o SnapshotOptions) (*Plan, error) {
	p, err := c.makePlan(ctx, r, revision, o)
	if err != nil {
		return nil, withPlace(err, "plan", r, revision, "")
	}
	return p, nil
}

func (c *Client) makePlan(ctx context.Context, r Repo, revision string, o SnapshotOptions) (*Plan, error) {
	cm, err := c.resolve(ctx, r, revision)
	if err != nil {
		return nil, err
	}
	rc := c.cacheOf(r)
	files, ok := c.knownTree(rc, cm)
	if !ok {
		if files, err = c.fetchTree(ctx, r, cm); err != nil {
			return nil, err
		}
	}
	selected, err := o.filter(files)
	if err != nil {
		return nil, err
	}
	p := &Plan{Commit: cm}
	for _, f := range selected {
		target, err := rc.pointer(cm, f.Path)
		if err != nil {
			return nil, err
		}
		pf := PlannedFile{File: f, Target: target, Cached: !c.opts.Force && (exists(target) || exists(rc.blob(f.Etag())) || c.inStore(rc, f))}
		p.Total += f.Size
		if !pf.Cached {
			p.Missing += f.Size
		}
		p.Files = append(p.Files, pf)
	}
	return p, nil
}

// inStore reports whether a download would link to the shared store. It does
// not find out whether the cache can hold links, since that means writing.
func (c *Client) inStore(rc repoCache, f File) bool {
	if c.opts.DisableSharedBlobs || c.opts.DisableSymlinks || !isHex(f.XetHash, 64) || !isSHA256(f.Etag()) {
		return false
	}
	store := openStore(rc.root)
	return store != nil && usable(store.payload(f.XetHash), f.Size)
}
