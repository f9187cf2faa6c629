package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrInUse marks what a deletion left because a download works on it, or
// because something has come to use it since the plan was made.
var ErrInUse = errors.New("in use")

// trashPrefix names, inside .locks, what is being deleted: scanners of the
// cache pass over that directory.
const trashPrefix = ".deleted-"

// settledAge is how long a revision without refs must have been quiet to be
// pruned: a download makes the directory before the ref, and holds no lock
// between two files.
const settledAge = time.Minute

// lockBatch is how many blobs are locked at a time: each costs an open file.
const lockBatch = 64

// Deleted is what a deletion did.
type Deleted struct {
	Items []DeleteItem
	// Freed is the sum of the sizes of Items.
	Freed int64
	// Kept are items that could not be deleted.
	Kept []KeptItem
}

// KeptItem is an item that stays, and why: [ErrInUse], or the system's error.
type KeptItem struct {
	DeleteItem
	Reason error
}

// deletion carries a plan out.
type deletion struct {
	root  *os.Root // the cache
	dir   string
	done  *Deleted
	locks locker
	// settled: leave what has changed lately.
	settled bool
}

// Delete carries a plan out. It takes the locks that downloads take, those of
// Python's client included, and leaves what they hold. Whatever changed since
// the scan is looked at again: a blob that a snapshot uses by now stays. No
// link is followed; a folder of the cache that has become one is left alone.
// A snapshot or a repository disappears in one step, and refs to it before.
// An error means that the work ended early; what failed by itself is in Kept.
func (p *DeletePlan) Delete(ctx context.Context) (*Deleted, error) {
	d := &deletion{dir: p.Dir, done: &Deleted{}, locks: locker{try: lockFile}, settled: p.settled}
	var err error
	if d.root, err = os.OpenRoot(p.Dir); err != nil {
		return d.done, &Error{Kind: ErrCache, Op: "delete", Err: err}
	}
	defer d.root.Close()
	blobs := map[string][]DeleteItem{}
	for _, kind := range deleteOrder {
		for _, it := range p.Items {
			if it.Kind != kind {
				continue
			}
			if err := ctx.Err(); err != nil {
				return d.done, err
			}
			if kind == DeleteBlob {
				folder := it.Repo.folder()
				blobs[folder] = append(blobs[folder], it)
				continue
			}
			d.note(it, d.one(it))
		}
		if kind != DeleteBlob {
			continue
		}
		for folder, items := range blobs {
			for batch := range slices.Chunk(items, lockBatch) {
				if err := ctx.Err(); err != nil {
					return d.done, err
				}
				d.blobs(folder, batch)
			}
		}
	}
	return d.done, nil
}

func (d *deletion) note(it DeleteItem, err error) {
	if err != nil {
		d.done.Kept = append(d.done.Kept, KeptItem{it, err})
		return
	}
	d.done.Items = append(d.done.Items, it)
	d.done.Freed += it.Size
}

func (d *deletion) one(it DeleteItem) error {
	rel, err := d.rel(it.Path)
	if err != nil {
		return err
	}
	switch it.Kind {
	case DeleteRepo:
		if err := d.idle(rel, filepath.Join(it.Path, "snapshots")); err != nil {
			return err
		}
		return d.discard(rel)
	case DeleteRevision:
		return d.revision(it, rel)
	case DeleteFile:
		if err := d.root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.removeEmpty(filepath.Dir(rel), filepath.Join(it.Repo.folder(), "snapshots", string(it.Commit)))
		return nil
	case DeleteIncomplete:
		return d.incomplete(it, rel)
	case DeleteShared:
		n, err := openStore(d.dir).sweep(it.Path)
		if err == nil && n == 0 && it.Size > 0 {
			err = ErrInUse
		}
		return err
	}
	return d.root.RemoveAll(rel)
}

