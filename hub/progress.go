package hub

import (
	"sync"
	"time"
)

// EventKind says what an [Event] reports.
type EventKind int

// The events of one download or snapshot, in the order in which they may
// come. PlanReady comes once per snapshot; each file then has FileCached, or
// FileStarted, any number of FileProgress, and FileDone or FileFailed.
const (
	PlanReady    EventKind = iota // Files and Total are known
	FileCached                    // the file is in the cache already
	FileStarted                   // Done holds what an earlier run left
	FileProgress                  // Done grew (or fell back after a restart)
	FileDone                      // verified and under its final name
	FileFailed                    // Err says why
	Retrying                      // Err says why, Wait how long
	FellBack                      // from Xet to plain HTTP; Err says why
	Waiting                       // for another process or a rate limit; Err says for what
)

// Event is one report of progress. Sizes are bytes.
type Event struct {
	Kind  EventKind
	Repo  Repo
	File  string        // repository path, empty for PlanReady
	Files int           // PlanReady: number of files
	Done  int64         // bytes of this file that are on disk
	Total int64         // size of this file, or of all files for PlanReady
	Wait  time.Duration // Retrying and Waiting
	Err   error         // FileFailed, Retrying, FellBack, Waiting
}

// Observer receives events. The client calls it from one goroutine at a
// time; it must return quickly. Rates and display are the observer's own.
type Observer interface {
	Observe(Event)
}

// ObserverFunc makes a function an [Observer].
type ObserverFunc func(Event)

// Observe calls the function.
func (f ObserverFunc) Observe(e Event) { f(e) }

// reporter serialises the calls to an observer.
type reporter struct {
	mu sync.Mutex
	o  Observer
}

func (r *reporter) send(e Event) {
	if r.o == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.o.Observe(e)
}
