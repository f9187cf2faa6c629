// Command xet measures the Xet download engine.
//
//	go -C bench/hub/xet run . [-size 256] [-runs 5] [-floats]   against xetc, on loopback
//	go -C bench/hub/xet run . -sparse 8192                      memory on a large file
//
// The first starts github.com/wzshiming/xet's server in a process of its own,
// uploads random content (or bfloat16 weights) with its client, and then lets
// three downloaders take turns, each in a fresh process that writes a file:
// ours, which checks the hash; xetc, with an empty cache, which does not; and
// xetc followed by a check of the file's hash. It prints every run, the medians and their ratios. The second serves a file of mostly repeated content
// from this project's test store and prints the peak memory of the download.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	ours "github.com/hfcompress/compress/hub/xet"
	"github.com/hfcompress/compress/hub/xet/xettest"
	"github.com/wzshiming/xet/client"
	"github.com/wzshiming/xet/server"
	"github.com/wzshiming/xet/storage"
)

// job is what a child process is told.
type job struct {
	Role   string // serve, serve-sparse, serve-test, ours, xetc, xetc+check
	Dir    string
	Size   int64
	Token  ours.Token
	Hash   string
	Out    string
	Conns  int
	Floats bool
}

func main() {
	log.SetFlags(0)
	size := flag.Int64("size", 256, "MiB of random content")
	runs := flag.Int("runs", 5, "runs of each downloader")
	sparse := flag.Int64("sparse", 0, "MiB of mostly repeated content; measures memory only")
	child := flag.String("child", "", "internal: what a child process does")
	floats := flag.Bool("floats", false, "bfloat16 weights in place of random bytes")
	dir := flag.String("dir", "", "where to write (default: a temporary folder)")
	flag.Parse()
	if *child != "" {
		var j job
		if err := json.Unmarshal([]byte(*child), &j); err != nil {
			log.Fatal(err)
		}
		if err := j.run(); err != nil {
			log.Fatal(j.Role, ": ", err)
		}
		return
	}
	tmp, err := os.MkdirTemp(*dir, "xet-bench")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	if *sparse > 0 {
		err = measureMemory(tmp, *sparse<<20)
	} else {
		err = compare(tmp, *size<<20, *runs, *floats)
	}
	if err != nil {
		log.Print(err)
	}
}

// random is content that cannot be packed and repeats nowhere.
func random(n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), n)
}

// weights is normally distributed numbers as bfloat16, little-endian.
func weights(n int64) io.Reader {
	rng := rand.New(rand.NewChaCha8([32]byte{2}))
	b := make([]byte, n)
	for i := 0; i+2 <= len(b); i += 2 {
		binary.LittleEndian.PutUint16(b[i:], uint16(math.Float32bits(float32(rng.NormFloat64()*0.02))>>16))
	}
	return bytes.NewReader(b)
}

// repeated is mostly zeros and repetitions: 64 MiB that are new, then 448 MiB
// that are not, and so on.
func repeated(n int64) io.Reader {
	var parts []io.Reader
	for at := int64(0); at < n; at += 512 << 20 {
		parts = append(parts, io.LimitReader(rand.NewChaCha8([32]byte{byte(at >> 29)}), 64<<20), io.LimitReader(zero{}, 448<<20))
	}
	return io.LimitReader(io.MultiReader(parts...), n)
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func (j job) run() error {
	ctx := context.Background()
	switch j.Role {
	case "serve":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		store, err := storage.NewFileStorage(storage.WithBasePath(j.Dir), storage.WithBaseURL("http://"+l.Addr().String()))
		if err != nil {
			return err
		}
		go func() {
			log.Fatal(http.Serve(l, server.NewHandler(server.WithStorage(store))))
		}()
		up, err := client.NewClient(client.WithBaseURL("http://"+l.Addr().String()), client.WithNamespace("default"))
		if err != nil {
			return err
		}
		content := random(j.Size)
		if j.Floats {
			content = weights(j.Size)
		}
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		hash, err := up.UploadFile(ctx, bytes.NewReader(data))
		if err != nil {
			return err
		}
		return j.ready(ours.Token{CAS: "http://" + l.Addr().String()}, hash.String())
	case "serve-sparse", "serve-test":
		s, err := xettest.New(xettest.Options{})
		if err != nil {
			return err
		}
		content := repeated(j.Size)
		if j.Role == "serve-test" {
			content = weights(j.Size)
		}
		f, err := s.Add(content)
		if err != nil {
			return err
		}
		return j.ready(s.Issue(), f.Hash.String())
	}
	out, err := os.Create(j.Out)
	if err != nil {
		return err
	}
	defer out.Close()
	if j.Role != "ours" {
		down, err := client.NewClient(client.WithBaseURL(j.Token.CAS), client.WithNamespace("default"), client.WithConcurrency(j.Conns), client.WithCacheDir(j.Dir))
		if err != nil {
			return err
		}
		h, err := ours.ParseHash(j.Hash)
		if err != nil {
			return err
		}
		err = errors.Join(down.DownloadFile(ctx, [32]byte(h), out), out.Close())
		if err == nil && j.Role == "xetc+check" {
			err = j.check()
		}
		return err
	}
	h, err := ours.ParseHash(j.Hash)
	if err != nil {
		return err
	}
	tokens := ours.NewTokens(func(context.Context, bool) (ours.Token, error) { return j.Token, nil })
	res, err := ours.New(ours.Options{}).Fetch(ctx, ours.Request{Hash: h, Size: j.Size, Tokens: tokens, Out: out})
	if err == nil && !res.Verified {
		err = errors.New("not verified")
	}
	return errors.Join(err, out.Close())
}

// ready tells the parent where to download and serves until stdin ends.
func (j job) ready(t ours.Token, hash string) error {
	b, err := json.Marshal(job{Token: t, Hash: hash, Size: j.Size})
	if err != nil {
		return err
	}
	fmt.Println(string(b))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func (j job) command() (*exec.Cmd, error) {
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "-child", string(b))
	c.Stderr = os.Stderr
	return c, nil
}

// start runs a server and returns what to download from it.
func (j job) start() (download job, stop func(), err error) {
	c, err := j.command()
	if err != nil {
		return j, nil, err
	}
	in, err := c.StdinPipe()
	if err != nil {
		return j, nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return j, nil, err
	}
	if err := c.Start(); err != nil {
		return j, nil, err
	}
	stop = func() { _ = in.Close(); _ = c.Wait() }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &download)
	}
	if err != nil {
		stop()
	}
	return download, stop, err
}

