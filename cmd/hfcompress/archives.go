package main

import (
	"errors"
	"fmt"
	"os"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/pack/archive"
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
func openArchive(path string, bases []string, workers int) (*chain, error) {
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
	if need, ok := c.Base(); ok && len(bases) > 0 {
		if _, given := byDigest[need]; !given {
			return nil, errors.Join(fmt.Errorf("%s: %w: it was made against %v, which is not among those given", path, archive.ErrBase, need), c.Close())
		}
	}
	return c, nil
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
