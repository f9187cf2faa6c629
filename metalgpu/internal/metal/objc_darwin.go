package metal

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// Devices describes the GPUs of this Mac.
func Devices() ([]driver.Info, error) {
	m, err := runtimeOnce()
	if err != nil {
		return nil, err
	}
	return devices(m)
}

// Open opens a GPU by its index in [Devices].
func Open(index int) (driver.Driver, error) {
	m, err := runtimeOnce()
	if err != nil {
		return nil, err
	}
	return open(m, index)
}

// objectiveC is the messenger of a Mac.
type objectiveC struct {
	msgSend       uintptr
	copyAll       func() objc.ID
	dispatchSizes func(encoder objc.ID, selector objc.SEL, groups, threads size)

	mu        sync.Mutex
	selectors map[string]objc.SEL
}

// runtimeOnce loads Metal. CoreGraphics has to be there too, or a program
// without windows sees no devices.
var runtimeOnce = sync.OnceValues(func() (messenger, error) {
	m := &objectiveC{selectors: map[string]objc.SEL{}}
	var metal uintptr
	for _, path := range []string{
		"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
		"/System/Library/Frameworks/Foundation.framework/Foundation",
		"/System/Library/Frameworks/Metal.framework/Metal",
	} {
		lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			return nil, errors.Join(driver.ErrUnavailable, err)
		}
		metal = lib
	}
	lib, err := purego.Dlopen("/usr/lib/libobjc.A.dylib", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, errors.Join(driver.ErrUnavailable, err)
	}
	if m.msgSend, err = purego.Dlsym(lib, "objc_msgSend"); err != nil {
		return nil, errors.Join(driver.ErrUnavailable, err)
	}
	if _, err := purego.Dlsym(metal, "MTLCopyAllDevices"); err != nil {
		return nil, errors.Join(driver.ErrUnavailable, err)
	}
	purego.RegisterLibFunc(&m.copyAll, metal, "MTLCopyAllDevices")
	// The two sizes go by value, which the plain path for words cannot do.
	purego.RegisterFunc(&m.dispatchSizes, m.msgSend)
	return m, nil
})

func (m *objectiveC) devices() ([]id, error) {
	var all []id
	m.pool(func() {
		array := id(m.copyAll())
		for i := range m.send(array, "count") {
			all = append(all, id(m.send(id(m.send(array, "objectAtIndex:", i)), "retain")))
		}
		m.send(array, "release")
	})
	if len(all) == 0 {
		return nil, errors.New("this Mac has no Metal device")
	}
	return all, nil
}

func (m *objectiveC) class(name string) id { return id(objc.GetClass(name)) }

func (m *objectiveC) sel(name string) objc.SEL {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.selectors[name]
	if !ok {
		s = objc.RegisterName(name)
		m.selectors[name] = s
	}
	return s
}

func (m *objectiveC) selector(name string) uintptr { return uintptr(m.sel(name)) }

// message is the call of words. Pointers that a caller converts in the argument
// list stay alive and in place until it returns.
//
//go:uintptrescapes
func message(function uintptr, target id, selector uintptr, args ...uintptr) uintptr {
	words := append(make([]uintptr, 0, 8), uintptr(target), selector)
	result, _, _ := purego.SyscallN(function, append(words, args...)...)
	return result
}

func (m *objectiveC) send(target id, selector string, args ...uintptr) uintptr {
	return message(m.msgSend, target, m.selector(selector), args...)
}

func (m *objectiveC) sendForError(target id, selector string, args ...uintptr) (id, error) {
	failure := new(uintptr)
	var result uintptr
	switch len(args) {
	case 1:
		result = message(m.msgSend, target, m.selector(selector), args[0], uintptr(unsafe.Pointer(failure)))
	case 2:
		result = message(m.msgSend, target, m.selector(selector), args[0], args[1], uintptr(unsafe.Pointer(failure)))
	default:
		return 0, errors.New(selector + ": one or two arguments before the error")
	}
	if result != 0 {
		return id(result), nil
	}
	return 0, errors.New(m.text(id(m.send(id(*failure), "localizedDescription"))))
}

func (m *objectiveC) setBytes(encoder id, words []uint32, index int) {
	message(m.msgSend, encoder, m.selector("setBytes:length:atIndex:"), uintptr(unsafe.Pointer(&words[0])), uintptr(4*len(words)), uintptr(index))
}

func (m *objectiveC) dispatch(encoder id, groups, threads size) {
	m.dispatchSizes(objc.ID(encoder), m.sel("dispatchThreadgroups:threadsPerThreadgroup:"), groups, threads)
}

func (m *objectiveC) memory(buffer id, bytes int64) []byte {
	return unsafe.Slice((*byte)(objc.Send[unsafe.Pointer](objc.ID(buffer), m.sel("contents"))), bytes)
}

func (m *objectiveC) text(nsstring id) string {
	if nsstring == 0 {
		return "no description"
	}
	return objc.Send[string](objc.ID(nsstring), m.sel("UTF8String"))
}

func (m *objectiveC) nsstring(text string) id {
	zeroed := append([]byte(text), 0)
	return id(message(m.msgSend, m.class("NSString"), m.selector("stringWithUTF8String:"), uintptr(unsafe.Pointer(&zeroed[0]))))
}

func (m *objectiveC) pool(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := id(m.send(m.class("NSAutoreleasePool"), "new"))
	defer m.send(p, "drain")
	f()
}
