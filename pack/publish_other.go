//go:build !linux

package pack

// publish renames temp to dest.
func publish(temp, dest string) error { return publishByRename(temp, dest) }