// rel is a path relative to the cache. Every directory on the way to it must
// be one and no link, else a deletion could end up elsewhere.
func (d *deletion) rel(path string) (string, error) {
	rel, err := filepath.Rel(d.dir, path)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", fmt.Errorf("%s does not lie in the cache", path)
	}
	for i, c := range rel {
		if os.IsPathSeparator(uint8(c)) && c < 0x80 {
			if st, err := d.root.Lstat(rel[:i]); err != nil {
				return "", err
			} else if !st.IsDir() {
				return "", fmt.Errorf("%s is not a directory", filepath.Join(d.dir, rel[:i]))
			}
		}
	}
	if st, err := d.root.Lstat(rel); err == nil && st.Mode()&fs.ModeSymlink != 0 && strings.Count(rel, string(filepath.Separator)) == 0 {
		return "", fmt.Errorf("%s is a symbolic link to a repository's folder; delete it by hand", path)
	}
	return rel, nil
}

// discard makes a directory disappear in one step and then removes it.
func (d *deletion) discard(rel string) error {
	if err := d.root.Mkdir(".locks", 0o777); err == nil || errors.Is(err, fs.ErrExist) {
		if st, err := d.root.Lstat(".locks"); err == nil && st.IsDir() {
			to := filepath.Join(".locks", trashPrefix+randomHex(8))
			switch err := d.root.Rename(rel, to); {
			case err == nil:
				return d.root.RemoveAll(to)
			case errors.Is(err, fs.ErrNotExist):
				return nil
			}
		}
	}
	return d.root.RemoveAll(rel)
}

// leftovers are directories that a deletion which was cut off left.
func leftovers(cache string) []string {
	locks := filepath.Join(cache, ".locks")
	if !realDir(locks) {
		return nil
	}
	entries, _ := os.ReadDir(extended(locks))
	var out []string
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), trashPrefix); ok && isHex(id, 8) && e.IsDir() {
			out = append(out, filepath.Join(locks, e.Name()))
		}
	}
	return out
}

// removeEmpty removes directories that are empty, upwards, below a limit.
func (d *deletion) removeEmpty(dir, limit string) {
	for len(dir) > len(limit) && strings.HasPrefix(dir, limit) && d.root.Remove(dir) == nil {
		dir = filepath.Dir(dir)
	}
}

