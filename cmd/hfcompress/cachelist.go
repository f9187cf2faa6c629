package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/hub"
)

// listFlags are those of cache ls.
type listFlags struct {
	revisions bool
	filters   []string
	sort      string
	limit     int
	hub       hubFlags
	json      bool
}

func (a *app) cacheListCommand() *cobra.Command {
	f := &listFlags{}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List what the cache holds",
		Long: `ls lists the repositories of the cache, or with --revisions their revisions. A filter
is KEY OP VALUE: size with B, kB, MB, GB or TB (as in size>1GB), accessed and modified
with s, m, h, d, w, mo or y (accessed>7d: longer than seven days ago), type and refs with
= alone (type=dataset, refs=main). Several filters must all hold. The operators are
= != > < >= <=.`,
		Example: `  hfcompress cache ls --filter 'size>1GB' --sort size
  hfcompress cache ls --revisions --filter 'accessed>3mo'`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.cacheList(f, time.Now()) },
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.revisions, "revisions", false, "list revisions in place of repositories")
	fs.StringArrayVar(&f.filters, "filter", nil, "list only what this holds for; may be repeated")
	fs.StringVar(&f.sort, "sort", "name", "name, size, accessed or modified; with :asc or :desc")
	fs.IntVar(&f.limit, "limit", 0, "list at most so many, after sorting")
	fs.BoolVar(&f.json, "json", false, "one JSON object on standard output")
	cacheDirFlag(cmd, &f.hub)
	return cmd
}

// cacheRow is one line of ls: a repository or a revision.
type cacheRow struct {
	Repo         string       `json:"repo"`
	RepoType     hub.RepoType `json:"repo_type"`
	Commit       hub.Commit   `json:"commit,omitempty"`
	Refs         []string     `json:"refs"`
	Path         string       `json:"path"`
	Size         int64        `json:"size"`
	Files        int          `json:"files"`
	Revisions    int          `json:"revisions,omitempty"`
	LastAccessed time.Time    `json:"last_accessed"` // the repository's
	LastModified time.Time    `json:"last_modified"`
}

func (r cacheRow) id() string { return string(r.RepoType) + "/" + r.Repo }

// cacheListing is the JSON object of ls.
type cacheListing struct {
	CacheDir   string         `json:"cache_dir"`
	Size       int64          `json:"size"` // of the whole cache
	Entries    []cacheRow     `json:"entries"`
	Warnings   []cacheWarning `json:"warnings"`
	Incomplete cacheSum       `json:"incomplete"`
	Unused     cacheSum       `json:"unused"`
}

type cacheWarning struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// cacheSum counts files.
type cacheSum struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

func sumOf(files ...hub.CacheFile) cacheSum {
	s := cacheSum{Files: len(files)}
	for _, f := range files {
		s.Bytes += f.Size
	}
	return s
}

func (a *app) cacheList(f *listFlags, now time.Time) error {
	var filters []func(cacheRow) bool
	for _, text := range f.filters {
		filter, err := parseFilter(text, now)
		if err != nil {
			return err
		}
		filters = append(filters, filter)
	}
	order, err := parseSort(f.sort)
	if err != nil {
		return err
	}
	if f.limit < 0 {
		return usagef("--limit must not be negative")
	}
	info, err := a.scanCache(f.hub)
	if err != nil {
		return err
	}
	rows := cacheRows(info, f.revisions)
	rows = slices.DeleteFunc(rows, func(r cacheRow) bool {
		return slices.ContainsFunc(filters, func(holds func(cacheRow) bool) bool { return !holds(r) })
	})
	slices.SortStableFunc(rows, order)
	if f.limit > 0 && len(rows) > f.limit {
		rows = rows[:f.limit]
	}
	l := cacheListing{CacheDir: info.Dir, Size: info.SizeOnDisk, Entries: rows, Warnings: []cacheWarning{},
		Incomplete: sumOf(info.Incomplete...), Unused: sumOf(slices.Concat(info.Unused, info.UnusedShared)...)}
	for _, w := range info.Warnings {
		l.Warnings = append(l.Warnings, cacheWarning{w.Path, w.Reason})
	}
	if f.json {
		return a.printJSON(l)
	}
	return a.printListing(l, f.revisions)
}

func cacheRows(info *hub.CacheInfo, revisions bool) []cacheRow {
	rows := []cacheRow{}
	for _, r := range info.Repos {
		row := cacheRow{Repo: r.Repo.ID, RepoType: r.Repo.Type, LastAccessed: r.LastAccessed}
		if !revisions {
			row.Refs, row.Path, row.Size, row.Files, row.Revisions, row.LastModified = list(r.Refs()), r.Dir, r.SizeOnDisk, r.Files, len(r.Revisions), r.LastModified
			rows = append(rows, row)
			continue
		}
		for _, v := range r.Revisions {
			row.Commit, row.Refs, row.Path, row.Size, row.Files, row.LastModified = v.Commit, list(v.Refs), v.Dir, v.SizeOnDisk, len(v.Files), v.LastModified
			rows = append(rows, row)
		}
	}
	return rows
}

