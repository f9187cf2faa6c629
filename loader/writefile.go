package loader

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// WriteFile writes entries as the file path, which appears whole or not at all:
// the bytes go to a temporary file beside it that is flushed to disk and then
// renamed. See [Write] for the bytes.
func WriteFile(path string, entries []Entry, o WriteOptions) error {
	return publish(path, o.Overwrite, func(w io.Writer) error {
		_, err := Write(w, entries, o)
		return err
	})
}

// WriteVerbatimFile is [WriteVerbatim] for a file, which appears whole or not at
// all.
func WriteVerbatimFile(path string, header []byte, data func(TensorInfo) (io.Reader, error), overwrite bool) error {
	return publish(path, overwrite, func(w io.Writer) error {
		_, err := WriteVerbatim(w, header, data)
		return err
	})
}

// WriteSharded writes entries to dir in the Hub's layout and returns the names
// of the files written, the index last: shards model-00001-of-0000N.safetensors
// of at most maxShardBytes of tensor bytes each, and
// model.safetensors.index.json. A tensor larger than that has a shard of its
// own. When everything fits one shard, the result is model.safetensors alone.
//
// Files appear one by one, each whole; since the index comes last, a directory
// without one holds an interrupted write.
func WriteSharded(dir string, entries []Entry, maxShardBytes int64, o WriteOptions) ([]string, error) {
	if maxShardBytes <= 0 {
		return nil, fmt.Errorf("shards of at most %d bytes were asked for", maxShardBytes)
	}
	// A fault in any entry is found before the first file exists.
	if _, err := encodeHeader(entries, o.Metadata); err != nil {
		return nil, err
	}
	var shards [][]Entry
	var size, total int64
	where := make(map[string]int, len(entries))
	for i := range entries {
		e := &entries[i]
		if _, dup := where[e.Name]; dup {
			return nil, fmt.Errorf("tensor %s is given twice", quote(e.Name))
		}
		dtype, shape := e.layout()
		n, err := shape.Bytes(dtype)
		if err != nil {
			return nil, err
		}
		if len(shards) == 0 || n > 0 && size > 0 && int64(n) > maxShardBytes-size {
			shards, size = append(shards, nil), 0
		}
		last := len(shards) - 1
		shards[last] = append(shards[last], *e)
		where[e.Name] = last
		size += int64(n)
		total += int64(n)
	}
	if len(shards) <= 1 {
		const name = "model.safetensors"
		return []string{name}, WriteFile(filepath.Join(dir, name), entries, o)
	}
	names := make([]string, len(shards))
	for i := range shards {
		names[i] = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
	}
	const index = "model" + indexSuffix
	if !o.Overwrite {
		for _, name := range append(slices.Clone(names), index) {
			if err := absent(filepath.Join(dir, name)); err != nil {
				return nil, err
			}
		}
	}
	for i, shard := range shards {
		if err := WriteFile(filepath.Join(dir, names[i]), shard, o); err != nil {
			return nil, err
		}
	}
	err := publish(filepath.Join(dir, index), o.Overwrite, func(w io.Writer) error {
		_, err := w.Write(encodeIndex(where, names, total))
		return err
	})
	return append(names, index), err
}

// encodeIndex writes an index as the Hub's tools do: sorted, indented by two.
func encodeIndex(where map[string]int, names []string, total int64) []byte {
	b := []byte("{\n  \"metadata\": {\n    \"total_size\": ")
	b = strconv.AppendInt(b, total, 10)
	b = append(b, "\n  },\n  \"weight_map\": {"...)
	for i, tensor := range slices.Sorted(maps.Keys(where)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(append(b, "\n    "...), tensor), ": "...)
		b = appendString(b, names[where[tensor]])
	}
	return append(b, "\n  }\n}\n"...)
}

func absent(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return &fs.PathError{Op: "write", Path: path, Err: ErrExists}
}

// publish writes a file under a temporary name in the same directory, flushes it
// to disk and gives it its name.
func publish(path string, overwrite bool, write func(io.Writer) error) (err error) {
	if !overwrite {
		if err := absent(path); err != nil {
			return err
		}
	}
	f, err := createTemp(path)
	if err != nil {
		return err
	}
	temp := f.Name()
	defer func() {
		if err != nil {
			f.Close() // a second Close does no harm
			os.Remove(temp)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := name(temp, path, overwrite); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// name gives a finished file its name. A link fails where the name is taken,
// which a rename does not; on file systems without links the name is looked up
// once more just before, and only a race of two writers can then replace a file.
func name(temp, path string, overwrite bool) error {
	if !overwrite {
		err := os.Link(temp, path)
		switch {
		case err == nil:
			return os.Remove(temp)
		case errors.Is(err, fs.ErrExist):
			return &fs.PathError{Op: "write", Path: path, Err: ErrExists}
		}
		if err := absent(path); err != nil {
			return err
		}
	}
	return os.Rename(temp, path)
}

// createTemp makes a new file beside path with the permissions that the user's
// mask gives ordinary files, which os.CreateTemp would withhold.
func createTemp(path string) (*os.File, error) {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:12]+".tmp")
	return os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// syncDir makes a new name last. Directories cannot be flushed everywhere, and
// the file itself is safe already, so only the attempt is made.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}
