package metal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fake is a runtime that keeps count of references and records every message.
// It answers as a Mac would, as far as the driver asks, and reports messages to
// objects that are gone.
type fake struct {
	t        *testing.T
	log      []string
	objects  map[id]*object
	next     id
	pools    [][]id
	macOS15  bool
	gpus     int
	refuse   map[string]string // selector to the error's text, or "" for nil alone
	status   uintptr
	failCode uintptr
	threads  uintptr
	sources  []string
}

type object struct {
	kind  string
	count int
	data  []byte
}

func newFake(t *testing.T) *fake {
	return &fake{t: t, objects: map[id]*object{}, macOS15: true, gpus: 1, refuse: map[string]string{}, status: 4, threads: 1024}
}

func (f *fake) create(kind string) id {
	f.next++
	f.objects[f.next] = &object{kind: kind, count: 1}
	return f.next
}

func (f *fake) autoreleased(kind string) id {
	o := f.create(kind)
	if len(f.pools) == 0 {
		f.t.Errorf("%s is autoreleased outside of a pool", kind)
		return o
	}
	top := len(f.pools) - 1
	f.pools[top] = append(f.pools[top], o)
	return o
}

func (f *fake) release(o id) {
	if f.objects[o].count--; f.objects[o].count == 0 {
		delete(f.objects, o)
	}
}

func (f *fake) devices() ([]id, error) {
	if f.gpus == 0 {
		return nil, errors.New("this Mac has no Metal device")
	}
	var all []id
	for range f.gpus {
		all = append(all, f.create("device"))
	}
	return all, nil
}

// Classes have numbers of their own, which are never freed.
var classes = []string{"NSProcessInfo", "MTLCompileOptions"}

func (f *fake) class(name string) id {
	i := slices.Index(classes, name)
	if i < 0 {
		f.t.Errorf("no class %s", name)
	}
	return id(1<<40 + i)
}

var selectorNames = []string{"setMathMode:"}

func (f *fake) selector(name string) uintptr {
	i := slices.Index(selectorNames, name)
	if i < 0 {
		f.t.Errorf("selector %s is not expected as an argument", name)
	}
	return uintptr(i)
}

func (f *fake) send(target id, selector string, args ...uintptr) uintptr {
	kind := "class"
	if target < 1<<40 {
		o := f.objects[target]
		if o == nil {
			f.t.Errorf("%s sent to an object that is gone", selector)
			return 0
		}
		kind = o.kind
	}
	f.log = append(f.log, kind+" "+selector)
	if want := strings.Count(selector, ":"); len(args) != want {
		f.t.Errorf("%s with %d arguments", selector, len(args))
	}
	if _, refused := f.refuse[selector]; refused {
		return 0
	}
	// Whatever a boolean result has above its lowest byte is to be ignored.
	const yes, no = 0xabcd01, 0xabcd00
	switch kind + " " + selector {
	case "class processInfo":
		return uintptr(f.autoreleased("info"))
	case "info operatingSystemVersionString":
		return uintptr(f.autoreleased("Version 15.6"))
	case "class new":
		return uintptr(f.create("options"))
	case "options respondsToSelector:":
		if f.macOS15 {
			return yes
		}
		return no
	case "options setMathMode:", "options setMathFloatingPointFunctions:":
		if !f.macOS15 {
			f.t.Errorf("%s before macOS 15", selector)
		}
		return 0
	case "options setFastMathEnabled:":
		if args[0] != 0 {
			f.t.Error("fast arithmetic is on")
		}
		return 0
	case "device name":
		return uintptr(f.autoreleased("Apple M9"))
	case "device recommendedMaxWorkingSetSize":
		return 1 << 20
	case "device maxBufferLength":
		return 1 << 19
	case "device maxThreadgroupMemoryLength":
		return 32768
	case "device hasUnifiedMemory":
		return yes
	case "device supportsFamily:":
		if args[0] == 5001 {
			return yes
		}
		return no
	case "device newCommandQueue":
		return uintptr(f.create("queue"))
	case "device newBufferWithLength:options:":
		b := f.create("buffer")
		f.objects[b].data = make([]byte, args[0])
		return uintptr(b)
	case "library newFunctionWithName:":
		return uintptr(f.create("function"))
	case "state maxTotalThreadsPerThreadgroup":
		return f.threads
	case "queue commandBuffer":
		return uintptr(f.autoreleased("list"))
	case "list computeCommandEncoder":
		return uintptr(f.autoreleased("compute"))
	case "list blitCommandEncoder":
		return uintptr(f.autoreleased("blit"))
	case "blit copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:":
		copy(f.objects[id(args[2])].data[args[3]:][:args[4]], f.objects[id(args[0])].data[args[1]:][:args[4]])
		return 0
	case "list status":
		return f.status
	case "list error":
		return uintptr(f.autoreleased("failure"))
	case "failure code":
		return f.failCode
	case "failure localizedDescription":
		return uintptr(f.autoreleased("it went wrong"))
	case "device release", "options release", "queue release", "library release", "function release", "state release", "buffer release":
		f.release(target)
		return 0
	case "compute setComputePipelineState:", "compute setBuffer:offset:atIndex:", "compute endEncoding", "blit endEncoding", "list commit", "list waitUntilCompleted":
		return 0
	}
	f.t.Errorf("unknown message: %s %s", kind, selector)
	return 0
}

func (f *fake) sendForError(target id, selector string, args ...uintptr) (id, error) {
	f.log = append(f.log, f.objects[target].kind+" "+selector)
	if text, refused := f.refuse[selector]; refused {
		return 0, errors.New(text)
	}
	if selector == "newLibraryWithSource:options:error:" {
		f.sources = append(f.sources, f.objects[id(args[0])].kind)
		return f.create("library"), nil
	}
	return f.create("state"), nil
}

func (f *fake) setBytes(encoder id, words []uint32, index int) {
	f.log = append(f.log, fmt.Sprintf("%s setBytes %v at %d", f.objects[encoder].kind, words, index))
}

func (f *fake) dispatch(encoder id, groups, threads size) {
	f.log = append(f.log, fmt.Sprintf("%s dispatch %v of %v", f.objects[encoder].kind, groups, threads))
}

func (f *fake) memory(buffer id, bytes int64) []byte { return f.objects[buffer].data[:bytes] }
func (f *fake) text(nsstring id) string              { return f.objects[nsstring].kind }
func (f *fake) nsstring(text string) id              { return f.autoreleased(text) }

func (f *fake) pool(g func()) {
	f.pools = append(f.pools, nil)
	g()
	top := len(f.pools) - 1
	for _, o := range f.pools[top] {
		f.release(o)
	}
	f.pools = f.pools[:top]
}

// expect compares the messages since the last call, and forgets them.
func (f *fake) expect(want ...string) {
	f.t.Helper()
	if !slices.Equal(f.log, want) {
		f.t.Errorf("messages:\n%s\nexpected:\n%s", strings.Join(f.log, "\n"), strings.Join(want, "\n"))
	}
	f.log = nil
}