// revision removes the refs first, so that none ever leads to a commit
// without a snapshot, and then the snapshot.
func (d *deletion) revision(it DeleteItem, rel string) error {
	folder := it.Repo.folder()
	if err := d.idle(folder, it.Path); err != nil {
		return err
	}
	// As they are now: one may have come since the scan, another moved on.
	refs, err := scanRefs(filepath.Join(d.dir, folder, "refs"))
	if err != nil {
		return err
	}
	for _, name := range refs[string(it.Commit)] {
		ref, err := d.rel(filepath.Join(d.dir, folder, "refs", filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := d.root.Remove(ref); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.removeEmpty(filepath.Dir(ref), filepath.Join(folder, "refs"))
	}
	if err := d.discard(rel); err != nil {
		return err
	}
	for _, about := range []string{filepath.Join("trees", string(it.Commit)+".json"), filepath.Join(".no_exist", string(it.Commit))} {
		if rel, err := d.rel(filepath.Join(d.dir, folder, about)); err == nil {
			_ = d.root.RemoveAll(rel)
		}
	}
	return nil
}

// lock takes a repository's lock on a blob without waiting.
func (d *deletion) lock(folder, etag string) (*fileLock, error) {
	rel := filepath.Join(".locks", folder)
	if err := d.root.MkdirAll(rel, 0o777); err != nil {
		return nil, err
	}
	path := filepath.Join(d.dir, rel, etag+".lock")
	l, err := d.locks.attempt(path, path)
	if errors.Is(err, errLocked) {
		// The first try may only have cleared a lock that was left behind.
		l, err = d.locks.attempt(path, path)
	}
	if errors.Is(err, errLocked) {
		return nil, ErrInUse
	}
	return l, err
}

// idle refuses a repository in which a download holds a lock and, in a prune,
// a directory in which something has changed lately.
func (d *deletion) idle(folder, dir string) error {
	if d.settled {
		if at, err := newestDir(dir); err != nil || time.Since(at) < settledAge {
			return cmp.Or(err, ErrInUse)
		}
	}
	locks, err := os.ReadDir(extended(filepath.Join(d.dir, ".locks", folder)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range locks {
		etag, ok := strings.CutSuffix(e.Name(), ".lock")
		if !ok || !e.Type().IsRegular() {
			continue
		}
		l, err := d.lock(folder, etag)
		if err != nil {
			return err
		}
		l.release()
	}
	blobs, err := os.ReadDir(extended(filepath.Join(d.dir, folder, "blobs")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range blobs {
		path := filepath.Join(d.dir, folder, "blobs", e.Name())
		if strings.HasSuffix(e.Name(), suffixPartial) && e.Type().IsRegular() && d.beingWritten(path) {
			return ErrInUse
		}
	}
	return nil
}

// newestDir is when an entry was last made or removed below a directory.
func newestDir(dir string) (time.Time, error) {
	var at time.Time
	err := filepath.WalkDir(extended(dir), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		st, err := e.Info()
		if err == nil {
			at = later(at, st.ModTime())
		}
		return err
	})
	return at, err
}

// beingWritten reports whether a process works on a partial: it holds the
// lock on it or, where locks prove nothing, has written lately.
func (d *deletion) beingWritten(path string) bool {
	if stem, ok := strings.CutSuffix(path, suffixJournal); ok {
		// The lock is on the data; of a journal alone nothing can be used.
		return exists(stem+suffixPartial) && d.beingWritten(stem+suffixPartial)
	}
	f, err := os.OpenFile(extended(path), os.O_RDWR|noFollow, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	err = d.locks.try(f)
	if errors.Is(err, errLocked) {
		return true
	}
	defer unlockFile(f)
	quiet := func(p string) bool {
		st, err := os.Lstat(extended(p))
		return err != nil || time.Since(st.ModTime()) >= foreignIdle
	}
	if err != nil || !d.exclusive(path) {
		return !quiet(path)
	}
	// A lock may not reach the host on which the download runs.
	journal := strings.TrimSuffix(path, suffixPartial) + suffixJournal
	if b, err := readSmall(journal, maxJournal); err == nil {
		if h, _, ok := parseJournal(b); ok {
			host, _ := os.Hostname()
			return h.Host != host && !quiet(journal)
		}
	}
	return false
}

// exclusive checks that a second lock on a locked file is refused.
func (d *deletion) exclusive(path string) bool {
	f, err := os.OpenFile(extended(path), os.O_RDWR|noFollow, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(d.locks.try(f), errLocked)
}

func (d *deletion) incomplete(it DeleteItem, rel string) error {
	st, err := d.root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		// A link on its way into a snapshot has its name for an instant only.
		if time.Since(st.ModTime()) < foreignIdle {
			return ErrInUse
		}
		return d.root.Remove(rel)
	}
	if etag, _, _ := strings.Cut(filepath.Base(rel), "."); validEtag(etag) {
		l, err := d.lock(it.Repo.folder(), etag)
		if err != nil {
			return err
		}
		defer l.release()
	}
	if d.beingWritten(it.Path) {
		return ErrInUse
	}
	if err := d.root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// blobs removes content that no snapshot of the repository uses. It looks
// while it holds the locks under which downloads make links.
func (d *deletion) blobs(folder string, items []DeleteItem) {
	var locked []DeleteItem
	for _, it := range items {
		l, err := d.lock(folder, filepath.Base(it.Path))
		if err != nil {
			d.note(it, err)
			continue
		}
		defer l.release()
		locked = append(locked, it)
	}
	used, err := linkedNames(filepath.Join(d.dir, folder, "snapshots"))
	for _, it := range locked {
		rel, rerr := d.rel(it.Path)
		switch {
		case err != nil:
			rerr = err
		case rerr == nil && used[filepath.Base(it.Path)]:
			rerr = ErrInUse
		case rerr == nil:
			if rerr = d.root.Remove(rel); errors.Is(rerr, fs.ErrNotExist) {
				rerr = nil
			}
		}
		d.note(it, rerr)
	}
}

// linkedNames are the last elements of all links below a directory: more than
// the blobs in use, never less.
func linkedNames(dir string) (map[string]bool, error) {
	used := map[string]bool{}
	err := filepath.WalkDir(extended(dir), func(p string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil || e.Type()&fs.ModeSymlink == 0:
			return err
		}
		to, err := os.Readlink(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		used[filepath.Base(to)] = true
		return err
	})
	return used, err
}
