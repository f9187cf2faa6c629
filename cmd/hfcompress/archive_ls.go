package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/tensor"
)

func (a *app) lsCommand() *cobra.Command {
	f := &packFlags{}
	var tensors bool
	cmd := &cobra.Command{
		Use:   "ls ARCHIVE",
		Short: "List the files of an archive, or its tensors",
		Args:  exactly(1, "an archive"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.ls(args[0], tensors, f.json)
		},
	}
	cmd.Flags().BoolVar(&tensors, "tensors", false, "list tensors")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object on standard output")
	return cmd
}

type listedFile struct {
	Name    string `json:"name"`
	Mode    string `json:"mode"`
	Size    int64  `json:"size"`
	Stored  int64  `json:"stored"`
	Tensors int    `json:"tensors"`
	SHA256  string `json:"sha256"`
}

type listedTensor struct {
	Name   string       `json:"name"`
	File   string       `json:"file"`
	DType  tensor.DType `json:"dtype"`
	Shape  tensor.Shape `json:"shape"`
	Size   int64        `json:"size"`
	Stored int64        `json:"stored"`
	Method string       `json:"method"`
	SHA256 string       `json:"sha256"`
}

func (a *app) ls(path string, tensors, asJSON bool) error {
	r, err := archive.Open(path, archive.ReadOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	if asJSON {
		list := struct {
			Archive string         `json:"archive"`
			Digest  string         `json:"digest"`
			Base    string         `json:"base,omitempty"`
			Bytes   int64          `json:"bytes"`
			Files   []listedFile   `json:"files"`
			Tensors []listedTensor `json:"tensors,omitempty"`
		}{Archive: path, Digest: r.Digest().String(), Bytes: r.Size(), Files: []listedFile{}}
		if base, ok := r.Base(); ok {
			list.Base = base.String()
		}
		for _, f := range r.Files() {
			list.Files = append(list.Files, listedFile{f.Name, f.Mode.String(), f.Size, f.Stored, f.Tensors, f.SHA256.String()})
		}
		if tensors {
			for _, t := range r.Tensors() {
				list.Tensors = append(list.Tensors, listedTensor{t.Name, t.File, t.DType, t.Shape, t.Size, t.Stored, t.Method, t.SHA256.String()})
			}
		}
		return a.printJSON(list)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if tensors {
		for _, t := range r.Tensors() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%v%v\t  %s\n", count(t.Size), count(t.Stored), percent(t.Stored, t.Size), t.Method, t.DType, t.Shape, printable(t.Name))
		}
		return w.Flush()
	}
	total := int64(0)
	for _, f := range r.Files() {
		fmt.Fprintf(w, "%v\t%s\t%s\t%s\t  %s\n", f.Mode, count(f.Size), count(f.Stored), percent(f.Stored, f.Size), printable(f.Name))
		total += f.Size
	}
	fmt.Fprintf(w, "\t%s\t%s\t%s\t  in all\n", count(total), count(r.Size()), percent(r.Size(), total))
	if err := w.Flush(); err != nil {
		return err
	}
	if base, ok := r.Base(); ok {
		_, err = fmt.Fprintf(a.stdout, "made against the archive %v\n", base)
	}
	return err
}

// printable quotes a name that could disturb a terminal.
func printable(name string) string {
	if quoted := fmt.Sprintf("%q", name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

func (a *app) catCommand() *cobra.Command {
	f := &packFlags{}
	cmd := &cobra.Command{
		Use:   "cat ARCHIVE NAME",
		Short: "Write the bytes of one file or tensor of an archive to standard output",
		Long: `cat writes the bytes of a file of an archive to standard output, or those of a
tensor where no file has the name. Where files hold different tensors of one
name, it is given as FILE:TENSOR.`,
		Args: exactly(2, "an archive and a name"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.cat(args[0], args[1], f)
		},
	}
	cmd.Flags().StringArrayVar(&f.bases, "base", nil, "archive that this one was made against; again for the base of that")
	cmd.Flags().IntVar(&f.workers, "workers", 0, "threads (default: all processors)")
	return cmd
}

func (a *app) cat(path, name string, f *packFlags) error {
	c, err := a.openArchive(path, f.bases, f.workers)
	if err != nil {
		return err
	}
	defer c.Close()
	var in io.Reader
	var want archive.Digest
	file, err := c.OpenFile(name)
	switch {
	case err == nil:
		in = file
		for _, f := range c.Files() {
			if f.Name == name {
				want = f.SHA256
			}
		}
	case errors.Is(err, fs.ErrNotExist):
		t, err := c.Lookup(name)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has no file and no tensor %s", path, printable(name))
		}
		if err != nil {
			return err
		}
		if in, err = c.TensorReader(name); err != nil {
			return err
		}
		want = t.SHA256
	default:
		return err
	}
	// Large reads are decoded in parallel; the plain types keep io.Copy from
	// choosing smaller ones.
	sum := sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(a.stdout, sum), struct{ io.Reader }{in}, make([]byte, 4<<20)); err != nil {
		return err
	}
	if got := archive.Digest(sum.Sum(nil)); got != want {
		return fmt.Errorf("%s: %s: %w: SHA-256 is %v, stored is %v", path, printable(name), archive.ErrCorrupt, got, want)
	}
	return nil
}
