package architectures

// Renamed is implemented by blueprints of families whose checkpoints come under
// several sets of names: with or without the name of the base model in front, or
// with names of earlier versions of their reference.
type Renamed interface {
	Blueprint
	// ForNames returns the same blueprint with the names that a checkpoint with the
	// given tensors uses. It looks at the names only to choose a set.
	ForNames(names []string) Blueprint
}

// ForNames returns b with the names that a checkpoint with the given tensors
// uses, which is b itself for families with one set of names.
func ForNames(b Blueprint, names []string) Blueprint {
	if r, ok := b.(Renamed); ok {
		return r.ForNames(names)
	}
	return b
}
