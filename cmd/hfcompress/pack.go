package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/pack/floatcodec"
)

// packFlags are the settings of the command pack.
type packFlags struct {
	out, level  string
	bases       []string
	overwrite   bool
	workers     int
	compare     string
	html        string
	sampleMB    int
	json, quiet bool
}

func (a *app) packCommand() *cobra.Command {
	f := &packFlags{}
	cmd := &cobra.Command{
		Use:   "pack SRC… -o ARCHIVE",
		Short: "Put files and directories into a smaller archive that gives them back bit for bit",
		Long: `pack writes an archive of files and whole directories: names and permissions are
kept, content that occurs twice is stored once, and links of the Hub's cache are
followed. With --base, tensors that also are in another archive are stored as
differences from it; that archive is then needed to unpack. -o - writes the
archive to standard output. Directories without files are not kept.

With --compare FILE nothing is written but a table, and with --html a page, that
hold the levels against reference methods on the tensors of one file.`,
		Example: `  hfcompress pack model/ -o model.hfa
  hfcompress pack tuned/ -o tuned.hfa --base model.hfa
  hfcompress pack --compare model.safetensors --html compare.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.compare != "" {
				if len(args) > 0 || f.out != "" || len(f.bases) > 0 {
					return usagef("--compare FILE looks at one file and packs nothing")
				}
				return a.compare(cmd.Context(), f)
			}
			switch {
			case f.html != "":
				return usagef("--html goes with --compare FILE")
			case f.workers < 0:
				return usagef("--workers must not be negative")
			case f.out == "-" && f.json:
				return usagef("-o - and --json both write to standard output")
			case len(args) == 0:
				return usagef("nothing to pack: give files or directories")
			}
			return a.pack(cmd.Context(), args, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.out, "output", "o", "", "the archive to write, - for standard output (default: named after the only source)")
	fs.StringVar(&f.level, "level", "fast", "fast, dense or max")
	fs.StringArrayVar(&f.bases, "base", nil, "archive to store differences from; again for the base of that")
	fs.BoolVar(&f.overwrite, "overwrite", false, "replace an existing archive")
	fs.IntVar(&f.workers, "workers", 0, "threads (default: all processors)")
	fs.StringVar(&f.compare, "compare", "", "compare methods on the tensors of this safetensors file")
	fs.StringVar(&f.html, "html", "", "with --compare: write a page with pictures")
	fs.IntVar(&f.sampleMB, "sample", 16, "with --compare: most MB of tensors to look at")
	addOutputFlags(cmd, &f.json, &f.quiet)
	return cmd
}

// packed is the JSON object of pack.
type packed struct {
	Archive string `json:"archive"`
	archive.Stats
	Digest  string  `json:"digest"`
	Seconds float64 `json:"seconds"`
}

func (a *app) pack(ctx context.Context, sources []string, f *packFlags) error {
	level, err := floatcodec.ParseLevel(f.level)
	if err != nil {
		return usageError{err}
	}
	out := f.out
	if out == "" {
		if len(sources) > 1 {
			return usagef("several sources: name the archive with -o")
		}
		absolute, err := filepath.Abs(sources[0])
		if err != nil {
			return err
		}
		out = filepath.Base(absolute) + ".hfa"
	}
	o := archive.PackOptions{Overwrite: f.overwrite}
	o.Level, o.Workers = level, f.workers
	if len(f.bases) > 0 {
		base, err := a.openArchive(f.bases[0], f.bases[1:], f.workers)
		if err != nil {
			return err
		}
		defer base.Close()
		o.Base = base.Reader
	}
	files, err := archive.Sources(sources...)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, s := range files {
		if info, err := os.Stat(s.Path); err == nil {
			total += info.Size()
		}
	}
	held := len(files)
	if o.Base != nil {
		held += known(o.Base)
	}
	a.boundMemory(f.workers, held)
	show := a.progress(f.quiet)
	before, current := int64(0), ""
	var last int64
	o.Progress = func(file string, done, _ int64) {
		if file != current {
			before, current = before+last, file
		}
		last = done
		show.observe(compress.Event{Stage: compress.StagePack, Item: file, Done: before + done, Total: total, Unit: "bytes"})
	}
	start := time.Now()
	var stats archive.Stats
	said := a.stdout
	if out == "-" {
		if a.outTerminal {
			return usagef("-o -: standard output is a terminal; send it to a file or a program")
		}
		said, out = a.stderr, "standard output"
		stats, err = archive.PackTo(ctx, a.stdout, sources, o.Options)
	} else {
		stats, err = archive.Pack(ctx, out, sources, o)
	}
	show.stop()
	if err != nil {
		return existing(err, f.overwrite)
	}
	took := time.Since(start)
	if said == a.stderr && f.quiet {
		return nil
	}
	if f.json {
		return a.printJSON(packed{out, stats, stats.Digest.String(), took.Seconds()})
	}
	w := tabwriter.NewWriter(said, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "packed\t%s with %s, %s bytes\n", things(stats.Files, "file"), things(stats.Tensors, "tensor"), count(stats.Bytes))
	fmt.Fprintf(w, "archive\t%s, %s bytes (%s)\n", out, count(stats.Stored), percent(stats.Stored, stats.Bytes))
	if stats.Repeated > 0 {
		fmt.Fprintf(w, "\t%s bytes were there already\n", count(stats.Repeated))
	}
	if stats.Deltas > 0 {
		fmt.Fprintf(w, "\t%s bytes are stored as differences from the base\n", count(stats.Deltas))
	}
	if o.Base != nil && !stats.Base {
		fmt.Fprintf(w, "\tnothing in the base was of use: it is not needed to unpack\n")
	}
	if stats.EmptyDirs == 1 {
		fmt.Fprintf(w, "\t1 directory without files is not kept\n")
	} else if stats.EmptyDirs > 1 {
		fmt.Fprintf(w, "\t%s directories without files are not kept\n", count(int64(stats.EmptyDirs)))
	}
	fmt.Fprintf(w, "digest\t%v\n", stats.Digest)
	fmt.Fprintf(w, "took\t%s\n", took.Round(time.Millisecond))
	return w.Flush()
}
