// Command hubtestd serves folders ORG/NAME/REVISION/files… as repositories of
// a Hub, on loopback, for any client:
//
//	go run ./hub/hubtest/hubtestd --dir DIR [--addr 127.0.0.1:0] [--token T] [--xet] [--fault KIND[,FIELD=VALUE…]]
//
// It prints one line with its address and serves until it is interrupted or
// its standard input closes (--until-eof). Faults are those of package
// hubtest, for example --fault truncate,path=*.safetensors,at=4096,count=2.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "hubtestd:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	fl := flag.NewFlagSet("hubtestd", flag.ContinueOnError)
	fl.SetOutput(stderr)
	dir := fl.String("dir", "", "folder that holds ORG/NAME/REVISION/files…")
	addr := fl.String("addr", "127.0.0.1:0", "address to listen on")
	token := fl.String("token", "", "access token to accept")
	plainRedirect := fl.Bool("plain-redirect", false, "answer plain files with a relative redirect, as the real Hub does")
	api := fl.Int("rate-api", 0, "API requests allowed per window (0: no limit)")
	resolvers := fl.Int("rate-resolvers", 0, "file requests allowed per window (0: no limit)")
	window := fl.Duration("rate-window", 5*time.Minute, "length of a rate window")
	xet := fl.Bool("xet", false, "offer LFS files over Xet too; the store is held in memory")
	untilEOF := fl.Bool("until-eof", false, "stop when standard input closes")
	var faults []hubtest.Fault
	fl.Func("fault", "KIND[,path=P][,origin=hub|cdn][,method=M][,at=N][,count=N][,skip=N][,code=N][,rate=N]; may be repeated", func(v string) error {
		f, err := parseFault(v)
		faults = append(faults, f)
		return err
	})
	if err := fl.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return errors.New("--dir is required")
	}
	opts := hubtest.Options{FS: os.DirFS(*dir), Addr: *addr, PlainRedirect: *plainRedirect}
	if *xet {
		opts.Xet = &xettest.Options{}
	}
	if *token != "" {
		opts.Tokens = []string{*token}
	}
	if *api > 0 || *resolvers > 0 {
		opts.Rate = &hubtest.RateLimit{API: *api, Resolvers: *resolvers, Window: *window}
	}
	s, err := hubtest.New(opts)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, f := range faults {
		s.Inject(f)
	}
	fmt.Fprintln(stdout, s.URL())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	defer signal.Stop(stop)
	eof := make(chan struct{})
	if *untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, bufio.NewReader(stdin))
			close(eof)
		}()
	}
	select {
	case <-stop:
	case <-eof:
	}
	for _, v := range s.Violations() {
		fmt.Fprintln(stderr, "violation:", v)
	}
	return nil
}

func parseFault(v string) (hubtest.Fault, error) {
	parts := strings.Split(v, ",")
	f := hubtest.Fault{Kind: hubtest.FaultKind(parts[0])}
	if !slices.Contains(hubtest.FaultKinds, f.Kind) {
		return f, fmt.Errorf("fault %q: unknown kind; there are %s", v, strings.Trim(fmt.Sprint(hubtest.FaultKinds), "[]"))
	}
	for _, p := range parts[1:] {
		k, val, _ := strings.Cut(p, "=")
		switch k {
		case "path":
			f.Path = val
			continue
		case "origin":
			f.Origin = val
			continue
		case "method":
			f.Method = val
			continue
		}
		n, err := strconv.ParseInt(val, 10, 64)
		if err != nil {
			return f, fmt.Errorf("fault %q: %s is not a number", v, k)
		}
		switch k {
		case "at":
			f.At = n
		case "count":
			f.Count = int(n)
		case "skip":
			f.Skip = int(n)
		case "code":
			f.Code = int(n)
		case "rate":
			f.Rate = n
		default:
			return f, fmt.Errorf("fault %q: unknown field %s", v, k)
		}
	}
	return f, nil
}
