// Command download measures whole downloads from a Hub, on loopback: metadata,
// redirect to a second origin or token and store, transfer, cache.
//
//	go -C bench/hub/download run . [-size 1024] [-runs 3] [-dir /dev/shm] [-python PY] [-node FOLDER]
//	go -C bench/hub/download run . -limited [-conn 20] [-link 160] [-rtt 50ms]
//	go -C bench/hub/download run . -sparse 8192
//
// hubtest serves one file of random bytes from a process of its own. The
// clients take turns, each in a fresh process with an empty cache. Ours checks
// SHA-256 (and, over Xet, the Xet hash) before the file gets its name. The
// others check at most the size, so a second figure adds the time that
// sha256 takes over their file. -python names an interpreter with
// huggingface_hub and hf_xet, -node a folder in which @huggingface/hub is
// installed; without them these clients are left out. At the end the ratios
// are held against the goals.
//
// -limited puts a link of -link MB/s and a round trip of -rtt between our
// client and a server that gives each connection -conn MB/s, and prints the
// share of the link that is used. -sparse downloads a file of so many MiB that
// is nearly all zeros and prints what our client has resident.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	gomlx "github.com/gomlx/go-huggingface/hub"
	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet"
	"github.com/hfcompress/compress/hub/xet/xettest"
	"github.com/wzshiming/xet/client"
)

const (
	repo = "org/big"
	file = "model.safetensors"
	// xetHash is our client where the Xet hash suffices.
	xetHash = "ours-xethash xet"
)

// job is what a child process is told, and what the server says of itself.
type job struct {
	Role     string
	Endpoint string
	Dir      string // what to serve, or the cache
	Size     int64
	SHA256   string
	Xet      string // Xet hash
	Token    xet.Token
	Proxy    string // through which to go, or none
}

func main() {
	log.SetFlags(0)
	size := flag.Int64("size", 1024, "MiB of random content")
	runs := flag.Int("runs", 3, "runs of each client")
	dir := flag.String("dir", "", "where to write (default: a temporary folder)")
	python := flag.String("python", "", "interpreter with huggingface_hub and hf_xet")
	node := flag.String("node", "", "folder in which @huggingface/hub is installed")
	only := flag.String("only", "", "clients to run, as in \"ours http,gomlx http\" (default: all)")
	limited := flag.Bool("limited", false, "measure a server that limits each connection")
	var net link
	flag.Float64Var(&net.conn, "conn", 20, "MB/s of each connection, for -limited")
	flag.Float64Var(&net.all, "link", 160, "MB/s of all connections, for -limited")
	flag.DurationVar(&net.rtt, "rtt", 50*time.Millisecond, "round trip, for -limited")
	sparse := flag.Int64("sparse", 0, "MiB of a sparse file, for the memory it takes")
	child := flag.String("child", "", "internal: what a child process does")
	flag.Parse()
	if *child != "" {
		var j job
		err := json.Unmarshal([]byte(*child), &j)
		if err == nil {
			err = j.run()
		}
		if err != nil {
			log.Fatal(j.Role, ": ", err)
		}
		return
	}
	tmp, err := os.MkdirTemp(*dir, "hub-bench")
	if err != nil {
		log.Fatal(err)
	}
	b := bench{tmp: tmp, size: *size << 20, random: *size << 20, runs: *runs, python: *python, node: *node}
	switch {
	case *limited:
		err = b.limited(net)
	case *sparse > 0:
		b.size, b.random, b.runs = *sparse<<20, min(*sparse<<20, 64<<20), 1
		err = b.compare([]string{"ours http", "ours xet"})
	case *only != "":
		err = b.compare(strings.Split(*only, ","))
	default:
		err = b.compare(b.roles())
	}
	if err := errors.Join(err, os.RemoveAll(tmp)); err != nil {
		log.Fatal(err)
	}
}

// run is a server or one of the clients in Go.
func (j job) run() error {
	ctx := context.Background()
	switch j.Role {
	case "serve":
		return j.serve()
	case "ours http", "ours xet", xetHash:
		o := hub.Options{Endpoint: j.Endpoint, CacheDir: j.Dir, DisableXet: j.Role == "ours http", XetHashSuffices: j.Role == xetHash,
			Progress: hub.ObserverFunc(func(e hub.Event) {
				if e.Kind == hub.FellBack {
					log.Fatal("fell back: ", e.Err)
				}
			})}
		if j.Proxy != "" {
			u, err := url.Parse(j.Proxy)
			if err != nil {
				return err
			}
			o.Proxy = func(*http.Request) (*url.URL, error) { return u, nil }
		}
		c, err := hub.New(o)
		if err == nil {
			_, err = c.Download(ctx, hub.ModelRepo(repo), "main", file)
		}
		return err
	case "gomlx http":
		r := gomlx.New(repo).WithEndpoint(j.Endpoint).WithCacheDir(j.Dir).WithProgressBar(false)
		r.Verbosity = 0
		_, err := r.DownloadFile(file)
		return err
	case "xetc xet":
		// It knows no Hub: hash and token are given, 16 transfers as ours.
		h, err := xet.ParseHash(j.Xet)
		if err != nil {
			return err
		}
		c, err := client.NewClient(client.WithBaseURL(j.Token.CAS), client.WithToken(j.Token.Access), client.WithNamespace("default"),
			client.WithConcurrency(16), client.WithCacheDir(filepath.Join(j.Dir, "chunks")))
		if err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(j.Dir, file))
		if err != nil {
			return err
		}
		return errors.Join(c.DownloadFile(ctx, [32]byte(h), out), out.Close())
	}
	return fmt.Errorf("no role %q", j.Role)
}

