package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/planner"
)

// planFlags are the flags of plan.
type planFlags struct {
	revision, file      string
	archFile            string
	profiles, timesteps int
	hub                 hubFlags
	json, quiet         bool
}

func (a *app) planCommand() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:   "plan REPO|PATH|hf://NS/NAME[@REV][/PATH]",
		Short: "Count what every pass would save, before any weight is read",
		Long: `plan reads config.json and the headers of the safetensors files, by ranges over
the network, and counts for every pass that the model's family is known for how
many bytes it takes away and adds, up to where it pays, and what a caller has to
promise. What would cost more than it saves is refused with the arithmetic; what
rests on equal values is called possible, since headers hold no values. Of a
family that is not known it says only what names and shapes suggest.`,
		Example: `  hfcompress plan facebook/esm2_t6_8M_UR50D
  hfcompress plan Qwen/Qwen-Image --file transformer --timesteps 8
  hfcompress plan ./checkpoint --profiles 2 --json`,
		Args: exactly(1, "a repository, a directory, a safetensors file or an archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.timesteps < 1 && cmd.Flags().Changed("timesteps") {
				return usagef("--timesteps is %d, expected 1 or more", f.timesteps)
			}
			if strings.HasPrefix(args[0], uriScheme) && (cmd.Flags().Changed("revision") || cmd.Flags().Changed("file")) {
				return usagef("an %s address says revision and file itself", uriScheme)
			}
			return a.plan(cmd.Context(), args[0], f)
		},
	}
	cmd.Flags().StringVar(&f.revision, "revision", "main", "branch, tag, refs/pr/N or commit")
	cmd.Flags().StringVar(&f.file, "file", "", "safetensors file, index or folder, where there are several")
	cmd.Flags().StringVar(&f.archFile, "arch-file", "", "architecture file whose blocks are counted")
	cmd.Flags().IntVar(&f.profiles, "profiles", 0, "row-count profiles: each is one more full table")
	cmd.Flags().IntVar(&f.timesteps, "timesteps", 0, "declared timesteps (default: what is usual for the family)")
	addHubFlags(cmd, &f.hub)
	addOutputFlags(cmd, &f.json, &f.quiet)
	return cmd
}

func (a *app) plan(ctx context.Context, what string, f *planFlags) error {
	if f.profiles < 0 {
		return usagef("--profiles is %d, expected 0 or more", f.profiles)
	}
	o := compress.Options{Revision: f.revision, File: f.file, ArchFile: f.archFile}
	var err error
	if o.Hub, err = a.hubOptions(f.hub); err != nil {
		return err
	}
	isRepo := false
	if strings.HasPrefix(what, uriScheme) {
		var revision string
		if what, revision, o.File, err = modelAddress(what); err != nil {
			return err
		}
		isRepo, o.Revision = true, cmp.Or(revision, o.Revision)
	} else if isRepo, err = compress.RepoOrPath(what); err != nil {
		return err
	}
	if !isRepo && compress.IsPackage(what) {
		return fmt.Errorf("%s is a package, in which nothing is left to plan; inspect shows what it holds", what)
	}
	p := planner.Options{Profiles: f.profiles, Timesteps: f.timesteps}
	var found *compress.Planned
	if isRepo {
		found, err = compress.PlanHub(ctx, what, o, p)
	} else {
		found, err = compress.PlanLocal(what, o, p)
	}
	if err != nil {
		return err
	}
	if f.json {
		return a.printJSON(found)
	}
	return writePlan(a.stdout, found)
}

// writePlan writes a plan for people.
func writePlan(out io.Writer, found *compress.Planned) error {
	if found.Repo != "" {
		fmt.Fprintf(out, "source  %s @ %s, commit %s\n", found.Repo, found.Revision, found.Commit)
		fmt.Fprintf(out, "read    %s bytes over the network\n", count(found.Network.BytesReceived))
	} else {
		fmt.Fprintf(out, "path    %s\n", found.Path)
	}
	for i := range found.Checkpoints {
		if err := writeCheckpoint(out, &found.Checkpoints[i]); err != nil {
			return err
		}
	}
	return nil
}

