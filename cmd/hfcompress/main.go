// Command hfcompress makes Hugging Face models smaller without changing what
// they compute, and proves it. See docs/command.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/pack"
)

// Exit statuses.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitNoGain   = 3 // with --strict: nothing was gained, or it was rolled back
	exitCanceled = 130
)

func main() { os.Exit(run()) }

// run is the command; it returns the exit status.
func run() int {
	if os.Getenv("GOGC") == "" {
		// Nearly all memory is a few long-lived weights and large outputs that are
		// soon garbage. Collecting sooner costs little and keeps the peak near what
		// is in use.
		debug.SetGCPercent(40)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	// A terminal without a size, as some tools make one, cannot show bars.
	if width, height, err := term.GetSize(int(os.Stderr.Fd())); err == nil {
		a.terminal = width > 0 && height > 0
	}
	a.outTerminal = term.IsTerminal(int(os.Stdout.Fd()))
	return a.execute(ctx, os.Args[1:])
}

// app is what commands need of the world outside.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	terminal       bool // standard error is one that shows bars
	outTerminal    bool // standard output is one
}

func (a *app) execute(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var usage usageError
	var status statusError
	switch {
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage), errors.Is(err, compress.ErrOption):
		fmt.Fprintf(a.stderr, "hfcompress: %v\nRun 'hfcompress --help' for usage.\n", err)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(a.stderr, "hfcompress: interrupted; nothing was left under a final name, and a rerun goes on from the cache")
		return exitCanceled
	}
	fmt.Fprintf(a.stderr, "hfcompress: %s\n", oneLine(err)+advice(err))
	return exitError
}

// advice says which flag helps against an error of a library, which knows
// nothing of flags.
func advice(err error) string {
	var exists *compress.ExistsError
	switch {
	case errors.As(err, &exists):
		return " (--overwrite replaces a package, --out chooses another place)"
	case errors.Is(err, pack.ErrExists):
		return " (--out chooses another place)"
	case errors.Is(err, hub.ErrNetwork):
		return "; without a network, --offline uses what the cache holds"
	}
	return ""
}

// usageError is a mistake in the arguments.
type usageError struct{ error }

// statusError ends the command with a status when all has been said.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// oneLine puts an error on one line, for people and for logs; details of
// several lines are indented below it.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimRight(err.Error(), "\n"), "\n", "\n  ")
}

// noArgs is cobra.NoArgs with our error type.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unknown command or argument %q for %q", args[0], cmd.CommandPath())
	}
	return nil
}

// exactly demands n arguments.
func exactly(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%q takes %s, have %d arguments", cmd.CommandPath(), names, len(args))
		}
		return nil
	}
}
