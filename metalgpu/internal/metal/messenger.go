package metal

// id is an Objective-C object, a class or an instance; 0 is nil.
type id uintptr

// size is an MTLSize: three NSUInteger.
type size struct{ width, height, depth uint }

// messenger is the Objective-C runtime and the few plain functions of Metal, as
// far as the driver needs them. Objects are released by the caller unless the
// rules of the runtime say that they are autoreleased: those live until the
// pool ends.
type messenger interface {
	// devices returns the system's devices, each retained.
	devices() ([]id, error)
	class(name string) id
	// selector is a selector as an argument of a message.
	selector(name string) uintptr
	// send passes words: objects, integers, booleans. A boolean result fills the
	// lowest byte only.
	send(target id, selector string, args ...uintptr) uintptr
	// sendForError appends the address of an NSError and returns its text where
	// the result is nil.
	sendForError(target id, selector string, args ...uintptr) (id, error)
	// setBytes sends setBytes:length:atIndex:.
	setBytes(encoder id, words []uint32, index int)
	// dispatch sends dispatchThreadgroups:threadsPerThreadgroup:.
	dispatch(encoder id, groups, threads size)
	// memory is the content of a buffer.
	memory(buffer id, bytes int64) []byte
	// text converts an NSString, nsstring the other way, autoreleased.
	text(nsstring id) string
	nsstring(text string) id
	// pool runs f on one thread, with a pool for autoreleased objects.
	pool(f func())
}

// truth is the boolean in the lowest byte of a result.
func truth(result uintptr) bool { return result&0xff != 0 }