func writeCheckpoint(out io.Writer, p *planner.Plan) error {
	fmt.Fprintln(out)
	if p.Name != "" {
		fmt.Fprintf(out, "folder  %s\n", printable(p.Name))
	}
	family := p.Family
	if family == "" {
		family = "unknown"
	}
	switch p.Architecture {
	case "":
	case declared.Architecture:
		family += ", blocks of the architecture file"
	default:
		family += ", blocks of the registered architecture " + p.Architecture
	}
	fmt.Fprintf(out, "family  %s\n", family)
	fmt.Fprintf(out, "stored  %s bytes: %s values in %s tensors, %s\n", count(p.Stored.Bytes), count(p.Stored.Values), count(int64(p.Tensors)), typeList(p))
	for _, n := range p.Notes {
		fmt.Fprintf(out, "note    %s\n", n)
	}
	if len(p.Passes) > 0 {
		fmt.Fprintln(out)
		if err := writePasses(out, p); err != nil {
			return err
		}
	}
	for _, o := range p.Observations {
		fmt.Fprintf(out, "\n  %s (%s bytes)\n    %s\n", printable(o.Tensors), count(o.Stored.Bytes), o.Says)
	}
	if len(p.Passes) > 0 {
		writeTotals(out, p)
	}
	return nil
}

func writePasses(out io.Writer, p *planner.Plan) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tpass\tbytes before\tafter\tsaved\tshare\tpays up to\tcontract\tverdict\n")
	for i, q := range p.Passes {
		share := "–"
		if q.Verdict != planner.Refused {
			share = fmt.Sprintf("%.2f %%", 100*q.Share)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i+1, q.Title,
			count(q.Before.Bytes), count(q.After.Bytes), count(q.Saved.Bytes), share, paysUpTo(q.BreakEven), cmp.Or(q.Contract, "–"), q.Verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, q := range p.Passes {
		fmt.Fprintf(out, "\n%d  %s\n", i+1, q.Block)
		if q.Arithmetic != "" {
			fmt.Fprintf(out, "   %s\n", q.Arithmetic)
		}
		for _, n := range q.Needs {
			fmt.Fprintf(out, "   needs: %s\n", n)
		}
		if q.Reason != "" {
			fmt.Fprintf(out, "   %s: %s\n", q.Verdict, q.Reason)
		}
	}
	return nil
}

func writeTotals(out io.Writer, p *planner.Plan) {
	fmt.Fprintln(out)
	write := func(t planner.Total, what string) {
		if len(t.Passes) == 0 {
			fmt.Fprintf(out, "total   nothing%s\n", what)
			return
		}
		fmt.Fprintf(out, "total   %s → %s bytes: %s saved (%.2f %%) by %s%s\n",
			count(t.Before), count(t.After), count(t.Saved), 100*t.Share, passList(t.Passes), what)
	}
	write(p.Total, "")
	if !slices.Equal(p.Total.Passes, p.Listed.Passes) {
		write(p.Listed, ", if ids are listed")
	}
	if !slices.Equal(p.Listed.Passes, p.Possible.Passes) {
		write(p.Possible, ", if the bytes are as supposed")
	}
}

// passList names passes by the numbers of the table.
func passList(passes []int) string {
	var words []string
	for _, i := range passes {
		words = append(words, fmt.Sprint(i+1))
	}
	if len(words) == 1 {
		return "pass " + words[0]
	}
	return "passes " + strings.Join(words, ", ")
}

func paysUpTo(b *planner.BreakEven) string {
	if b == nil {
		return "–"
	}
	unit := b.Unit
	if b.Largest == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return count(b.Largest) + " " + unit
}

func typeList(p *planner.Plan) string {
	var names []string
	for name := range p.DTypes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(p.DTypes[b].Bytes, p.DTypes[a].Bytes), strings.Compare(a, b))
	})
	return printable(strings.Join(names, ", "))
}
