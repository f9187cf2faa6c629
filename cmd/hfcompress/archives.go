package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/pack/floatcodec"
)

// Stages of work on archives, shown like those of the road.
const (
	stageUnpack compress.Stage = "unpack"
	stageVerify compress.Stage = "verify"
)

func init() {
	titles[stageUnpack] = "unpack"
	titles[stageVerify] = "verify"
}

// workMemory is what work on archives may take besides 4 chunks for each worker
// and what it has to know of so many files and tensors. With the command itself,
// that stays below 64 MiB.
const workMemory = 42 << 20

// boundMemory has garbage collected seldom while memory is below that, and as
// often as it takes beyond: with the percentage that suits long-lived weights
// (see run), packing took a third longer.
func (a *app) boundMemory(workers, things int) {
	if a.getenv("GOGC") != "" || a.getenv("GOMEMLIMIT") != "" {
		return
	}
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	debug.SetMemoryLimit(workMemory + 4*int64(workers)*floatcodec.ChunkElements*4 + 1024*int64(things))
	debug.SetGCPercent(400)
}

// isArchive reports whether path is a file that begins as an archive does.
func isArchive(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(archive.Magic))
	n, err := f.ReadAt(head, 0)
	return err == nil && string(head[:n]) == archive.Magic
}

// chain is an archive with the bases that it needs.
type chain struct {
	*archive.Reader
	opened []*archive.Reader
}

// Close closes them all.
func (c *chain) Close() error {
	var errs []error
	for _, r := range c.opened {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// openArchive opens an archive. Its base, and the base of that, are found among
// bases by their digests; one that is missing shows when it is needed.
func (a *app) openArchive(path string, bases []string, workers int) (*chain, error) {
	if workers < 0 {
		return nil, usagef("--workers must not be negative")
	}
	c := &chain{}
	byDigest := map[archive.Digest]string{}
	for _, b := range bases {
		r, err := archive.Open(b, archive.ReadOptions{})
		if err != nil {
			return nil, err
		}
		byDigest[r.Digest()] = b
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	var err error
	if c.Reader, err = c.open(path, byDigest, workers); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	a.boundMemory(workers, known(c.opened...))
	if need, ok := c.Base(); ok && len(bases) > 0 {
		if _, given := byDigest[need]; !given {
			return nil, errors.Join(fmt.Errorf("%s: %w: it was made against %v, which is not among those given", path, archive.ErrBase, need), c.Close())
		}
	}
	for _, b := range bases {
		if !slices.ContainsFunc(c.opened, func(r *archive.Reader) bool { return byDigest[r.Digest()] == b }) {
			fmt.Fprintf(a.stderr, "hfcompress: --base %s is ignored: %s does not need it\n", b, path)
		}
	}
	return c, nil
}

// known counts the files and tensors of archives.
func known(archives ...*archive.Reader) (n int) {
	for _, r := range archives {
		for _, f := range r.Files() {
			n += 1 + f.Tensors
		}
	}
	return n
}

func (c *chain) open(path string, byDigest map[archive.Digest]string, workers int) (*archive.Reader, error) {
	r, err := archive.Open(path, archive.ReadOptions{Workers: workers})
	if err != nil {
		return nil, err
	}
	need, ok := r.Base()
	base, given := byDigest[need]
	if !ok || !given {
		c.opened = append(c.opened, r)
		return r, nil
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	delete(byDigest, need) // an archive cannot be its own base, even if its digest says so
	defer func() { byDigest[need] = base }()
	below, err := c.open(base, byDigest, workers)
	if err != nil {
		return nil, err
	}
	if r, err = archive.Open(path, archive.ReadOptions{Workers: workers, Base: below}); err != nil {
		return nil, err
	}
	c.opened = append(c.opened, r)
	return r, nil
}

// things writes how many there are of something.
func things(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return count(int64(n)) + " " + what
}

// percent writes a part of a whole.
func percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(whole))
}
