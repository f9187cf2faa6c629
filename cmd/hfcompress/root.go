package main

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/hub"
)

// compressFlags are the flags of the main command and of demo.
type compressFlags struct {
	repo, revision, file, arch string
	archFile                   string
	local                      string
	out                        string
	overwrite                  bool
	storage                    compress.StorageOptions
	reachable                  string
	timesteps, labels          string
	device                     string
	threads                    int
	profiles                   string
	contract                   string
	validation                 string
	nearTies, margins          string
	require                    string
	strict                     bool
	hub                        hubFlags
	json                       bool
	quiet                      bool
}

// hubFlags are the flags about the Hub and its cache.
type hubFlags struct {
	endpoint, cacheDir, token string
	offline                   bool
	force, share              bool // of download alone
}

func (a *app) rootCommand() *cobra.Command {
	f := &compressFlags{}
	root := &cobra.Command{
		Use:   "hfcompress --repo ORG/NAME [--revision REV]",
		Short: "Make a Hugging Face model smaller without changing what it computes, and prove it",
		Long: `hfcompress takes a model at a pinned revision, replaces what can only take
finitely many values by tables, compares the complete outputs of both models on
many examples, rolls back whatever differs, and writes a package that gives the
same bits when it is loaded again.

Exit status: 0 a package was written and passed its gate (status compressed,
no_reduction or rolled_back), 1 an error, 2 wrong usage, 3 with --strict when
nothing was gained or it was rolled back.`,
		Example: `  hfcompress demo
  hfcompress --repo org/model --revision main --out model.hfc
  hfcompress verify model.hfc`,
		Args:          noArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.repo == "" && f.local == "" {
				if cmd.Flags().NFlag() > 0 {
					return usagef("--repo or --local is missing")
				}
				return cmd.Help()
			}
			if f.repo != "" && f.local != "" {
				return usagef("--repo and --local exclude each other")
			}
			if f.repo != "" {
				if _, err := hub.ParseRepo(f.repo); err != nil {
					return usagef("--repo %q: %w", shorten(f.repo, 100), err)
				}
			}
			return a.compress(cmd.Context(), f)
		},
	}
	root.Flags().StringVar(&f.repo, "repo", "", "model repository, ORG/NAME")
	root.Flags().StringVar(&f.local, "local", "", "a directory or archive with config.json and safetensors files, instead of --repo")
	root.Flags().StringVar(&f.revision, "revision", "main", "branch, tag, refs/pr/N or commit")
	addCompressFlags(root, f)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(a.demoCommand(), a.inspectCommand(), a.planCommand(), a.runCommand(), a.verifyCommand(), a.devicesCommand(), a.versionCommand())
	root.AddCommand(a.packCommand(), a.unpackCommand(), a.lsCommand(), a.catCommand())
	root.AddCommand(a.downloadCommand())
	root.AddCommand(a.cacheCommand())
	return root
}

func addCompressFlags(cmd *cobra.Command, f *compressFlags) {
	fs := cmd.Flags()
	fs.StringVar(&f.out, "out", "", "directory of the package (default: a name made from repository and commit)")
	fs.BoolVar(&f.overwrite, "overwrite", false, "replace an existing package")
	fs.StringVar(&f.arch, "arch", "", "registered architecture (default: found by config.json)")
	addArchFileFlag(cmd, f)
	fs.StringVar(&f.file, "file", "", "safetensors file or index, where there are several")
	fs.StringVar(&f.device, "device", "cpu", "cpu, cpu:split-k, gpu, gpu:N, gpu:API or auto; see hfcompress devices")
	fs.IntVar(&f.threads, "threads", 0, "threads of the device (default: all processors)")
	fs.StringVar(&f.profiles, "profiles", "auto", "row-count profiles: auto, none, or a JSON file")
	fs.StringVar(&f.contract, "contract", "token_indices_only", "how the model's blocks may be called")
	fs.StringVar(&f.reachable, "reachable-ids", "", "promise that no other token ids occur: ids and ranges such as 0-31,50, or a JSON file with a list")
	fs.StringVar(&f.timesteps, "timesteps", "", "promise that a diffusion model is given no other timesteps: numbers such as 0,20,40, or a JSON file with a list")
	fs.StringVar(&f.labels, "labels", "", "promise that it is given no other class labels: labels and ranges such as 0-9,1000, or a JSON file with a list")
	fs.StringVar(&f.validation, "validation", "", "file with examples of your own, JSON or safetensors")
	fs.StringVar(&f.nearTies, "near-ties", "", "file that keeps the inputs with narrow decisions: read if it exists, else written")
	fs.StringVar(&f.margins, "margins", "report", "decisions that a table's error leaves open: report, or reject the block")
	fs.BoolVar(&f.storage.KeepEqual, "keep-equal", false, "hold equal tensors, and equal rows of tables, as often as they occur")
	fs.BoolVar(&f.storage.PackTables, "pack-tables", false, "keep tables that are only gathered from compressed in memory too; smaller and slower")
	fs.StringVar(&f.require, "require", "", "gate: bitwise or tolerance (default: bitwise where the device keeps its bits)")
	fs.BoolVar(&f.strict, "strict", false, "exit with 3 when nothing was gained or it was rolled back")
	addHubFlags(cmd, &f.hub)
	addOutputFlags(cmd, &f.json, &f.quiet)
}

