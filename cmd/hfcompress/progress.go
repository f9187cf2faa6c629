package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	compress "github.com/hfcompress/compress"
)

// progress shows events of the road: bars with rate and remaining time on a
// terminal, plain lines elsewhere.
type progress interface {
	observe(compress.Event)
	// stop ends the display; nothing may be observed after it.
	stop()
}

// titles are the stages in plain words.
var titles = map[compress.Stage]string{
	compress.StageDownload: "download",
	compress.StageLoad:     "load",
	compress.StageExamples: "examples",
	compress.StageCompile:  "compile",
	compress.StageCompare:  "compare",
	compress.StagePack:     "pack",
	compress.StageReload:   "reload",
}

func newProgress(w io.Writer, terminal bool) progress {
	if terminal {
		return &barProgress{pool: mpb.New(mpb.WithOutput(w), mpb.WithWidth(48), mpb.WithRefreshRate(120*time.Millisecond)), bars: map[string]*mpb.Bar{}}
	}
	return &lineProgress{w: w, now: time.Now, last: map[compress.Stage]time.Time{}, started: map[compress.Stage]bool{}}
}

// barProgress draws one bar for each file that is read or downloaded and for each later stage.
type barProgress struct {
	mu   sync.Mutex
	pool *mpb.Progress
	bars map[string]*mpb.Bar
}

func (p *barProgress) observe(e compress.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Message != "" {
		fmt.Fprintf(p.pool, "%s: %s\n", titles[e.Stage], e.Message)
	}
	if e.Total <= 0 {
		if e.Message == "" && (e.Stage == compress.StageLoad || e.Stage == compress.StageExamples) {
			fmt.Fprintf(p.pool, "%s …\n", titles[e.Stage]) // nothing to count: no bar will come
		}
		return
	}
	key, label := string(e.Stage), titles[e.Stage]
	if e.Stage == compress.StageDownload || e.Stage == stageVerify && e.Item != "" {
		key, label = key+"/"+e.Item, label+" "+shorten(e.Item, 32)
	}
	bar := p.bars[key]
	if bar == nil {
		bar = p.pool.AddBar(e.Total,
			mpb.PrependDecorators(decor.Name(label, decor.WCSyncSpaceR), counters(e.Unit)),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), rate(e.Unit), decor.Name("  "), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO), "done")))
		p.bars[key] = bar
	}
	bar.SetTotal(e.Total, false)
	bar.SetCurrent(e.Done)
	if e.Done >= e.Total {
		bar.SetTotal(e.Total, true)
	}
}

func counters(unit string) decor.Decorator {
	if unit == "bytes" {
		return decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace)
	}
	return decor.CountersNoUnit("%d / %d "+unit, decor.WCSyncSpace)
}

func rate(unit string) decor.Decorator {
	if unit == "bytes" {
		return decor.AverageSpeed(decor.SizeB1024(0), "% .1f", decor.WC{W: 13})
	}
	return decor.AverageSpeed(0, "%.0f/s", decor.WC{W: 10})
}

func (p *barProgress) stop() {
	p.mu.Lock()
	for _, bar := range p.bars {
		if !bar.Completed() {
			bar.Abort(false)
		}
	}
	p.mu.Unlock()
	p.pool.Wait()
}

// lineProgress writes a line when a stage begins, at most one every few seconds
// while it goes on, and each message.
type lineProgress struct {
	mu      sync.Mutex
	w       io.Writer
	now     func() time.Time
	last    map[compress.Stage]time.Time
	started map[compress.Stage]bool
}

// lineEvery is the pause between two lines of one stage.
const lineEvery = 5 * time.Second

func (p *lineProgress) observe(e compress.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	title := titles[e.Stage]
	if e.Message != "" {
		fmt.Fprintf(p.w, "%s: %s\n", title, e.Message)
	}
	now := p.now()
	if !p.started[e.Stage] {
		p.started[e.Stage] = true
		p.last[e.Stage] = now
		if e.Message == "" {
			fmt.Fprintf(p.w, "%s …\n", title)
		}
		return
	}
	if e.Total > 0 && e.Done < e.Total && now.Sub(p.last[e.Stage]) >= lineEvery {
		p.last[e.Stage] = now
		done, total := fmt.Sprint(e.Done), fmt.Sprint(e.Total)
		if e.Unit == "bytes" {
			done, total = compress.BytesText(e.Done), compress.BytesText(e.Total)
		}
		fmt.Fprintf(p.w, "%s: %s of %s %s (%d %%) %s\n", title, done, total, unitText(e.Unit), 100*e.Done/e.Total, e.Item)
	}
}

func (p *lineProgress) stop() {}

func unitText(unit string) string {
	if unit == "bytes" {
		return ""
	}
	return unit
}

func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return "…" + string(r[len(r)-n+1:])
}