type result struct {
	wall, cpu time.Duration
	rss       int64 // KiB
}

// measure runs a downloader in a process of its own and removes its file.
func (j job) measure() (r result, err error) {
	c, err := j.command()
	if err != nil {
		return r, err
	}
	start := time.Now()
	err = c.Run()
	r.wall = time.Since(start)
	r.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	if u, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.rss = u.Maxrss
	}
	if err == nil {
		err = j.check()
	}
	return r, errors.Join(err, os.Remove(j.Out))
}

// check is outside the time measured.
func (j job) check() error {
	f, err := os.Open(j.Out)
	if err != nil {
		return err
	}
	defer f.Close()
	h, n, err := ours.HashFile(f)
	if err == nil && (h.String() != j.Hash || n != j.Size) {
		err = fmt.Errorf("%s wrote %d bytes with the hash %v, expected %d with %s", j.Role, n, h, j.Size, j.Hash)
	}
	return err
}

func compare(tmp string, size int64, runs int, floats bool) error {
	d, stop, err := job{Role: "serve", Dir: filepath.Join(tmp, "store"), Size: size, Floats: floats}.start()
	if err != nil {
		return err
	}
	defer stop()
	d.Out = filepath.Join(tmp, "out")
	d.Conns = 16 // as many connections as ours
	walls := map[string][]time.Duration{}
	roles := []string{"ours", "xetc", "xetc+check"}
	for range runs {
		for _, role := range roles {
			// xetc keeps what it fetched: a cache of its own for each run.
			d.Role, d.Dir = role, filepath.Join(tmp, "cache")
			r, err := d.measure()
			if err := errors.Join(err, os.RemoveAll(d.Dir)); err != nil {
				return err
			}
			fmt.Printf("%-11s %7.3f s  %6.0f MB/s  cpu %.3f s  rss %d MiB\n", role, r.wall.Seconds(), float64(size)/1e6/r.wall.Seconds(), r.cpu.Seconds(), r.rss>>10)
			walls[role] = append(walls[role], r.wall)
		}
		roles = append(roles[1:], roles[0]) // nobody is always first
	}
	median := func(role string) float64 {
		slices.Sort(walls[role])
		return walls[role][len(walls[role])/2].Seconds()
	}
	a, b, c := median("ours"), median("xetc"), median("xetc+check")
	fmt.Printf("medians: ours %.3f s, xetc %.3f s, xetc+check %.3f s; ours is %.2f and %.2f times as fast\n", a, b, c, b/a, c/a)
	return nil
}

func measureMemory(tmp string, size int64) error {
	d, stop, err := job{Role: "serve-sparse", Size: size}.start()
	if err != nil {
		return err
	}
	defer stop()
	d.Out, d.Role = filepath.Join(tmp, "out"), "ours"
	r, err := d.measure()
	if err != nil {
		return err
	}
	fmt.Printf("%d MiB in %.1f s, cpu %.1f s, rss %d MiB\n", size>>20, r.wall.Seconds(), r.cpu.Seconds(), r.rss>>10)
	return nil
}
