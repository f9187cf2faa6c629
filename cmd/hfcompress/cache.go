package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/hub"
)

func (a *app) cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, clean and check the Hub's cache",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cacheListCommand(), a.cacheRemoveCommand(), a.cachePruneCommand(), a.cacheVerifyCommand())
	return cmd
}

// cacheDirFlag is the one flag about the Hub that commands without network
// have.
func cacheDirFlag(cmd *cobra.Command, f *hubFlags) {
	cmd.Flags().StringVar(&f.cacheDir, "cache-dir", "", "Hub cache (also HF_HUB_CACHE, HF_HOME)")
}

// scanCache describes the cache that flags and environment name.
func (a *app) scanCache(f hubFlags) (*hub.CacheInfo, error) {
	o, err := a.hubOptions(f)
	if err != nil {
		return nil, err
	}
	return hub.ScanCache(o.CacheDir)
}

// deleteFlags are those of rm and prune.
type deleteFlags struct {
	hub         hubFlags
	yes, dryRun bool
	json        bool
}

func addDeleteFlags(cmd *cobra.Command, f *deleteFlags) {
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be deleted")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object on standard output")
	cacheDirFlag(cmd, &f.hub)
}

func (a *app) cacheRemoveCommand() *cobra.Command {
	f := &deleteFlags{}
	cmd := &cobra.Command{
		Use:   "rm TARGET…",
		Short: "Delete repositories, revisions or files from the cache",
		Long: `rm deletes from the cache. A target is a repository ([model/|dataset/|space/]NS/NAME
or hf://…), a commit hash of 40 digits, or a file (hf://NS/NAME[@COMMIT]/PATH). Content
goes with the last revision that uses it. What a download holds is left. Exit status 1
when a target is not in the cache or something could not be deleted.`,
		Example: `  hfcompress cache rm org/model --dry-run
  hfcompress cache rm 0123456789abcdef0123456789abcdef01234567 -y
  hfcompress cache rm hf://org/model/model.safetensors`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%q takes at least one target", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var targets []hub.CacheTarget
			for _, arg := range args {
				t, err := parseTarget(arg)
				if err != nil {
					return err
				}
				targets = append(targets, t)
			}
			info, err := a.scanCache(f.hub)
			if err != nil {
				return err
			}
			p := info.PlanDelete(targets...)
			if len(p.NotFound) > 0 {
				// It may be there and damaged.
				for _, w := range info.Warnings {
					a.warn(w.String())
				}
			}
			return a.delete(cmd.Context(), cmd.InOrStdin(), p, f, true)
		},
	}
	addDeleteFlags(cmd, f)
	return cmd
}

// parseTarget reads what rm shall delete.
func parseTarget(text string) (hub.CacheTarget, error) {
	if lower := strings.ToLower(text); hub.IsCommit(lower) {
		return hub.CacheTarget{Commit: hub.Commit(lower)}, nil
	}
	if !strings.HasPrefix(text, uriScheme) {
		r, err := parseRepoArg(text, "")
		return hub.CacheTarget{Repo: r}, err
	}
	u, err := parseURI(text)
	if err != nil {
		return hub.CacheTarget{}, err
	}
	if u.revision != "" && !hub.IsCommit(u.revision) {
		return hub.CacheTarget{}, usagef("%q: name a commit by its hash; a branch moves on", text)
	}
	if strings.HasSuffix(u.path, "/") {
		return hub.CacheTarget{}, usagef("%q: a directory cannot be deleted", text)
	}
	return hub.CacheTarget{Repo: u.repo, Commit: hub.Commit(u.revision), File: u.path}, nil
}

