package hub

import "context"

// PlanTo says what [Client.SnapshotTo] would do, without writing anything. A
// file counts as cached if the directory has it, by its note or its digest,
// or the cache, from where it would be copied.
func (c *Client) PlanTo(ctx context.Context, r Repo, revision, dir string, o SnapshotOptions) (*Plan, error) {
	p, err := c.planTo(ctx, r, revision, dir, o)
	if err != nil {
		return nil, withPlace(err, "plan", r, revision, "")
	}
	return p, nil
}

func (c *Client) planTo(ctx context.Context, r Repo, revision, dir string, o SnapshotOptions) (*Plan, error) {
	l, err := newLocalDir(dir)
	if err != nil {
		return nil, err
	}
	p, err := c.makePlan(ctx, r, revision, o)
	if err != nil {
		return nil, err
	}
	rc := c.cacheOf(r)
	p.Missing = 0
	for i := range p.Files {
		f := &p.Files[i]
		at, err := l.paths(f.Path)
		if err != nil {
			return nil, err
		}
		same, err := at.same(f.Etag(), f.Size)
		if err != nil {
			return nil, err
		}
		f.Target, f.Cached = at.file, !c.opts.Force && (same || rc.cached(string(p.Commit), f.Path) != "")
		if !f.Cached {
			p.Missing += f.Size
		}
	}
	return p, nil
}
