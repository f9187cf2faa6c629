package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/pack/archive"
)

func (a *app) unpackCommand() *cobra.Command {
	f := &packFlags{}
	cmd := &cobra.Command{
		Use:   "unpack ARCHIVE [-o DIR]",
		Short: "Give back the files of an archive, each compared with its SHA-256",
		Long: `unpack writes the files of an archive to a directory. Each is compared with the
SHA-256 of the original before any of them gets its name; on a failure nothing is
left behind. Existing files are refused without --overwrite.`,
		Args: exactly(1, "an archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.unpack(cmd.Context(), args[0], f)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.out, "output", "o", "", "directory (default: the archive's name without its extension)")
	fs.BoolVar(&f.overwrite, "overwrite", false, "replace existing files")
	addArchiveFlags(cmd, f)
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "no progress on standard error")
	return cmd
}

// addArchiveFlags adds what all commands that read archives share.
func addArchiveFlags(cmd *cobra.Command, f *packFlags) {
	cmd.Flags().StringArrayVar(&f.bases, "base", nil, "archive that this one was made against; again for the base of that")
	cmd.Flags().IntVar(&f.workers, "workers", 0, "threads (default: all processors)")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object on standard output")
}

// existing tells how to replace what is in the way.
func existing(err error, overwrite bool) error {
	if errors.Is(err, archive.ErrExists) && !overwrite {
		return fmt.Errorf("%w: --overwrite replaces it", err)
	}
	return err
}

func (a *app) unpack(ctx context.Context, path string, f *packFlags) error {
	c, err := a.openArchive(path, f.bases, f.workers)
	if err != nil {
		return err
	}
	defer c.Close()
	dir := f.out
	if dir == "" {
		base := filepath.Base(path)
		if dir = strings.TrimSuffix(base, filepath.Ext(base)); dir == base || dir == "" {
			return usagef("%s has no extension to leave off: name the directory with -o", base)
		}
	}
	show := a.progress(f.quiet)
	start := time.Now()
	err = c.Unpack(ctx, dir, archive.UnpackOptions{Overwrite: f.overwrite, Workers: f.workers, Progress: func(file string, done, total int64) {
		show.observe(compress.Event{Stage: stageUnpack, Item: file, Done: done, Total: total, Unit: "bytes"})
	}})
	show.stop()
	if err != nil {
		return existing(err, f.overwrite)
	}
	files, total := c.Files(), int64(0)
	for _, file := range files {
		total += file.Size
	}
	took := time.Since(start)
	if f.json {
		return a.printJSON(struct {
			Dir     string  `json:"dir"`
			Files   int     `json:"files"`
			Bytes   int64   `json:"bytes"`
			Seconds float64 `json:"seconds"`
		}{dir, len(files), total, took.Seconds()})
	}
	_, err = fmt.Fprintf(a.stdout, "unpacked %s, %s bytes, to %s in %s; every SHA-256 is that of the original\n",
		things(len(files), "file"), count(total), dir, took.Round(time.Millisecond))
	return err
}
