package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/pack"
)

func (a *app) verifyCommand() *cobra.Command {
	f := &compressFlags{}
	var against string
	var bases []string
	cmd := &cobra.Command{
		Use:   "verify PACKAGE|ARCHIVE [--against REPO@REVISION|PATH]",
		Short: "Check every byte of a package, and what it computes",
		Long: `verify opens a package, which checks the digest of every file and tensor, runs
all its examples on this machine and compares the outputs, by digest, with those
that were recorded when it was validated. With --against it also runs the source
model and compares complete outputs. Exit status 1 when something differs.

On a device of other bits than the one of the validation, the outputs have other
bytes, and the source must be given. Where all holds there, that is recorded in
the package's directory, and the package counts as validated on that device too.

Of an archive, it decodes everything and compares all checksums and digests.`,
		Args: exactly(1, "a package or an archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// A package is a directory: a file is meant to be an archive.
			info, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			if !info.IsDir() {
				if against != "" {
					return usagef("--against is for packages; an archive has the digests of its sources")
				}
				return a.verifyArchive(cmd.Context(), args[0], bases, f)
			}
			return a.verify(cmd.Context(), args[0], against, f)
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "source to compare with: ORG/NAME@REVISION, a directory or an archive")
	cmd.Flags().StringVar(&f.file, "file", "", "safetensors file or index of the source, where there are several")
	cmd.Flags().StringVar(&f.device, "device", "", "device to run on (default: the one of the validation)")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads of the device (default: all processors)")
	cmd.Flags().StringArrayVar(&bases, "base", nil, "of an archive: the one that it was made against; again for the base of that")
	addHubFlags(cmd, &f.hub)
	addOutputFlags(cmd, &f.json, &f.quiet)
	return cmd
}

func (a *app) verify(ctx context.Context, dir, against string, f *compressFlags) error {
	o := compress.VerifyOptions{LoadOptions: compress.LoadOptions{Device: f.device, Threads: f.threads}}
	show := a.progress(f.quiet)
	o.Source = compress.Options{File: f.file, Threads: f.threads, Observe: show.observe}
	if against != "" {
		if err := a.setAgainst(&o, against, f.hub); err != nil {
			show.stop()
			return err
		}
	}
	report, err := compress.Verify(ctx, dir, o)
	show.stop()
	if err != nil {
		return err
	}
	if err := a.printVerify(report, f.json); err != nil {
		return err
	}
	if !report.Verified {
		return statusError(exitError)
	}
	return nil
}

// setAgainst reads REPO@REVISION or a path.
func (a *app) setAgainst(o *compress.VerifyOptions, against string, f hubFlags) error {
	repo, revision, pinned := strings.Cut(against, "@")
	isRepo, err := compress.RepoOrPath(repo)
	if err != nil {
		return err
	}
	if !isRepo {
		o.AgainstDir = against
		return nil
	}
	if !pinned {
		revision = "main"
	}
	o.AgainstRepo, o.AgainstRevision = repo, revision
	o.Source.Hub, err = a.hubOptions(f)
	return err
}

func (a *app) printVerify(r *compress.VerifyReport, asJSON bool) error {
	if asJSON {
		return a.printJSON(r)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "package\t%s (%s)\n", r.Dir, r.Status)
	fmt.Fprintf(w, "bytes\tevery file and all %d tensors have their recorded digests\n", r.Check.Tensors)
	for _, name := range r.Check.Unlisted {
		fmt.Fprintf(w, "\t%s is not part of the package\n", name)
	}
	where := "the device of a validation, or one with the same bits"
	if !r.Check.Validated {
		where = "not a device of a validation"
	}
	fmt.Fprintf(w, "device\t%s (%s): %s\n", r.Check.Device.Name, r.Check.Device.Fingerprint, where)
	fmt.Fprintf(w, "outputs\t%s of %s outputs of %d examples have the recorded bytes\n",
		count(int64(r.Check.Outputs-len(r.Check.Different))), count(int64(r.Check.Outputs)), r.Check.Examples)
	for i, d := range r.Check.Different {
		if i == 3 {
			fmt.Fprintf(w, "\tand %d more\n", len(r.Check.Different)-i)
			break
		}
		fmt.Fprintf(w, "\tdifferent: output %s of example %q\n", d.Output, d.Example)
	}
	if g := r.Against; g != nil {
		fmt.Fprintf(w, "source\t%s outputs of %d examples compared with the source: accepted %s, bitwise equal %s\n",
			count(int64(g.Outputs)), g.Compared, yes(g.Accepted), yes(g.Bitwise))
		if g.FirstFailure != nil {
			f := g.FirstFailure
			where := "example " + strconv.Quote(f.Example)
			if f.Output != "" { // else the outputs as a whole are not the source's
				where = "output " + f.Output + " of " + where
			}
			fmt.Fprintf(w, "\tfailed: %s: %s\n", where, f.Reason)
		}
	}
	verdict := "verified"
	switch {
	case !r.Verified && !r.Check.Validated && r.Against == nil:
		verdict = "not verified here: this device computes other bits; compare with the source by --against"
	case !r.Verified:
		verdict = "NOT verified"
	}
	if r.Recorded {
		fmt.Fprintf(w, "recorded\tvalidated on this device from now on, in %s\n", pack.ValidationsName)
	} else if r.NotRecorded != "" {
		fmt.Fprintf(w, "recorded\tno: %s\n", r.NotRecorded)
	}
	fmt.Fprintf(w, "verdict\t%s\n", verdict)
	return w.Flush()
}
