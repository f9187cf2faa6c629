package main

import (
	"context"
	"fmt"

	compress "github.com/hfcompress/compress"
)

// verifyArchive checks every byte of an archive.
func (a *app) verifyArchive(ctx context.Context, path string, bases []string, f *compressFlags) error {
	c, err := a.openArchive(path, bases, f.threads)
	if err != nil {
		return err
	}
	defer c.Close()
	total := int64(0)
	for _, file := range c.Files() {
		total += file.Size
	}
	show := a.progress(f.quiet)
	done := int64(0)
	report, err := c.Verify(ctx, func(n int) {
		done += int64(n)
		show.observe(compress.Event{Stage: stageVerify, Done: done, Total: total, Unit: "bytes"})
	})
	show.stop()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.json {
		return a.printJSON(struct {
			Archive  string `json:"archive"`
			Digest   string `json:"digest"`
			Files    int    `json:"files"`
			Tensors  int    `json:"tensors"`
			Bytes    int64  `json:"bytes"`
			Stored   int64  `json:"stored"`
			Verified bool   `json:"verified"`
		}{path, c.Digest().String(), report.Files, report.Tensors, report.Bytes, report.Stored, true})
	}
	_, err = fmt.Fprintf(a.stdout, "verified %s: %s with %s, %s bytes from %s; every checksum and SHA-256 holds\n",
		path, things(report.Files, "file"), things(report.Tensors, "tensor"), count(report.Bytes), count(report.Stored))
	return err
}
