package hub

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"
)

// DefaultEndpoint is the public Hub.
const DefaultEndpoint = "https://huggingface.co"

// Options configures a [Client]. The zero value of every field but CacheDir
// is useful; CacheDir must be set (see [OptionsFromEnv]).
type Options struct {
	// Endpoint is the Hub's address, by default [DefaultEndpoint]. A mirror
	// under a path ("https://host/hf") works too.
	Endpoint string
	// Token is sent as a bearer token to the endpoint's origin only. Empty:
	// none.
	Token string
	// CacheDir is the hub cache, e.g. ~/.cache/huggingface/hub.
	CacheDir string
	// Force downloads files that are there already anew, asks the Hub for
	// commits and listings that the cache knows, and lets nothing cached stand
	// in for a Hub that cannot be reached. What was there stays until its
	// successor is verified. It excludes Offline.
	Force bool
	// Offline forbids every network use. What the cache holds still works.
	Offline bool
	// UserAgent is put before the client's own name, e.g. "hfcompress/1.0".
	UserAgent string
	// Logger receives warnings and debug lines. Nil: discarded.
	Logger *slog.Logger
	// Progress receives events. Nil: none.
	Progress Observer

	// Workers is how many files a snapshot downloads at once (default 8).
	Workers int
	// MaxConns bounds the open transfers of the whole client (default 16).
	// Each may hold a block of 2 MiB, and a Xet transfer 1 MiB more; 16 blocks
	// are on their way to the disk and the digests beside.
	MaxConns int
	// ConnsPerFile bounds the ranges of one large file that are fetched at once
	// (default 16). A file begins with one, and more are added as long as they
	// add speed: servers that limit each connection get many, others few. 1
	// makes every file one stream.
	ConnsPerFile int

	// MetadataTimeout bounds the wait for a first answer about a file while
	// a cached copy may stand in (default 10 s).
	MetadataTimeout time.Duration
	// StallTimeout ends a connection that has sent no byte for so long, and
	// bounds the wait for response headers (default 30 s). There is no
	// timeout for a whole body: a slow transfer that moves is healthy.
	StallTimeout time.Duration
	// ConnectTimeout bounds dialling and the TLS handshake (default 10 s).
	ConnectTimeout time.Duration
	// Retries is how often a request is tried again after a failure that
	// may pass (default 5, negative: never). An attempt that brings 64 KiB
	// of a file starts the count anew.
	Retries int
	// RetryBase and RetryCap shape the pause before attempt n: a random
	// time up to min(RetryCap, RetryBase·2ⁿ) (defaults 1 s and 8 s).
	RetryBase, RetryCap time.Duration
	// MaxRateWait bounds one wait that a rate limit asks for (default 6 min).
	// A longer one is an [ErrRateLimited].
	MaxRateWait time.Duration

	// DisableSymlinks stores files in snapshots directly, as on systems
	// without symbolic links.
	DisableSymlinks bool
	// DisableSharedBlobs ignores the cache's store of contents that several
	// repositories share.
	DisableSharedBlobs bool
	// PublishShared puts new Xet files into that store, which is made if the
	// cache has none, and leaves links to them. Each is hashed once more for
	// it. Some programs refuse files that resolve into another directory.
	PublishShared bool
	// DisableXet takes every file over plain HTTP. Otherwise files for which
	// the Hub states a Xet hash come from its content-addressed store, and
	// over HTTP what that store fails to give.
	DisableXet bool
	// XetHashSuffices leaves SHA-256 out for a file that came whole over Xet
	// and has the Xet hash that the Hub states, which covers every byte too.
	// By default both must hold, so that the Hub's two statements are also
	// held against each other.
	XetHashSuffices bool
	// IgnoreDiskSpace downloads even when the volume seems too small.
	IgnoreDiskSpace bool

	// DialContext replaces the network dialler, for tests and special
	// networks.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Proxy chooses a proxy for a request, as in http.Transport. Nil: none.
	Proxy func(*http.Request) (*url.URL, error)
	// RootCAs replaces the system's certificate authorities. Nil: system.
	RootCAs *x509.CertPool
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	defInt := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	if o.Endpoint == "" {
		o.Endpoint = DefaultEndpoint
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	defInt(&o.Workers, 8)
	defInt(&o.MaxConns, 16)
	defInt(&o.ConnsPerFile, 16)
	def(&o.MetadataTimeout, 10*time.Second)
	def(&o.StallTimeout, 30*time.Second)
	def(&o.ConnectTimeout, 10*time.Second)
	switch {
	case o.Retries == 0:
		o.Retries = 5
	case o.Retries < 0:
		o.Retries = 0
	}
	def(&o.RetryBase, time.Second)
	def(&o.RetryCap, 8*time.Second)
	def(&o.MaxRateWait, 6*time.Minute)
	return o
}

// Snapshot is a set of files of one commit on disk.
type Snapshot struct {
	// Dir holds the files under their repository paths.
	Dir string
	// Commit is what the revision stood for.
	Commit Commit
	// Files are the selected files, sorted by path. Without a listing
	// (offline and none cached) they are what lies on disk.
	Files []File
	// Unverified is set when no listing of the commit could be had, so that
	// nobody can say whether files are missing.
	Unverified bool
}

// SnapshotOptions selects files. A file is taken if Files is empty or names
// it, Allow is empty or matches it, and Ignore does not match it. Patterns
// are fnmatch patterns in which * also crosses '/'; see [Match].
type SnapshotOptions struct {
	Allow  []string
	Ignore []string
	// Files are exact names; one that the repository lacks is an
	// [ErrEntryNotFound].
	Files []string
	// Workers overrides Options.Workers when positive.
	Workers int
	// LocalOnly uses the cache alone for this call.
	LocalOnly bool
}

// File is one file of a repository at a commit.
type File struct {
	Path string
	Size int64
	// BlobID is the git blob id (of the pointer text, for LFS files).
	BlobID string
	// SHA256 is the content's digest for LFS files, else empty.
	SHA256 string
	// XetHash is the Xet file hash, where the Hub states one.
	XetHash string

	// xetAuth is where the Hub says that the store's token is, if it did.
	xetAuth string
}

// Etag is the name under which the content is cached: the SHA-256 of an LFS
// file, the git blob id of a plain one.
func (f File) Etag() string {
	if f.SHA256 != "" {
		return f.SHA256
	}
	return f.BlobID
}

// FileMetadata is what the Hub says about one file at one revision.
type FileMetadata struct {
	Commit Commit
	// Etag is a SHA-256 (LFS) or a git blob id.
	Etag string
	Size int64
	// Location is where the content lies, without a promise that it stays
	// valid: signed URLs expire.
	Location string
	// XetHash is the Xet file hash, where the Hub states one, and XetAuth
	// the address on the endpoint that gives a token for the store.
	XetHash string
	XetAuth string
}
