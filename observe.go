package compress

import "sync"

// Stage is a part of the road.
type Stage string

// The stages, in order.
const (
	StageDownload Stage = "download" // resolve the revision and fetch what the cache lacks
	StageLoad     Stage = "load"     // check the checkpoint and place it on the device
	StageExamples Stage = "examples" // make the inputs on which models are compared
	StageCompile  Stage = "compile"  // evaluate finite blocks and check them on their whole domain
	StageCompare  Stage = "compare"  // compare complete outputs of source and candidate
	StagePack     Stage = "pack"     // write the package
	StageReload   Stage = "reload"   // open the package again and compare once more
)

// Event tells how far the work is.
type Event struct {
	Stage Stage
	// Item is what is being worked on: a file, a block, an example.
	Item string
	// Done of Total units are finished; Total is 0 while it is not known. Unit is
	// "bytes", "tensors", "tokens", "examples" or empty.
	Done, Total int64
	Unit        string
	// Message is a line worth keeping, such as a retry or a rolled-back block.
	Message string
}

// observer serialises calls of an observing function that may be nil.
type observer struct {
	mu sync.Mutex
	f  func(Event)
}

func (o *observer) send(e Event) {
	if o.f == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.f(e)
}
