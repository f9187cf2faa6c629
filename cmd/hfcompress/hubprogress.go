package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/hub"
)

// ownBar is the size from which a file gets a bar of its own beside the total.
const ownBar = 8 << 20

// showHub translates the Hub client's events for a display: the sum of all
// files, and large ones by themselves.
func showHub(show progress, stage compress.Stage) hub.Observer {
	var mu sync.Mutex
	var done, total int64
	var limited time.Time // until when a limit is known to be shown
	have := map[string]int64{}
	return hub.ObserverFunc(func(e hub.Event) {
		mu.Lock()
		defer mu.Unlock()
		event := compress.Event{Stage: stage, Item: e.File, Done: e.Done, Total: e.Total, Unit: "bytes"}
		switch e.Kind {
		case hub.PlanReady:
			total = e.Total
			return
		case hub.FileCached, hub.FileStarted, hub.FileProgress:
		case hub.FileDone:
			event.Done = e.Total
		case hub.Retrying:
			event.Total, event.Message = 0, fmt.Sprintf("%s: trying again in %s: %v", e.File, e.Wait.Round(time.Second), e.Err)
			show.observe(event)
			return
		case hub.Waiting:
			if e.File != "" {
				event.Total, event.Message = 0, fmt.Sprintf("%s: waiting: %v", e.File, e.Err)
				show.observe(event)
				return
			}
			// The Hub's limit holds for all requests: those that wait at once say it once.
			if now := time.Now(); now.After(limited) {
				limited = now.Add(e.Wait)
				event.Total, event.Message = 0, fmt.Sprintf("waiting %s for the Hub: %v", e.Wait.Round(time.Second), e.Err)
				show.observe(event)
			}
			return
		default:
			return
		}
		done += event.Done - have[e.File]
		have[e.File] = event.Done
		if e.Kind != hub.FileCached && e.Total >= ownBar {
			show.observe(event)
		}
		if total > 0 {
			show.observe(compress.Event{Stage: stage, Item: "in all", Done: min(done, total), Total: total, Unit: "bytes"})
		}
	})
}

// warnings shows what the Hub client warns about, such as a cached file that
// stands in for an unreachable Hub.
type warnings struct{ a *app }

func (warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(at slog.Attr) bool {
		text += fmt.Sprintf(", %s %v", at.Key, at.Value)
		return true
	})
	w.a.warn(text)
	return nil
}

func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w warnings) WithGroup(string) slog.Handler      { return w }

// hubClient makes a client whose events go to a display.
func (a *app) hubClient(f hubFlags, show progress, stage compress.Stage) (*hub.Client, error) {
	o, err := a.hubOptions(f)
	if err != nil {
		return nil, err
	}
	o.Logger = slog.New(warnings{a})
	if show != nil {
		o.Progress = showHub(show, stage)
	}
	return hub.New(o)
}
