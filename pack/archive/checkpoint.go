package archive

import "github.com/hfcompress/compress/loader"

// Importing this package makes loader.Open read checkpoints from archives. An
// archive that was made against a base has to be opened together with it, with
// OpenCheckpoint.
func init() {
	loader.RegisterContainer(Magic, func(path string) (loader.Container, error) {
		r, err := Open(path, ReadOptions{})
		if err != nil {
			return nil, err // and not a container that holds a nil pointer
		}
		return r, nil
	})
}

// OpenCheckpoint opens a checkpoint in an archive: the only one at the top of its
// files, or the one that o.File names. It has the same headers, tensors and
// errors as the unpacked one; tensors are decoded into memory of their own. r
// must stay open as long.
func OpenCheckpoint(r *Reader, o loader.Options) (*loader.Checkpoint, error) {
	return loader.OpenFS(r, ".", o)
}
