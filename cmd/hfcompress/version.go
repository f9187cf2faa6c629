package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/pack"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what this program can read",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.printJSON(struct {
					Version       string   `json:"version"`
					Go            string   `json:"go"`
					Platform      string   `json:"platform"`
					PackageSchema int      `json:"package_schema"`
					Architectures []string `json:"architectures"`
				}{version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, pack.SchemaVersion, architectures.Names()})
			}
			fmt.Fprintf(a.stdout, "hfcompress %s, %s, %s/%s\npackages: schema %d\narchitectures: %s\n",
				version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, pack.SchemaVersion, strings.Join(architectures.Names(), ", "))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}