func (a *app) printListing(l cacheListing, revisions bool) error {
	tw := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if revisions {
		fmt.Fprintln(tw, "ID\tREVISION\tSIZE\tMODIFIED\tREFS")
	} else {
		fmt.Fprintln(tw, "ID\tSIZE\tACCESSED\tMODIFIED\tREFS")
	}
	for _, r := range l.Entries {
		if revisions {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", r.id(), r.Commit, compress.BytesText(r.Size), stamp(r.LastModified), strings.Join(r.Refs, " "))
		} else {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", r.id(), compress.BytesText(r.Size), stamp(r.LastAccessed), stamp(r.LastModified), strings.Join(r.Refs, " "))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	what := plural(len(l.Entries), "revision")
	if !revisions {
		if what = fmt.Sprintf("%d repositories", len(l.Entries)); len(l.Entries) == 1 {
			what = "1 repository"
		}
	}
	fmt.Fprintf(a.stdout, "%s listed; the cache at %s has %s\n", what, l.CacheDir, compress.BytesText(l.Size))
	for _, w := range l.Warnings {
		a.warn(w.Path + ": " + w.Reason)
	}
	if n := l.Incomplete.Files + l.Unused.Files; n > 0 {
		fmt.Fprintf(a.stdout, "%s of partial downloads and unused content, %s: see hfcompress cache prune\n", plural(n, "file"), compress.BytesText(l.Incomplete.Bytes+l.Unused.Bytes))
	}
	return nil
}

var filterForm = regexp.MustCompile(`^\s*([A-Za-z]+)\s*(!=|>=|<=|==|=|>|<)\s*(.+?)\s*$`)

// parseFilter reads KEY OP VALUE.
func parseFilter(text string, now time.Time) (func(cacheRow) bool, error) {
	m := filterForm.FindStringSubmatch(text)
	if m == nil {
		return nil, usagef("--filter %q is not KEY OP VALUE, such as size>1GB", text)
	}
	key, op, value := strings.ToLower(m[1]), m[2], m[3]
	if op == "==" {
		op = "="
	}
	if (key == "type" || key == "refs") && op != "=" {
		return nil, usagef("--filter %q: %s can only be compared by =", text, key)
	}
	switch key {
	case "size":
		want, err := parseSize(value)
		return func(r cacheRow) bool { return holds(op, float64(r.Size), want) }, err
	case "accessed", "modified":
		want, err := parseAge(value)
		return func(r cacheRow) bool {
			at := r.LastModified
			if key == "accessed" {
				at = r.LastAccessed
			}
			return holds(op, now.Sub(at).Seconds(), want)
		}, err
	case "type":
		return func(r cacheRow) bool { return strings.EqualFold(string(r.RepoType), value) }, nil
	case "refs":
		return func(r cacheRow) bool {
			return slices.ContainsFunc(r.Refs, func(ref string) bool { return strings.EqualFold(ref, value) })
		}, nil
	}
	return nil, usagef("--filter %q: the keys are size, accessed, modified, type and refs", text)
}

func holds(op string, a, b float64) bool {
	switch op {
	case "=":
		return a == b
	case "!=":
		return a != b
	case ">":
		return a > b
	case "<":
		return a < b
	case ">=":
		return a >= b
	}
	return a <= b
}

// parseNumber splits a value into a number that is not negative and its unit.
func parseNumber(text string) (n float64, unit string, ok bool) {
	i := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		i = len(text)
	}
	n, err := strconv.ParseFloat(text[:i], 64)
	return n, strings.TrimSpace(text[i:]), err == nil
}

// parseSize reads bytes with decimal units, in any case.
func parseSize(text string) (float64, error) {
	n, unit, ok := parseNumber(text)
	power := 0
	switch strings.TrimSuffix(strings.ToUpper(unit), "B") {
	case "":
	case "K":
		power = 1
	case "M":
		power = 2
	case "G":
		power = 3
	case "T":
		power = 4
	default:
		ok = false
	}
	if !ok {
		return 0, usagef("%q is no size, such as 500MB", text)
	}
	for range power {
		n *= 1000
	}
	return n, nil
}

// parseAge reads a time span in seconds.
func parseAge(text string) (float64, error) {
	const day = 24 * 60 * 60
	units := map[string]float64{"s": 1, "m": 60, "h": 60 * 60, "d": day, "w": 7 * day, "mo": 30 * day, "y": 365 * day}
	n, unit, ok := parseNumber(text)
	if units[strings.ToLower(unit)] == 0 || !ok {
		return 0, usagef("%q is no time span, such as 7d", text)
	}
	return n * units[strings.ToLower(unit)], nil
}

// parseSort reads KEY or KEY:asc or KEY:desc. Names go up by default, the
// rest down: the largest and latest first.
func parseSort(text string) (func(a, b cacheRow) int, error) {
	key, order, given := strings.Cut(strings.ToLower(text), ":")
	keys := map[string]func(a, b cacheRow) int{
		"name":     func(a, b cacheRow) int { return cmp.Compare(strings.ToLower(a.id()), strings.ToLower(b.id())) },
		"size":     func(a, b cacheRow) int { return cmp.Compare(a.Size, b.Size) },
		"accessed": func(a, b cacheRow) int { return a.LastAccessed.Compare(b.LastAccessed) },
		"modified": func(a, b cacheRow) int { return a.LastModified.Compare(b.LastModified) },
	}
	by := keys[key]
	if by == nil || given && order != "asc" && order != "desc" {
		return nil, usagef("--sort is %q; it is name, size, accessed or modified, with :asc or :desc", text)
	}
	if order == "desc" || !given && key != "name" {
		return func(a, b cacheRow) int { return by(b, a) }, nil
	}
	return by, nil
}