func (a *app) cachePruneCommand() *cobra.Command {
	f := &deleteFlags{}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete what nothing in the cache refers to",
		Long: `prune deletes revisions to which no branch or tag leads, partial downloads that nobody
works on, blobs that no revision uses, and payloads of the shared store whose manifest
proves that nothing refers to them. Partial downloads of this program would be resumed
by the next download. A revision that changed within the last minute is left: it may
be a download's.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := a.scanCache(f.hub)
			if err != nil {
				return err
			}
			for _, w := range info.Warnings {
				a.warn(w.String())
			}
			return a.delete(cmd.Context(), cmd.InOrStdin(), info.PlanPrune(), f, false)
		},
	}
	addDeleteFlags(cmd, f)
	return cmd
}

// deletionSummary is the JSON object of rm and prune.
type deletionSummary struct {
	DryRun   bool          `json:"dry_run"`
	Items    []deletedItem `json:"items"`
	Bytes    int64         `json:"bytes"`
	Kept     []deletedItem `json:"kept"`
	NotFound []string      `json:"not_found"`
}

type deletedItem struct {
	Kind     hub.DeleteKind `json:"kind"`
	Repo     string         `json:"repo,omitempty"`
	RepoType hub.RepoType   `json:"repo_type,omitempty"`
	Commit   hub.Commit     `json:"commit,omitempty"`
	Refs     []string       `json:"refs,omitempty"`
	File     string         `json:"file,omitempty"`
	Path     string         `json:"path"`
	Bytes    int64          `json:"bytes"`
	Reason   string         `json:"reason,omitempty"`
}

func itemOf(it hub.DeleteItem) deletedItem {
	return deletedItem{it.Kind, it.Repo.ID, it.Repo.Type, it.Commit, it.Refs, it.File, it.Path, it.Size, ""}
}

// delete shows a plan, asks, and carries it out. strict makes what is in use
// a failure: for rm it was named, for prune it is only not yet garbage.
func (a *app) delete(ctx context.Context, in io.Reader, p *hub.DeletePlan, f *deleteFlags, strict bool) error {
	s := deletionSummary{DryRun: f.dryRun, Items: []deletedItem{}, Kept: []deletedItem{}, NotFound: []string{}, Bytes: p.Size}
	for _, t := range p.NotFound {
		s.NotFound = append(s.NotFound, t.String())
		a.warn(t.String() + " is not in the cache")
	}
	items := p.Items
	failed := len(p.NotFound) > 0
	if !f.dryRun && len(p.Items) > 0 {
		if !f.yes {
			a.printItems(a.stderr, p.Items)
			if err := a.confirm(in, fmt.Sprintf("Delete %s?", compress.BytesText(p.Size))); err != nil {
				return err
			}
		}
		done, err := p.Delete(ctx)
		if err != nil {
			return err
		}
		items, s.Bytes = done.Items, done.Freed
		for _, k := range done.Kept {
			it := itemOf(k.DeleteItem)
			it.Reason = oneLine(k.Reason)
			s.Kept = append(s.Kept, it)
			a.warn(fmt.Sprintf("%s stays: %s", k.Path, it.Reason))
			failed = failed || strict || !errors.Is(k.Reason, hub.ErrInUse)
		}
	}
	for _, it := range items {
		s.Items = append(s.Items, itemOf(it))
	}
	if err := a.printDeletion(s, items, f.json); err != nil {
		return err
	}
	if failed {
		return statusError(exitError)
	}
	return nil
}

func (a *app) printDeletion(s deletionSummary, items []hub.DeleteItem, asJSON bool) error {
	if asJSON {
		return a.printJSON(s)
	}
	a.printItems(a.stdout, items)
	verb := "deleted"
	if s.DryRun {
		verb = "would delete"
	}
	if len(items) == 0 {
		fmt.Fprintln(a.stdout, "nothing to delete")
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s, %s\n", verb, plural(len(items), "item"), compress.BytesText(s.Bytes))
	return err
}

func (a *app) printItems(w io.Writer, items []hub.DeleteItem) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, it := range items {
		what := it.Path
		switch it.Kind {
		case hub.DeleteRepo:
			what = cacheID(it.Repo)
		case hub.DeleteRevision:
			what = cacheID(it.Repo) + "@" + string(it.Commit) + " (" + orDetached(it.Refs) + ")"
		case hub.DeleteFile:
			what = cacheID(it.Repo) + "@" + string(it.Commit) + "/" + it.File
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", it.Kind, compress.BytesText(it.Size), what)
	}
	_ = tw.Flush()
}

func orDetached(refs []string) string {
	if len(refs) == 0 {
		return "detached"
	}
	return strings.Join(refs, " ")
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// confirm asks for a yes.
func (a *app) confirm(in io.Reader, question string) error {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(in, 1024)).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed, nothing was deleted; --yes answers in advance")
}

// verifyFlags are those of cache verify.
type verifyFlags struct {
	repoType, revision, localDir string
	failMissing, failExtra       bool
	hub                          hubFlags
	json, quiet                  bool
}

func (a *app) cacheVerifyCommand() *cobra.Command {
	f := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify REPO|hf://…",
		Short: "Check the content of cached files",
		Long: `verify reads every file of a cached revision and compares its digest with the Hub's
listing of the commit; offline with the cached listing, or else with the name of its
blob. Exit status 1 when a file has another content.`,
		Args: exactly(1, "a repository"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := repoTypeFlag(f.repoType); err != nil {
				return err
			}
			if f.localDir != "" && f.hub.cacheDir != "" {
				return usagef("--local-dir and --cache-dir exclude each other")
			}
			var r hub.Repo
			var err error
			if strings.HasPrefix(args[0], uriScheme) {
				u, err := parseURI(args[0])
				if err != nil {
					return err
				}
				if u.path != "" || f.repoType != "" || u.revision != "" && f.revision != "" {
					return usagef("%q: give a repository, and revision and type once", args[0])
				}
				if r = u.repo; u.revision != "" {
					f.revision = u.revision
				}
			} else if r, err = parseRepoArg(args[0], f.repoType); err != nil {
				return err
			}
			return a.cacheVerify(cmd.Context(), r, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.repoType, "repo-type", "", "model, dataset, space or kernel (also --type; default: model)")
	fs.SetNormalizeFunc(typeAlias)
	fs.StringVar(&f.revision, "revision", "", "branch, tag, refs/pr/N or commit (default: the cached main, or the only commit)")
	fs.StringVar(&f.localDir, "local-dir", "", "directory of plain files to check, in place of the cache")
	fs.BoolVar(&f.failMissing, "fail-on-missing-files", false, "fail when files of the repository are not there")
	fs.BoolVar(&f.failExtra, "fail-on-extra-files", false, "fail when files are there that the repository lacks")
	addHubFlags(cmd, &f.hub)
	addOutputFlags(cmd, &f.json, &f.quiet)
	return cmd
}

// verification is the JSON object of cache verify.
type verification struct {
	Repo       string         `json:"repo"`
	RepoType   hub.RepoType   `json:"repo_type"`
	Commit     hub.Commit     `json:"commit"`
	Path       string         `json:"path"`
	Verified   bool           `json:"verified"`
	Checked    int            `json:"checked"`
	Bytes      int64          `json:"bytes"`
	Mismatches []fileMismatch `json:"mismatches"`
	Missing    []string       `json:"missing"`
	Extra      []string       `json:"extra"`
	Unlisted   bool           `json:"unlisted"`
	Unknown    []string       `json:"unknown"`
}

type fileMismatch struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm,omitempty"`
	Expected  string `json:"expected"`
	Actual    string `json:"actual,omitempty"`
	Problem   string `json:"problem,omitempty"`
}

