package main

import (
	"github.com/spf13/cobra"

	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/internal/demomodel"
)

func (a *app) demoCommand() *cobra.Command {
	f := &compressFlags{repo: demomodel.RepoID}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Do the whole road on a small trained model that this program carries",
		Long: `demo starts a Hub on a loopback address inside this process, which serves a
small trained model from the binary, and then does what
--repo ` + demomodel.RepoID + ` --endpoint ADDRESS
does, over HTTP and through the standard cache. With --offline no Hub is
started and the cache alone is used. A package that an earlier demo wrote at the
same place is replaced.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !f.hub.offline {
				server, err := demoHub()
				if err != nil {
					return err
				}
				defer server.Close()
				f.hub.endpoint = server.URL()
			}
			o, err := a.options(f)
			if err != nil {
				return err
			}
			if o.Out == "" {
				o.Out = "hfcompress-demo"
			}
			o.Overwrite = true
			return a.road(cmd.Context(), f, o)
		},
	}
	cmd.Flags().StringVar(&f.revision, "revision", demomodel.RevisionMain, "main, or sharded for the same weights in several files")
	addCompressFlags(cmd, f)
	for _, hidden := range []string{"endpoint", "file", "arch", "token"} {
		_ = cmd.Flags().MarkHidden(hidden) // they exist
	}
	return cmd
}

// demoHub serves the embedded model.
func demoHub() (*hubtest.Server, error) {
	revisions, err := demomodel.Revisions()
	if err != nil {
		return nil, err
	}
	repo := hubtest.Repo{ID: demomodel.RepoID, Revisions: map[string]hubtest.Files{}}
	for name, files := range revisions {
		repo.Revisions[name] = files
	}
	return hubtest.New(hubtest.Options{Repos: []hubtest.Repo{repo}})
}
