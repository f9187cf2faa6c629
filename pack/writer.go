package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// ErrExists is wrapped by the error that refuses to write over what is there.
var ErrExists = errors.New("already exists")

// CreateOptions configure [Create].
type CreateOptions struct {
	// Overwrite allows the destination to be an existing package, which is
	// replaced when the new one is whole. Anything else is never replaced.
	Overwrite bool
	// Codec stores the weights; nil means [Float] at level dense.
	Codec Codec
}

// Writer writes one package. Add tensors and files, then [Writer.Seal] the
// content, check it if you like, and [Writer.Publish] it. Until then nothing
// exists under the final name. A Writer is not safe for concurrent use.
type Writer struct {
	dest  string
	temp  string
	lock  io.Closer
	codec Codec
	over  bool

	weights *countingFile
	tensors []Tensor
	names   map[string]bool
	files   []File
	stored  *Weights // nil until the first Seal
	sealed  bool     // the manifest lists all that was added
}

// weightsName is the file of packed weights within a package.
const weightsName = "weights.bin"

// Create starts a package that will be published as the directory dest. It
// refuses at once when dest exists and may not be replaced, with an error that
// wraps [ErrExists]. Remains of writers that were killed are removed.
func Create(dest string, opts CreateOptions) (*Writer, error) {
	dest, err := filepath.Abs(dest)
	if err != nil {
		return nil, err
	}
	if err := checkDestination(dest, opts.Overwrite); err != nil {
		return nil, err
	}
	parent := filepath.Dir(dest)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return nil, err
	}
	prefix := "." + filepath.Base(dest) + "."
	removeStale(parent, prefix)
	temp, lock, err := makeLockedTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	w := &Writer{dest: dest, temp: temp, lock: lock, codec: opts.Codec, over: opts.Overwrite, names: map[string]bool{}}
	if w.codec == nil {
		w.codec = Float{Level: floatcodec.Dense}
	}
	f, err := os.OpenFile(filepath.Join(temp, weightsName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		w.Abort()
		return nil, err
	}
	w.weights = &countingFile{f: f, h: sha256.New()}
	return w, nil
}

// CheckDestination reports what would keep [Create] from writing dest: that it
// exists and may not be replaced (wrapping [ErrExists]), or that its folder
// cannot be written to. It leaves nothing behind but the folder.
func CheckDestination(dest string, overwrite bool) error {
	dest, err := filepath.Abs(dest)
	if err != nil {
		return err
	}
	if err := checkDestination(dest, overwrite); err != nil {
		return err
	}
	parent := filepath.Dir(dest)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return fmt.Errorf("the output's folder: %w", err)
	}
	probe, err := makeTempDir(parent, "."+filepath.Base(dest)+".")
	if err != nil {
		return fmt.Errorf("the output's folder %s cannot be written to: %w", parent, err)
	}
	return os.Remove(probe)
}

// checkDestination refuses a destination that must not be written.
func checkDestination(dest string, overwrite bool) error {
	_, err := os.Lstat(dest)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !overwrite {
		return fmt.Errorf("%s %w", dest, ErrExists)
	}
	entries, err := os.ReadDir(dest)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dest, ManifestName)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%s %w and is not a package, so it is not overwritten", dest, ErrExists)
	}
	return nil
}

// AddTensor stores t under name.
func (w *Writer) AddTensor(name string, t *tensor.Tensor) error {
	if w.stored != nil {
		return errors.New("pack: AddTensor after Seal")
	}
	if name == "" || w.names[name] {
		return fmt.Errorf("tensor name %q is empty or used twice", name)
	}
	w.names[name] = true
	start := w.weights.n
	if err := w.codec.Encode(w.weights, t); err != nil {
		return fmt.Errorf("storing tensor %q: %w", name, err)
	}
	w.tensors = append(w.tensors, Tensor{
		Name: name, DType: t.DType(), Shape: t.Shape().Clone(),
		Offset: start, Length: w.weights.n - start, SHA256: sha256Hex(t.Bytes()),
	})
	return nil
}

// AddFile stores the content of r under a plain relative name.
func (w *Writer) AddFile(name string, r io.Reader) error {
	entry := File{Name: name, SHA256: sha256Hex(nil)}
	if err := entry.check(); err != nil {
		return err
	}
	if name == ManifestName || name == weightsName {
		return fmt.Errorf("file name %q is reserved", name)
	}
	path := filepath.Join(w.temp, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	out := &countingFile{f: f, h: sha256.New()}
	if _, err := io.Copy(out, r); err != nil {
		return errors.Join(err, f.Close())
	}
	entry, err = out.finish(name)
	if err != nil {
		return err
	}
	w.files = append(w.files, entry)
	w.sealed = false
	return nil
}

// Seal writes the manifest, which takes its tensors, files and weights from
// what was added, and syncs everything. It returns the directory in which the
// whole package now lies under its temporary name, ready for a check. After it
// no tensors can be added; files can, such as a report of the check, and then
// the package must be sealed again.
func (w *Writer) Seal(m *Manifest) (string, error) {
	if w.stored == nil {
		weights, err := w.weights.finish(weightsName)
		if err != nil {
			return "", err
		}
		w.stored = &Weights{weights, w.codec.Name()}
	}
	m.Schema = SchemaVersion
	m.Weights = *w.stored
	m.Tensors = w.tensors
	m.Files = w.files
	if err := m.check(Limits{}.withDefaults()); err != nil {
		return "", err
	}
	data, err := m.Encode()
	if err != nil {
		return "", err
	}
	const next = ManifestName + ".next"
	f, err := os.OpenFile(filepath.Join(w.temp, next), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return "", err
	}
	out := &countingFile{f: f, h: sha256.New()}
	if _, err := out.Write(data); err != nil {
		return "", errors.Join(err, f.Close())
	}
	if _, err := out.finish(ManifestName); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(w.temp, next), filepath.Join(w.temp, ManifestName)); err != nil {
		return "", err
	}
	w.sealed = true
	return w.temp, syncDir(w.temp)
}

// Publish gives the sealed package its final name.
func (w *Writer) Publish() error {
	if !w.sealed {
		return errors.New("pack: Publish without Seal")
	}
	if err := checkDestination(w.dest, w.over); err != nil {
		return err
	}
	if err := publish(w.temp, w.dest); err != nil {
		return err
	}
	w.temp = ""
	return errors.Join(syncDir(filepath.Dir(w.dest)), w.lock.Close())
}

// Abort removes what was written, unless it was published. It may be called
// after Publish, and then does nothing.
func (w *Writer) Abort() {
	if w.temp == "" {
		return
	}
	if w.weights != nil && w.stored == nil {
		w.weights.f.Close()
	}
	os.RemoveAll(w.temp)
	w.temp = ""
	w.lock.Close()
}

// countingFile writes to a file and keeps its size and digest.
type countingFile struct {
	f *os.File
	h hash.Hash
	n int64
}

func (c *countingFile) Write(p []byte) (int, error) {
	n, err := c.f.Write(p)
	c.h.Write(p[:n])
	c.n += int64(n)
	return n, err
}

func (c *countingFile) finish(name string) (File, error) {
	if err := errors.Join(c.f.Sync(), c.f.Close()); err != nil {
		return File{}, err
	}
	return File{name, c.n, hex.EncodeToString(c.h.Sum(nil))}, nil
}
