package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/pack"
)

func (a *app) inspectCommand() *cobra.Command {
	f := &compressFlags{}
	var tensors bool
	cmd := &cobra.Command{
		Use:   "inspect REPO|PATH|hf://NS/NAME[@REV][/PATH]",
		Short: "Show what a checkpoint or package holds, and what could be saved",
		Args:  exactly(1, "a repository, a directory, a safetensors file, an archive or a package"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.HasPrefix(args[0], uriScheme) && (cmd.Flags().Changed("revision") || cmd.Flags().Changed("file")) {
				return usagef("an %s address says revision and file itself", uriScheme)
			}
			return a.inspect(cmd.Context(), args[0], f, tensors)
		},
	}
	cmd.Flags().StringVar(&f.revision, "revision", "main", "branch, tag, refs/pr/N or commit")
	cmd.Flags().StringVar(&f.file, "file", "", "safetensors file or index, where there are several")
	cmd.Flags().StringVar(&f.arch, "arch", "", "registered architecture (default: found by config.json)")
	addArchFileFlag(cmd, f)
	cmd.Flags().BoolVar(&tensors, "tensors", false, "list every tensor")
	addHubFlags(cmd, &f.hub)
	addOutputFlags(cmd, &f.json, &f.quiet)
	return cmd
}

func (a *app) inspect(ctx context.Context, what string, f *compressFlags, tensors bool) error {
	isRepo := false
	var err error
	if strings.HasPrefix(what, uriScheme) {
		var revision string
		if what, revision, f.file, err = modelAddress(what); err != nil {
			return err
		}
		isRepo, f.revision = true, cmp.Or(revision, f.revision)
	} else if isRepo, err = compress.RepoOrPath(what); err != nil {
		return err
	}
	if !isRepo && compress.IsPackage(what) {
		return a.inspectPackage(what, f.json, tensors)
	}
	f.contract = "token_indices_only"
	o, err := a.options(f)
	if err != nil {
		return err
	}
	var found *compress.Inspection
	if isRepo {
		show := a.progress(f.quiet)
		o.Observe = show.observe
		found, err = compress.InspectHub(ctx, what, o)
		show.stop()
	} else {
		found, err = compress.InspectLocal(what, o)
	}
	if err != nil {
		return err
	}
	if f.json {
		return a.printJSON(found)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if found.Repo != "" {
		fmt.Fprintf(w, "source\t%s @ %s, commit %s\n", found.Repo, found.Revision, found.Commit)
	}
	fmt.Fprintf(w, "path\t%s\n", found.Path)
	for _, file := range found.Files {
		fmt.Fprintf(w, "file\t%s, %s bytes\n", file.Name, count(file.Size))
	}
	fmt.Fprintf(w, "tensors\t%d with %s values in %s bytes\n", found.Tensors, count(found.Values), count(found.Bytes))
	for _, name := range slices.Sorted(maps.Keys(found.DTypes)) {
		fmt.Fprintf(w, "\t%s: %d tensors, %s bytes\n", name, found.DTypes[name].Tensors, count(found.DTypes[name].Bytes))
	}
	if found.Architecture != "" {
		fmt.Fprintf(w, "architecture\t%s\n", found.Architecture)
	}
	for _, p := range found.Plans {
		fmt.Fprintf(w, "block\t%s: %s\n", p.Path, p.Arithmetic)
		if p.Refusal != "" {
			fmt.Fprintf(w, "\trefused: %s\n", p.Refusal)
		}
	}
	if found.Problem != "" {
		fmt.Fprintf(w, "problem\t%s\n", found.Problem)
	}
	if tensors {
		for _, t := range found.Stored {
			fmt.Fprintf(w, "tensor\t%s\t%s%v\t%s\n", t.Name, t.DType, t.Shape, t.File)
		}
	}
	return w.Flush()
}

func (a *app) inspectPackage(dir string, asJSON, tensors bool) error {
	p, err := pack.Open(dir, pack.Limits{})
	if err != nil {
		return err
	}
	defer p.Close()
	m := p.Manifest()
	if asJSON {
		return a.printJSON(m)
	}
	since, err := p.Validations()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "package\t%s, every byte checked\n", dir)
	fmt.Fprintf(w, "status\t%s\n", m.Status)
	if m.Source.Repo != "" {
		fmt.Fprintf(w, "source\t%s @ %s, commit %s\n", m.Source.Repo, m.Source.Revision, m.Source.Commit)
	}
	fmt.Fprintf(w, "architecture\t%s\n", m.Architecture)
	fmt.Fprintf(w, "compared\ton %s (%s), %d examples, gate %s: accepted %s, bitwise equal %s\n",
		m.Device.Name, m.Device.Fingerprint, m.Gate.Examples, m.Gate.Require, yes(m.Gate.Accepted), yes(m.Gate.Bitwise))
	for _, v := range since {
		fmt.Fprintf(w, "\ton %s (%s) later, with the %s outputs of %d examples, gate %s: accepted yes, bitwise equal %s\n",
			v.Device.Name, v.Device.Fingerprint, map[string]string{"recorded": "recorded", "source": "source's"}[v.Against], v.Examples, v.Require, yes(v.Bitwise))
	}
	for _, b := range m.Blocks {
		fmt.Fprintf(w, "block\t%s rewritten\n", b.Path)
	}
	raw, err := m.RawBytes()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "weights\t%d tensors, %s bytes stored as %s bytes (%s)\n", len(m.Tensors), count(raw), count(m.Weights.Size), m.Weights.Codec)
	if tensors {
		for _, t := range m.Tensors {
			fmt.Fprintf(w, "tensor\t%s\t%v%v\t%s bytes stored\n", t.Name, t.DType, t.Shape, count(t.Length))
		}
	}
	return w.Flush()
}