func (a *app) cacheVerify(ctx context.Context, r hub.Repo, f *verifyFlags) error {
	show := a.progress(f.quiet)
	c, err := a.hubClient(f.hub, show, stageVerify)
	if err != nil {
		show.stop()
		return err
	}
	defer c.CloseIdle()
	v, err := c.Verify(ctx, r, f.revision, hub.VerifyOptions{LocalDir: f.localDir})
	show.stop()
	if err != nil {
		return err
	}
	out := verification{Repo: r.ID, RepoType: r.Type, Commit: v.Commit, Path: v.Dir, Checked: v.Checked, Bytes: v.Bytes,
		Mismatches: []fileMismatch{}, Missing: list(v.Missing), Extra: list(v.Extra), Unlisted: v.Unlisted, Unknown: list(v.Unknown)}
	for _, m := range v.Mismatches {
		out.Mismatches = append(out.Mismatches, fileMismatch{m.Path, m.Algorithm, m.Expected, m.Actual, m.Problem})
	}
	// Without a listing nobody knows what is missing or too much.
	out.Verified = v.OK() && !(f.failMissing && (len(v.Missing) > 0 || v.Unlisted)) && !(f.failExtra && (len(v.Extra) > 0 || v.Unlisted))
	if f.json {
		err = a.printJSON(out)
	} else {
		err = a.printVerification(out, f)
	}
	if err == nil && !out.Verified {
		return statusError(exitError)
	}
	return err
}

// list is never null in JSON.
func list(names []string) []string { return append([]string{}, names...) }

func (a *app) printVerification(v verification, f *verifyFlags) error {
	tw := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "path\t%s\n", v.Path)
	fmt.Fprintf(tw, "checked\t%s, %s\n", plural(v.Checked, "file"), compress.BytesText(v.Bytes))
	for _, m := range v.Mismatches {
		if m.Problem != "" {
			fmt.Fprintf(tw, "different\t%s: %s\n", m.Name, m.Problem)
		} else {
			fmt.Fprintf(tw, "different\t%s: %s is %s, expected %s\n", m.Name, m.Algorithm, m.Actual, m.Expected)
		}
	}
	if v.Unlisted {
		fmt.Fprintf(tw, "listing\tnone: compared with the names of the blobs; missing files cannot be known\n")
	}
	names := func(title string, names []string, all bool) {
		if !all && len(names) > 0 {
			fmt.Fprintf(tw, "%s\t%s\n", title, plural(len(names), "file"))
			return
		}
		for _, name := range names {
			fmt.Fprintf(tw, "%s\t%s\n", title, name)
		}
	}
	names("missing", v.Missing, f.failMissing)
	names("extra", v.Extra, f.failExtra)
	names("unknown", v.Unknown, true)
	verdict := "verified"
	if !v.Verified {
		verdict = "NOT verified"
	}
	fmt.Fprintf(tw, "verdict\t%s\n", verdict)
	return tw.Flush()
}

// stamp is a time in tables; zero is a dash.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.Format("2006-01-02 15:04")
}