// serve runs until standard input ends.
func (j job) serve() error {
	s, err := hubtest.New(hubtest.Options{FS: os.DirFS(j.Dir), Xet: &xettest.Options{}})
	if err != nil {
		return err
	}
	defer s.Close()
	e := s.Entries("", repo, "main")[0]
	b, err := json.Marshal(job{Endpoint: s.URL(), Size: e.Size, SHA256: e.SHA256, Xet: e.XetHash, Token: s.Xet().Issue()})
	if err != nil {
		return err
	}
	fmt.Println(string(b))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// bench is what to measure, and where.
type bench struct {
	tmp          string
	size, random int64 // bytes of the file, and how many of them are not zero
	runs         int
	python, node string
}

// roles is all clients that can be run here.
func (b bench) roles() []string {
	roles := []string{"ours http", "gomlx http", "ours xet", xetHash, "xetc xet"}
	if b.python != "" {
		roles = append(roles, "python http", "python xet")
	}
	if b.node != "" {
		roles = append(roles, "javascript http", "javascript xet")
	}
	return roles
}

// serve starts the server with the file.
func (b bench) serve() (j job, stop func(), err error) {
	served := filepath.Join(b.tmp, "served")
	if err := content(filepath.Join(served, repo, "main", file), b.random, b.size); err != nil {
		return j, nil, err
	}
	return job{Role: "serve", Dir: served}.start()
}

func (b bench) compare(roles []string) error {
	j, stop, err := b.serve()
	if err != nil {
		return err
	}
	defer stop()
	order := slices.Clone(roles)
	found := results{}
	for range b.runs {
		for _, role := range order {
			j.Role, j.Dir = role, filepath.Join(b.tmp, "cache")
			r, err := j.measure(b.python, b.node)
			if err != nil {
				return fmt.Errorf("%s: %w", role, err)
			}
			found[role] = append(found[role], r)
			fmt.Printf("%-16s %7.3f s  cpu %6.3f s  rss %4d MiB  sha256 alone %.3f s\n", role, r.wall, r.cpu, r.rss>>10, r.check)
		}
		order = append(order[1:], order[0]) // nobody is always first
	}
	found.print(roles, b.size)
	return nil
}

// content writes random bytes, the same in every run, and makes the file so
// long.
func content(path string, random, size int64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{1}), random)
	return errors.Join(err, f.Truncate(size), f.Close())
}

// command is the process of a role: this program again, or another client.
func (j job) command(python, node string) (*exec.Cmd, error) {
	var c *exec.Cmd
	name, road, _ := strings.Cut(j.Role, " ")
	switch name {
	case "python":
		c = exec.Command(python, "peers.py", repo, file, j.Dir)
		c.Env = append(os.Environ(), "HF_ENDPOINT="+j.Endpoint, "HF_HOME="+filepath.Join(j.Dir, "home"), "HF_HUB_DISABLE_PROGRESS_BARS=1",
			"HF_HUB_DISABLE_TELEMETRY=1", "DO_NOT_TRACK=1")
		if road == "http" {
			c.Env = append(c.Env, "HF_HUB_DISABLE_XET=1")
		}
	case "javascript":
		c = exec.Command("node", "peers.mjs", node, j.Endpoint, repo, file, j.Dir, road)
	default:
		b, err := json.Marshal(j)
		if err != nil {
			return nil, err
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		c = exec.Command(self, "-child", string(b))
	}
	c.Stderr = os.Stderr
	return c, nil
}

// start runs the server and returns what it serves.
func (j job) start() (serving job, stop func(), err error) {
	c, err := j.command("", "")
	if err != nil {
		return j, nil, err
	}
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return j, nil, err
	}
	if err := c.Start(); err != nil {
		return j, nil, err
	}
	stop = func() { _ = in.Close(); _ = c.Wait() }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &serving)
	}
	if err != nil {
		stop()
	}
	return serving, stop, err
}

type result struct {
	wall, cpu, check float64 // seconds
	rss              int64   // KiB
}

// measure runs a client with an empty cache, looks for its file there, and
// compares its digest.
func (j job) measure(python, node string) (r result, err error) {
	if err := os.MkdirAll(j.Dir, 0o755); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(j.Dir)) }()
	c, err := j.command(python, node)
	if err != nil {
		return r, err
	}
	begin := time.Now()
	if err := c.Run(); err != nil {
		return r, err
	}
	r.wall = time.Since(begin).Seconds()
	r.cpu = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	if u, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.rss = u.Maxrss
	}
	path, err := find(j.Dir)
	if err != nil {
		return r, err
	}
	begin = time.Now()
	f, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return r, err
	}
	r.check = time.Since(begin).Seconds()
	if got := hex.EncodeToString(h.Sum(nil)); got != j.SHA256 {
		err = fmt.Errorf("%s has the digest %s, expected %s", path, got, j.SHA256)
	}
	return r, err
}

// find looks for the downloaded file under its name.
func find(dir string) (path string, err error) {
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == file && !d.IsDir() {
			path = p
		}
		return err
	})
	if err == nil && path == "" {
		err = errors.New("no file was downloaded")
	}
	return path, err
}
