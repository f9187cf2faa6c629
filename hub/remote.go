package hub

import (
	"context"
	"errors"
	"io"
	"net/url"
)

// RemoteFile reads a file of the Hub at any offset, without downloading it.
// It is an io.ReaderAt and safe for concurrent use. Unlike a download, a read
// of a part cannot be checked against the file's digest.
type RemoteFile struct {
	ctx    context.Context
	repo   Repo
	commit Commit
	file   File
	src    *source
}

// OpenRemote asks the Hub for a file's facts and returns a reader. The
// context ends later reads as well.
func (c *Client) OpenRemote(ctx context.Context, r Repo, revision, file string) (*RemoteFile, error) {
	m, err := c.Metadata(ctx, r, revision, file)
	if err != nil {
		return nil, err
	}
	f, err := c.remoteFile(ctx, r, m.Commit, m.file(file))
	if err != nil {
		return nil, withPlace(err, "open", r, revision, file)
	}
	return f, nil
}

// remoteFile makes a reader from facts that are known, without a request.
func (c *Client) remoteFile(ctx context.Context, r Repo, cm Commit, f File) (*RemoteFile, error) {
	u, err := url.Parse(c.resolveURL(r, string(cm), f.Path))
	if err != nil {
		return nil, err
	}
	return &RemoteFile{ctx: ctx, repo: r, commit: cm, file: f,
		src: &source{c: c, resolve: u, file: f.Path, etag: f.Etag(), size: f.Size}}, nil
}

// Size is the file's length in bytes.
func (f *RemoteFile) Size() int64 { return f.file.Size }

// Commit is the commit that the file is read from.
func (f *RemoteFile) Commit() Commit { return f.commit }

// ReadAt fills p from offset off, as io.ReaderAt demands: fewer bytes than
// len(p) come with an error, which is io.EOF at the end of the file. Broken
// transfers are continued.
func (f *RemoteFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, &Error{Kind: ErrBadRequest, Op: "read", Repo: f.repo, File: f.file.Path, Message: "negative offset"}
	}
	if off >= f.file.Size {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	want := min(int64(len(p)), f.file.Size-off)
	n, err := f.src.readAt(f.ctx, p[:want], off)
	switch {
	case err != nil:
		return n, withPlace(err, "read", f.repo, string(f.commit), f.file.Path)
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

// readAt fills p, with the retries of a download.
func (s *source) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, fails, bad := 0, 0, 0
	for n < len(p) {
		m, err := s.readOnce(ctx, p[n:], off+int64(n))
		n += m
		if m >= minProgress {
			fails = 0
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		if unusable(err) {
			s.forget(nil)
			if bad++; bad > maxBad {
				return n, err
			}
		} else if !temporary(err) || fails >= s.c.opts.Retries {
			return n, err
		}
		if perr := s.c.pause(ctx, s.file, fails, err); perr != nil {
			return n, perr
		}
		fails++
	}
	return n, nil
}

func (s *source) readOnce(ctx context.Context, p []byte, off int64) (int, error) {
	release, err := s.c.takeConn(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	a, err := s.get(ctx, off, off+int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	end, err := s.check(a, off, off+int64(len(p)))
	if errors.Is(err, errNoRanges) {
		// The whole file comes: pass over what lies before and leave the
		// rest unread.
		_, err = io.CopyN(io.Discard, a.Body, off)
		end = s.size
	}
	if err != nil {
		return 0, s.bodyError(ctx, a, err)
	}
	n, err := io.ReadFull(a.Body, p[:min(int64(len(p)), end-off)])
	return n, s.bodyError(ctx, a, err)
}

// bodyError gives a failure while reading a body its type.
func (s *source) bodyError(ctx context.Context, a *answer, err error) error {
	switch {
	case err == nil:
		return nil
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Kind: ErrNetwork, URL: redactURL(a.url), Err: errTruncated}
	case unusable(err):
		return err
	}
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return networkError(ctx, a.url, err)
}
