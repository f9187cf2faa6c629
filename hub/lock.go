package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// lockPoll is how often a taken lock is tried again.
	lockPoll = 50 * time.Millisecond
	// softBeat is how often the holder of a soft lock shows that it lives;
	// after softStale without a sign the lock counts as left behind.
	softBeat  = 10 * time.Second
	softStale = 60 * time.Second
)

var (
	// errLocked means that somebody else holds the lock.
	errLocked = errors.New("another download holds its lock")
	// errNoLocks means that the file system has no locks.
	errNoLocks = errors.New("file locks are not supported here")
)

// fileLock is a held lock. The file stays in place on release: a waiter with
// an older locking library would otherwise hold a lock on a removed file.
type fileLock struct {
	f    *os.File
	soft func() // releases a soft lock
}

func (l *fileLock) release() {
	switch {
	case l == nil:
	case l.soft != nil:
		l.soft()
	case l.f != nil:
		unlockFile(l.f)
		_ = l.f.Close()
	}
}

// locker takes locks; its function is replaced in tests.
type locker struct {
	// try takes an exclusive lock on an open file or returns errLocked or
	// errNoLocks.
	try func(f *os.File) error
}

// acquire waits for the lock that Python's client uses for the same blob.
// Locks only save double work: correctness comes from private temporary files
// and atomic renames. So a lock file that cannot be made is no error.
func (c *Client) acquire(ctx context.Context, path, file string) (*fileLock, error) {
	return c.acquireAs(ctx, path, path, file)
}

// acquireAs is acquire with another name for the lock that stands in where
// the system has none.
func (c *Client) acquireAs(ctx context.Context, path, soft, file string) (*fileLock, error) {
	if err := os.MkdirAll(extended(filepath.Dir(path)), 0o777); err != nil {
		c.log.Debug("working without a lock", "path", path, "err", err)
		return &fileLock{}, nil
	}
	told := time.Time{}
	for {
		l, err := c.locks.attempt(path, soft)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, errLocked) {
			c.log.Debug("working without a lock", "path", path, "err", err)
			return &fileLock{}, nil
		}
		if now := c.now(); now.Sub(told) >= 10*time.Second {
			c.log.Info("waiting for another download of the same content", "file", file, "lock", path)
			c.progress.send(Event{Kind: Waiting, File: file, Err: errLocked})
			told = now
		}
		t := time.NewTimer(lockPoll)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

func (k *locker) attempt(path, soft string) (*fileLock, error) {
	f, created, err := openLockFile(path)
	if err != nil {
		return nil, err
	}
	err = k.try(f)
	switch {
	case errors.Is(err, errNoLocks):
		_ = f.Close()
		if soft != path {
			if f, created, err = openLockFile(soft); err != nil {
				return nil, err
			}
			_ = f.Close()
		}
		return softLock(soft, created)
	case err != nil:
		_ = f.Close()
		return nil, err
	}
	// Another program may have removed the file between our open and our
	// lock; then we hold a lock that nobody else sees.
	if !stillThere(f, path) {
		unlockFile(f)
		_ = f.Close()
		return nil, errLocked
	}
	return &fileLock{f: f}, nil
}

// openLockFile opens or makes the lock file and says whether it is new.
func openLockFile(path string) (f *os.File, created bool, err error) {
	p := extended(path)
	f, err = os.OpenFile(p, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o664)
	if err == nil {
		// The umask may have taken the group's right to wait.
		_ = f.Chmod(0o664)
		return f, true, nil
	}
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, false, err
	}
	refused := errors.Is(err, fs.ErrPermission)
	// Without O_CREATE: in a sticky directory even opening somebody else's
	// file with it is refused.
	f, err = os.OpenFile(p, os.O_RDWR|noFollow, 0)
	if errors.Is(err, fs.ErrPermission) {
		// flock needs no write access: a 0644 file of another user works.
		f, err = os.OpenFile(p, os.O_RDONLY|noFollow, 0)
	}
	if errors.Is(err, fs.ErrNotExist) && refused {
		return nil, false, fs.ErrPermission // none is there and none can be made
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, errLocked // removed just now, try again
	}
	return f, false, err
}

func stillThere(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(extended(path))
	return err == nil && os.SameFile(a, b)
}

// softLock stands in where the system has no locks: whoever creates the file
// holds it. A holder that shows no life is displaced.
func softLock(path string, created bool) (*fileLock, error) {
	p := extended(path)
	if !created {
		st, err := os.Stat(p)
		if err != nil || time.Since(st.ModTime()) > softStale {
			_ = os.Remove(p)
		}
		return nil, errLocked
	}
	host, _ := os.Hostname()
	_ = os.WriteFile(p, fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), host), 0o664)
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(softBeat)
		defer t.Stop()
		for {
			select {
			case now := <-t.C:
				_ = os.Chtimes(p, now, now)
			case <-stop:
				return
			}
		}
	}()
	return &fileLock{soft: func() {
		close(stop)
		<-stopped
		_ = os.Remove(p)
	}}, nil
}
