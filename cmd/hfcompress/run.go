package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

func (a *app) runCommand() *cobra.Command {
	f := &compressFlags{}
	var ids string
	var generate, top int
	cmd := &cobra.Command{
		Use:   "run PACKAGE --ids 1,2,3 [--generate N]",
		Short: "Run a package on token ids",
		Args:  exactly(1, "a package"),
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt, err := parseIDs(ids)
			if err != nil {
				return err
			}
			if generate < 0 || top < 1 {
				return usagef("--generate must not be negative and --top at least 1, found %d and %d", generate, top)
			}
			return a.runPackage(cmd.Context(), args[0], prompt, generate, top, f)
		},
	}
	cmd.Flags().StringVar(&ids, "ids", "", "token ids, separated by commas")
	cmd.Flags().IntVar(&generate, "generate", 0, "continue greedily by up to N tokens")
	cmd.Flags().IntVar(&top, "top", 5, "without --generate: how many next tokens to show, or values of each output of a model without logits")
	cmd.Flags().StringVar(&f.device, "device", "", "device to run on (default: the one of the validation)")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads of the device (default: all processors)")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object on standard output")
	return cmd
}

func parseIDs(text string) ([]int, error) {
	if text == "" {
		return nil, usagef("--ids is missing: give token ids, such as --ids 1,2,3")
	}
	var ids []int
	for _, field := range strings.Split(text, ",") {
		id, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return nil, usagef("--ids: %q is not a token id", field)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// choice is a next token with its logit.
type choice struct {
	ID    int     `json:"id"`
	Logit float32 `json:"logit"`
}

func (a *app) runPackage(ctx context.Context, dir string, prompt []int, generate, top int, f *compressFlags) error {
	loaded, err := compress.Load(ctx, dir, compress.LoadOptions{Device: f.device, Threads: f.threads})
	if err != nil {
		return err
	}
	defer loaded.Close()
	if !loaded.Validated {
		a.warn("this package was not validated on this device")
	}
	if generate > 0 {
		out, err := loaded.Generate(ctx, [][]int{prompt}, generate)
		if err != nil {
			return err
		}
		if f.json {
			return a.printJSON(struct {
				IDs       []int `json:"ids"`
				New       []int `json:"new"`
				Validated bool  `json:"validated"`
			}{out[0], out[0][len(prompt):], loaded.Validated})
		}
		fmt.Fprintln(a.stdout, idText(out[0]))
		return nil
	}
	out, err := forward(ctx, loaded, prompt)
	if err != nil {
		return err
	}
	if logits := out.Get("logits"); logits == nil || len(logits.Shape()) != 3 {
		return a.printOutputs(out, top, loaded.Validated, f.json)
	}
	choices := nextTokens(out.Get("logits"), top)
	if f.json {
		return a.printJSON(struct {
			Next      []choice `json:"next"`
			Validated bool     `json:"validated"`
		}{choices, loaded.Validated})
	}
	for _, c := range choices {
		fmt.Fprintf(a.stdout, "%6d  %g\n", c.ID, c.Logit)
	}
	return nil
}

// forward runs a model on one sequence.
func forward(ctx context.Context, model architectures.Model, prompt []int) (architectures.Outputs, error) {
	in, err := architectures.TokenInputs(prompt)
	if err != nil {
		return nil, err
	}
	return model.Forward(ctx, in)
}

// nextTokens returns the largest logits [1, length, vocabulary] after the prompt.
func nextTokens(logits *tensor.Tensor, top int) []choice {
	vocabulary := logits.Shape()[2]
	all := architectures.Floats(logits)
	last := all[len(all)-vocabulary:]
	choices := make([]choice, vocabulary)
	for i, v := range last {
		choices[i] = choice{i, v}
	}
	slices.SortStableFunc(choices, func(x, y choice) int { return cmp.Compare(y.Logit, x.Logit) })
	return choices[:min(top, vocabulary)]
}

// shownOutput is an output of a model that predicts no token.
type shownOutput struct {
	Name   string       `json:"name"`
	DType  tensor.DType `json:"dtype"`
	Shape  tensor.Shape `json:"shape"`
	SHA256 string       `json:"sha256"`
	// Values are all of them when they are asked for as JSON, floats alone.
	Values []float32 `json:"values,omitempty"`
}

// printOutputs shows the outputs of a model without logits: the digest of each
// one's bytes, and its first values or, as JSON, all of them.
func (a *app) printOutputs(out architectures.Outputs, top int, validated, asJSON bool) error {
	var shown []shownOutput
	for _, o := range out {
		sum := sha256.Sum256(o.Tensor.Bytes())
		s := shownOutput{Name: o.Name, DType: o.Tensor.DType(), Shape: o.Tensor.Shape(), SHA256: hex.EncodeToString(sum[:])}
		switch s.DType {
		case tensor.F32, tensor.BF16, tensor.F16:
			s.Values = architectures.Floats(o.Tensor)
		}
		shown = append(shown, s)
	}
	if asJSON {
		return a.printJSON(struct {
			Outputs   []shownOutput `json:"outputs"`
			Validated bool          `json:"validated"`
		}{shown, validated})
	}
	for _, s := range shown {
		fmt.Fprintf(a.stdout, "%s %v%v sha256 %s\n", s.Name, s.DType, s.Shape, s.SHA256)
		if n := min(top, len(s.Values)); n > 0 {
			fmt.Fprintf(a.stdout, "  %g\n", s.Values[:n])
		}
	}
	return nil
}

func idText(ids []int) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.Itoa(id)
	}
	return strings.Join(parts, ",")
}
