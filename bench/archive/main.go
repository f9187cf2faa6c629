// Command archive measures package archive on files: sizes and speeds of whole
// files, and sizes of differences between related checkpoints.
//
//	archive files FILE...            every level, one worker
//	archive files -level L -rounds N FILE...
//	archive trees DIR...             directories, every level
//	archive deltas BASE NEXT...      against BitX style: XOR, planes, Zstandard
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/pack/floatcodec"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "archive:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: archive files FILE..., or archive deltas BASE NEXT... and nothing else")
	}
	switch args[0] {
	case "files":
		fs := flag.NewFlagSet("files", flag.ContinueOnError)
		level := fs.String("level", "", "one level instead of all")
		rounds := fs.Int("rounds", 0, "rounds instead of five at the fast level and one at the others")
		if err := fs.Parse(args[1:]); err != nil {
			return err
		}
		levels := []floatcodec.Level{floatcodec.Fast, floatcodec.Dense, floatcodec.Max}
		if *level != "" {
			l, err := floatcodec.ParseLevel(*level)
			if err != nil {
				return err
			}
			levels = []floatcodec.Level{l}
		}
		return files(fs.Args(), levels, *rounds)
	case "trees":
		return trees(args[1:])
	case "deltas":
		return deltas(args[1], args[2:])
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// pack makes an archive in memory, with one worker.
func pack(raw []byte, o archive.Options) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(len(raw) + len(raw)/8)
	o.Workers = 1
	w, err := archive.NewWriter(&out, o)
	if err != nil {
		return nil, err
	}
	err = w.AddFile(context.Background(), "f", 0o644, bytes.NewReader(raw), int64(len(raw)))
	err = errors.Join(err, w.Close()) // before the bytes are taken
	return out.Bytes(), err
}

func open(b []byte, base *archive.Reader) (*archive.Reader, error) {
	return archive.NewReader(bytes.NewReader(b), int64(len(b)), archive.ReadOptions{Base: base, Workers: 1})
}

// unpack reads the whole file, a part at a time, and compares it.
func unpack(r *archive.Reader, want []byte) error {
	f, err := r.OpenFile("f")
	if err != nil {
		return err
	}
	b := make([]byte, 1<<20)
	for off := int64(0); ; {
		n, err := f.ReadAt(b, off)
		if !bytes.Equal(b[:n], want[off:off+int64(n)]) {
			return fmt.Errorf("differs after byte %d", off)
		}
		if off += int64(n); err == io.EOF && off == int64(len(want)) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func files(paths []string, levels []floatcodec.Level, fixed int) error {
	fmt.Println("| file | level | bytes | archive | of it | bits per 2 bytes | pack MB/s | read MB/s |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, level := range levels {
			rounds := fixed
			switch {
			case rounds > 0:
			case level == floatcodec.Fast:
				rounds = 5
			default:
				rounds = 1
			}
			var packed []byte
			to, from := time.Hour, time.Hour
			for range rounds {
				start := cpuTime()
				if packed, err = pack(raw, archive.Options{Level: level}); err != nil {
					return err
				}
				to = min(to, cpuTime()-start)
				r, err := open(packed, nil)
				if err != nil {
					return err
				}
				start = cpuTime()
				if err := unpack(r, raw); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				from = min(from, cpuTime()-start)
			}
			share := float64(len(packed)) / float64(len(raw))
			fmt.Printf("| %s | %v | %d | %d | %.2f %% | %.3f | %.0f | %.0f |\n", name(path), level, len(raw), len(packed),
				100*share, 16*share, float64(len(raw))/1e6/to.Seconds(), float64(len(raw))/1e6/from.Seconds())
		}
	}
	return nil
}

// trees packs directories and verifies the archives.
func trees(dirs []string) error {
	fmt.Println("| directory | level | bytes | archive | of it | there already |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, dir := range dirs {
		for level := floatcodec.Fast; level <= floatcodec.Max; level++ {
			if err := tree(dir, level); err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
		}
	}
	return nil
}

func tree(dir string, level floatcodec.Level) error {
	temp, err := os.MkdirTemp("", "archive")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	path := filepath.Join(temp, "x.hfa")
	s, err := archive.Pack(context.Background(), path, []string{dir}, archive.PackOptions{Options: archive.Options{Level: level}})
	if err != nil {
		return err
	}
	r, err := archive.Open(path, archive.ReadOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := r.Verify(context.Background(), nil); err != nil {
		return err
	}
	fmt.Printf("| %s | %v | %d | %d | %.2f %% | %d |\n", dir, level, s.Bytes, s.Stored, 100*float64(s.Stored)/float64(s.Bytes), s.Repeated)
	return nil
}

func name(path string) string { return strings.TrimSuffix(filepath.Base(path), ".safetensors") }

func deltas(basePath string, paths []string) error {
	old, err := os.ReadFile(basePath)
	if err != nil {
		return err
	}
	packed, err := pack(old, archive.Options{})
	if err != nil {
		return err
	}
	base, err := open(packed, nil)
	if err != nil {
		return err
	}
	fmt.Println("| pair | weights | alone | BitX style | fast | smaller | max | smaller |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		alone, err := pack(raw, archive.Options{})
		if err != nil {
			return err
		}
		sizes := map[floatcodec.Level]int{}
		weights, other := 0, 0
		for _, level := range []floatcodec.Level{floatcodec.Fast, floatcodec.Max} {
			packed, err := pack(raw, archive.Options{Level: level, Base: base})
			if err != nil {
				return err
			}
			r, err := open(packed, base)
			if err != nil {
				return err
			}
			if err := unpack(r, raw); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			sizes[level] = len(packed)
			if level == floatcodec.Fast {
				if weights, other, err = bitx(r, base); err != nil {
					return err
				}
			}
		}
		bits := func(n int) float64 { return float64(n) * 8 / float64(weights) }
		smaller := func(n int) float64 { return 100 * (1 - float64(n)/float64(other)) }
		fmt.Printf("| %s | %d | %.3f | %.3f | %.3f | %.1f %% | %.3f | %.1f %% |\n", name(path), weights, bits(len(alone)), bits(other),
			bits(sizes[floatcodec.Fast]), smaller(sizes[floatcodec.Fast]), bits(sizes[floatcodec.Max]), smaller(sizes[floatcodec.Max]))
	}
	return nil
}

// bitx returns the number of weights and what their tensors take as Zstandard of
// the planes of XOR with the base. Names and digests are not counted.
func bitx(next, base *archive.Reader) (weights, size int, err error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return 0, 0, err
	}
	defer e.Close()
	var out []byte
	for _, info := range next.Tensors() {
		a, err := next.Tensor(info.Name)
		if err != nil {
			return 0, 0, err
		}
		b, err := base.Tensor(info.Name)
		if err != nil {
			return 0, 0, err
		}
		x, y, width := a.Bytes(), b.Bytes(), info.DType.Size()
		planes := make([]byte, 0, len(x))
		for p := range width {
			for at := p; at < len(x); at += width {
				planes = append(planes, x[at]^y[at])
			}
		}
		out = e.EncodeAll(planes, out[:0])
		size += len(out)
		weights += len(x) / width
	}
	return weights, size, nil
}
