package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/tensor"
)

// Package is an open package. It is safe for concurrent use.
type Package struct {
	dir      string
	manifest *Manifest
	weights  *os.File
	codec    Codec
	byName   map[string]Tensor
}

// Open reads the package in dir and checks every byte of it: the manifest, and
// the size and digest of each file that it lists. What does not hold gives an
// error that wraps [ErrCorrupt] and names the file. Files that the manifest does
// not list are never read.
func Open(dir string, limits Limits) (*Package, error) {
	limits = limits.withDefaults()
	data, err := readLimited(filepath.Join(dir, ManifestName), limits.ManifestBytes)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s is not a package: it has no %s", dir, ManifestName)
		}
		return nil, err
	}
	m, err := ParseManifest(data, limits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	codec, err := CodecByName(m.Weights.Codec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	p := &Package{dir: dir, manifest: m, codec: codec, byName: make(map[string]Tensor, len(m.Tensors))}
	for _, t := range m.Tensors {
		p.byName[t.Name] = t
	}
	for _, f := range m.Files {
		file, err := openChecked(dir, f)
		if err != nil {
			return nil, err
		}
		file.Close()
	}
	if p.weights, err = openChecked(dir, m.Weights.File); err != nil {
		return nil, err
	}
	return p, nil
}

// Dir returns the package's directory.
func (p *Package) Dir() string { return p.dir }

// Manifest returns the package's manifest; callers must not change it.
func (p *Package) Manifest() *Manifest { return p.manifest }

// Close releases the package's files. Tensors already read stay valid.
func (p *Package) Close() error { return p.weights.Close() }

// Tensor reads and decodes one stored tensor and checks its digest. Aliases are
// resolved.
func (p *Package) Tensor(name string) (*tensor.Tensor, error) {
	stored := name
	if to, ok := p.manifest.Aliases[name]; ok {
		stored = to
	}
	t, ok := p.byName[stored]
	if !ok {
		return nil, fmt.Errorf("%s has no tensor %q", p.dir, name)
	}
	out, err := tensor.New(t.DType, t.Shape...)
	if err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", p.dir, name, err)
	}
	encoded := make([]byte, t.Length)
	if _, err := p.weights.ReadAt(encoded, t.Offset); err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", p.dir, name, err)
	}
	if err := p.codec.Decode(out.Bytes(), t.DType, encoded); err != nil {
		return nil, fmt.Errorf("%w: %s: tensor %q: %v", ErrCorrupt, p.dir, name, err)
	}
	if got := sha256Hex(out.Bytes()); got != t.SHA256 {
		return nil, fmt.Errorf("%w: %s: tensor %q has SHA-256 %s, expected %s", ErrCorrupt, p.dir, name, got, t.SHA256)
	}
	return out, nil
}

// File reads one of the package's files whole, checked against its digest.
func (p *Package) File(name string) ([]byte, error) {
	for _, f := range p.manifest.Files {
		if f.Name != name {
			continue
		}
		data, err := readLimited(filepath.Join(p.dir, filepath.FromSlash(name)), f.Size)
		if err != nil {
			return nil, err
		}
		if got := sha256Hex(data); got != f.SHA256 {
			return nil, fmt.Errorf("%w: %s has SHA-256 %s, expected %s", ErrCorrupt, filepath.Join(p.dir, name), got, f.SHA256)
		}
		return data, nil
	}
	return nil, fmt.Errorf("%s has no file %q: %w", p.dir, name, fs.ErrNotExist)
}

// Unlisted names files that lie in the package's directory and are not part of
// it. They are never read.
func (p *Package) Unlisted() ([]string, error) {
	listed := map[string]bool{ManifestName: true, ValidationsName: true, p.manifest.Weights.Name: true}
	for _, f := range p.manifest.Files {
		listed[f.Name] = true
	}
	var extra []string
	err := fs.WalkDir(os.DirFS(p.dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !listed[name] {
			extra = append(extra, name)
		}
		return err
	})
	return extra, err
}

// openChecked opens a file of a package after checking its size and digest.
func openChecked(dir string, want File) (*os.File, error) {
	path := filepath.Join(dir, filepath.FromSlash(want.Name))
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, want.Size+1))
	switch got := hex.EncodeToString(h.Sum(nil)); {
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	case n > want.Size:
		err = fmt.Errorf("%w: %s is longer than %d bytes", ErrCorrupt, path, want.Size)
	case n < want.Size:
		err = fmt.Errorf("%w: %s ends after %d of %d bytes", ErrCorrupt, path, n, want.Size)
	case got != want.SHA256:
		err = fmt.Errorf("%w: %s has SHA-256 %s, expected %s", ErrCorrupt, path, got, want.SHA256)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: %s is longer than %d bytes", ErrCorrupt, path, limit)
	}
	return data, nil
}
