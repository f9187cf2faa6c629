package hub_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

var faultRuns = flag.Int("hub.faults", 120, "runs of TestRandomFaults")
var faultSeed = flag.Uint64("hub.seed", 1, "seed of the first run of TestRandomFaults")
var faultRoad = flag.String("hub.road", "", "http or xet, for runs of TestRandomFaults over one of them alone")

// TestRandomFaults downloads from a server that misbehaves at random: cut,
// stalled, corrupted, misplaced and refused answers, cancelled calls, killed
// processes, in any combination, every other time over Xet. Whatever happens,
// no wrong content and no part of a file stands under a final name, every
// failure is a typed error, and a later run against a healthy server completes.
func TestRandomFaults(t *testing.T) {
	files := hubtest.Files{
		"model.safetensors": noise(31, 5<<20+12345),
		"small.bin":         noise(32, 70_001),
		"config.json":       noise(33, 2_000),
	}
	repos := []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": files}}}
	roads := []string{"http", "xet"}
	if *faultRoad != "" {
		roads = []string{*faultRoad}
	}
	servers := map[string]*hubtest.Server{
		"http": newHub(t, hubtest.Options{Repos: repos}),
		"xet":  newHub(t, hubtest.Options{Repos: repos, Xet: &xettest.Options{MaxXorb: 1 << 20, TermChunks: 5}}),
	}
	root := t.TempDir()
	outcomes := map[string]int{}
	if testing.Short() {
		*faultRuns = min(*faultRuns, 30)
	}
	for i := range *faultRuns {
		seed := *faultSeed + uint64(i)
		road := roads[i%len(roads)]
		if servers[road] == nil {
			t.Fatalf("no road is called %q", road)
		}
		outcome := randomRun(t, servers[road], files, filepath.Join(root, fmt.Sprint(i)), rand.New(rand.NewPCG(seed, 99)))
		outcomes[outcome]++
		outcomes[road+" "+outcome]++
		if t.Failed() {
			t.Fatalf("run with seed %d", seed)
		}
	}
	t.Logf("%d runs: %v", *faultRuns, outcomes)
	if *faultRuns >= 100 && (outcomes["healed"] == 0 || outcomes["failed"] == 0 || outcomes["cancelled"] == 0) {
		t.Errorf("the faults do not reach every outcome: %v", outcomes)
	}
}

func randomFault(rng *rand.Rand) hubtest.Fault {
	kinds := []hubtest.FaultKind{
		hubtest.Truncate, hubtest.TruncateClean, hubtest.Stall, hubtest.StallHeaders, hubtest.Corrupt, hubtest.WrongRange, hubtest.LyingRange,
		hubtest.IgnoreRange, hubtest.Status, hubtest.Reset, hubtest.Gzip, hubtest.Pointer, hubtest.HTML, hubtest.NoLength, hubtest.Expired, hubtest.Longer,
	}
	f := hubtest.Fault{Kind: kinds[rng.IntN(len(kinds))], Skip: rng.IntN(6), Count: 1 + rng.IntN(3)}
	if rng.IntN(8) == 0 {
		f.Count = -1
	}
	if rng.IntN(2) == 0 {
		f.Path = []string{"model.safetensors", "small.bin", "config.json"}[rng.IntN(3)]
	}
	if rng.IntN(3) == 0 {
		f.Origin = []string{"hub", "cdn"}[rng.IntN(2)]
	}
	switch f.Kind {
	case hubtest.Status:
		f.Code = []int{403, 408, 416, 429, 500, 502, 503}[rng.IntN(7)]
	case hubtest.Corrupt:
		f.At = rng.Int64N(5 << 20)
	default:
		f.At = rng.Int64N(3 << 20)
		if rng.IntN(3) == 0 {
			f.At = rng.Int64N(2_000)
		}
	}
	return f
}

func randomXetFault(rng *rand.Rand) xettest.Fault {
	kinds := []xettest.Kind{
		xettest.Stall, xettest.StallHeaders, xettest.Reset, xettest.Status, xettest.Corrupt, xettest.WrongLength,
		xettest.WrongRange, xettest.IgnoreRange, xettest.Garbage, xettest.Redirect,
	}
	f := xettest.Fault{Kind: kinds[rng.IntN(len(kinds))], Skip: rng.IntN(6), Count: 1 + rng.IntN(4), At: rng.Int64N(1 << 20)}
	switch f.Kind {
	case xettest.Status:
		f.Code = []int{401, 403, 404, 429, 500, 503}[rng.IntN(6)]
	case xettest.WrongLength, xettest.Garbage:
		f.Call = xettest.V2
	case xettest.WrongRange, xettest.IgnoreRange, xettest.Redirect, xettest.Corrupt:
		f.Call = xettest.Content
	}
	return f
}

func randomRun(t *testing.T, s *hubtest.Server, files hubtest.Files, cache string, rng *rand.Rand) string {
	defer os.RemoveAll(cache)
	s.ClearFaults()
	for range 1 + rng.IntN(3) {
		s.Inject(randomFault(rng))
	}
	if x := s.Xet(); x != nil {
		x.ClearFaults()
		for range rng.IntN(3) {
			x.Inject(randomXetFault(rng))
		}
	}
	conns := 1 + rng.IntN(4)
	if rng.IntN(20) == 0 {
		s.Inject(hubtest.Fault{Kind: hubtest.Slow, Rate: 50 << 20, Count: -1, Origin: "cdn"})
		killSometime(t, helperJob{Endpoint: s.URL(), Cache: cache, Repo: "org/demo", File: "model.safetensors", Conns: conns, Parallel: true}, rng.Int64N(5<<20))
		wantClean(t, cache)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen atomic.Int64
	stopAt := int64(1 << 62)
	if rng.IntN(4) == 0 {
		stopAt = rng.Int64N(5 << 20)
	}
	c := newClient(t, s, withCache(cache), func(o *hub.Options) {
		o.ConnsPerFile = conns
		o.StallTimeout = 150 * time.Millisecond
		o.Retries = 2
		o.MaxRateWait = time.Nanosecond // a 429 without a short wait ends the run
		o.RetryBase, o.RetryCap = time.Microsecond, time.Microsecond
		o.Progress = hub.ObserverFunc(func(e hub.Event) {
			if e.Kind == hub.FileProgress && seen.Add(1)*(256<<10) > stopAt {
				cancel()
			}
		})
	})
	c.ParallelFromForTest(0)
	outcome := "healed"
	snap, err := c.Snapshot(ctx, demo, "main", hub.SnapshotOptions{})
	switch {
	case err == nil:
		for n, data := range files {
			wantFile(t, filepath.Join(snap.Dir, n), data)
		}
	case errors.Is(err, context.Canceled):
		outcome = "cancelled"
	default:
		outcome = "failed"
		var e *hub.Error
		if !errors.As(err, &e) || e.Kind == nil {
			t.Errorf("untyped error %v", err)
		}
	}
	wantClean(t, cache)
	// A rerun against a healthy server completes.
	s.ClearFaults()
	if x := s.Xet(); x != nil {
		x.ClearFaults()
	}
	c = newClient(t, s, withCache(cache), func(o *hub.Options) { o.ConnsPerFile = conns })
	c.ParallelFromForTest(0)
	if snap, err = c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil {
		t.Errorf("rerun: %v", err)
		return outcome
	}
	for n, data := range files {
		wantFile(t, filepath.Join(snap.Dir, n), data)
	}
	wantClean(t, cache)
	if left := partials(t, cache); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	return outcome
}