func addArchFileFlag(cmd *cobra.Command, f *compressFlags) {
	cmd.Flags().StringVar(&f.archFile, "arch-file", "", "architecture file that says what the model computes, instead of a registered one")
}

func addHubFlags(cmd *cobra.Command, f *hubFlags) {
	fs := cmd.Flags()
	fs.BoolVar(&f.offline, "offline", false, "use the cache alone, no network (also HF_HUB_OFFLINE)")
	fs.StringVar(&f.endpoint, "endpoint", "", "address of the Hub (also HF_ENDPOINT)")
	fs.StringVar(&f.cacheDir, "cache-dir", "", "Hub cache (also HF_HUB_CACHE, HF_HOME)")
	fs.StringVar(&f.token, "token", "", "access token (better: HF_TOKEN, or the token file)")
}

func addOutputFlags(cmd *cobra.Command, json, quiet *bool) {
	cmd.Flags().BoolVar(json, "json", false, "one JSON object on standard output")
	cmd.Flags().BoolVarP(quiet, "quiet", "q", false, "no progress on standard error")
}

// hubOptions merges the environment with flags, which win.
func (a *app) hubOptions(f hubFlags) (hub.Options, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	env, err := hub.OptionsFromEnv(a.getenv, home)
	if err != nil {
		return hub.Options{}, err
	}
	for _, w := range env.Warnings {
		a.warn(w)
	}
	o := env.Options
	o.Endpoint = cmp.Or(f.endpoint, o.Endpoint)
	o.CacheDir = cmp.Or(f.cacheDir, o.CacheDir)
	o.Token = cmp.Or(f.token, o.Token)
	o.Offline = o.Offline || f.offline
	o.Force, o.PublishShared = f.force, f.share
	o.UserAgent = "hfcompress/" + version()
	if u, err := url.Parse(o.Endpoint); o.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return o, usagef("the Hub's address %q is not one of http or https", o.Endpoint)
	}
	return o, nil
}

// options turns flags into options.
func (a *app) options(f *compressFlags) (compress.Options, error) {
	o := compress.Options{
		Revision: f.revision, File: f.file, Architecture: f.arch,
		Device: f.device, Threads: f.threads, Contract: f.contract,
		Require: compress.Require(f.require), ValidationFile: f.validation,
		Out: f.out, Overwrite: f.overwrite, Storage: f.storage, ArchFile: f.archFile, NearTiesFile: f.nearTies,
	}
	if f.arch != "" && f.archFile != "" {
		return o, usagef("--arch and --arch-file exclude each other")
	}
	if f.margins != "" && f.margins != "report" {
		o.Margins = compress.MarginRule(f.margins)
	}
	if f.contract == "" {
		return o, usagef("--contract is empty; the only one is token_indices_only")
	}
	switch f.profiles {
	case "auto", "":
		o.ProfileMode = finitepass.ProfilesAuto
	case "none":
		o.ProfileMode = finitepass.ProfilesNone
	default:
		text, err := readSmall(f.profiles)
		if err != nil {
			return o, fmt.Errorf("--profiles: %w", err)
		}
		if o.Profiles, err = finitepass.ParseProfiles(text); err != nil {
			return o, fmt.Errorf("%s: %w", f.profiles, err)
		}
		o.ProfileMode = finitepass.ProfilesExplicit
	}
	var err error
	if o.ReachableIDs, err = idList(f.reachable); err != nil {
		return o, err
	}
	if o.Timesteps, err = timestepList(f.timesteps); err != nil {
		return o, err
	}
	if o.Labels, err = labelList(f.labels); err != nil {
		return o, err
	}
	o.Hub, err = a.hubOptions(f.hub)
	return o, err
}

// readSmall reads a settings file.
func readSmall(name string) ([]byte, error) {
	const limit = 16 << 20
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, usagef("%s has %d bytes, the limit is %d", name, info.Size(), limit)
	}
	return os.ReadFile(name)
}

// defaultOut names a package after its source.
func defaultOut(name string) string {
	return strings.Trim(filepath.Base(strings.ReplaceAll(name, "/", "--")), ".") + ".hfc"
}

// version is the module's version as the Go tool recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
