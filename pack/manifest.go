package pack

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hfcompress/compress/tensor"
)

// SchemaVersion is the version of the manifest that this package writes and the
// only one that it reads.
const SchemaVersion = 1

// Names of files in a package. A package without a report is whole too, and one
// with an architecture file needs no configuration; the others must be there.
const (
	ManifestName = "manifest.json"
	ConfigName   = "config.json"
	ArchName     = "arch.json"
	ExamplesName = "examples.json"
	OutputsName  = "outputs.json"
	ReportName   = "report.json"
	PageName     = "report.html"
)

// ErrCorrupt is wrapped by every error that says that a package is not what was
// written: a digest, size, shape or name that does not hold.
var ErrCorrupt = errors.New("damaged package")

// Manifest describes a package. Its JSON form is canonical: the bytes of
// manifest.json are exactly what [Manifest.Encode] gives, so that any change to
// the file is noticed.
type Manifest struct {
	Schema int `json:"schema"`
	// Digest is the SHA-256 of the manifest with this field empty.
	Digest string `json:"digest"`
	// Status is "compressed", "no_reduction" or "rolled_back".
	Status string `json:"status"`
	Source Source `json:"source"`
	// Architecture is the registered name of the model's family.
	Architecture string `json:"architecture"`
	// Device tells where the model was validated.
	Device Device `json:"device"`
	// Gate summarises the whole-model comparison.
	Gate GateSummary `json:"gate"`
	// Blocks lists the rewritten blocks.
	Blocks []Block `json:"blocks"`
	// Tables lists the tables that are held as rows in a smaller form than a plain
	// tensor.
	Tables []Table `json:"tables,omitempty"`
	// Weights locates the stored tensors.
	Weights Weights `json:"weights"`
	// Tensors lists what is stored, in storage order.
	Tensors []Tensor `json:"tensors"`
	// Aliases gives the stored name of tensors that are stored under another one,
	// as tied weights are.
	Aliases map[string]string `json:"aliases,omitempty"`
	// Files lists every other file of the package.
	Files []File `json:"files"`
}

// Source tells where a model came from.
type Source struct {
	// Repo is "org/name", or empty for a local directory.
	Repo     string `json:"repo,omitempty"`
	Revision string `json:"revision,omitempty"`
	Commit   string `json:"commit,omitempty"`
	// Files lists the weight files and config.json as they were read.
	Files []File `json:"files"`
}

// Device names a device by what decides its bits.
type Device struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// GateSummary is the outcome of the whole-model comparison in short; the report
// has the rest.
type GateSummary struct {
	// Require is "bitwise" or "tolerance".
	Require  string `json:"require"`
	Accepted bool   `json:"accepted"`
	// Exact and Bitwise say whether all outputs of the packaged model had the
	// source's values, and its bytes.
	Exact    bool `json:"exact"`
	Bitwise  bool `json:"bitwise"`
	Examples int  `json:"examples"`
}

// Block is one rewritten block.
type Block struct {
	Path string `json:"path"`
	// Recipe is the pass's own versioned description.
	Recipe json.RawMessage `json:"recipe"`
	// Prefix stands before the names of the block's tensors in the package.
	Prefix string `json:"prefix"`
}

// Table is a table held as rows in a smaller form.
type Table struct {
	// Tensor is the parameter that it stands for.
	Tensor string `json:"tensor"`
	// Recipe is the form's own versioned description.
	Recipe json.RawMessage `json:"recipe"`
	// Prefix stands before the names of the form's tensors in the package.
	Prefix string `json:"prefix"`
}

// Weights says how tensors are stored.
type Weights struct {
	File
	// Codec is "safetensors" for a plain file, else the name of the codec of each
	// tensor's bytes.
	Codec string `json:"codec"`
}

// Tensor is one stored tensor.
type Tensor struct {
	Name  string       `json:"name"`
	DType tensor.DType `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
	// Offset and Length locate the stored bytes in the weights file.
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
	// SHA256 is the digest of the tensor's own bytes, not of the stored form.
	SHA256 string `json:"sha256"`
}

// File is a file by name, size and digest.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Encode returns the canonical bytes, with Digest set.
func (m *Manifest) Encode() ([]byte, error) {
	c := *m
	c.Digest = ""
	plain, err := EncodeJSON(&c)
	if err != nil {
		return nil, err
	}
	c.Digest = sha256Hex(plain)
	m.Digest = c.Digest
	return EncodeJSON(&c)
}

// Limits bound what [Open] accepts. Zero values mean the defaults.
type Limits struct {
	// ManifestBytes bounds manifest.json; 64 MiB by default.
	ManifestBytes int64
	// TensorBytes bounds one tensor; 64 GiB by default.
	TensorBytes int64
}

func (l Limits) withDefaults() Limits {
	if l.ManifestBytes == 0 {
		l.ManifestBytes = 64 << 20
	}
	if l.TensorBytes == 0 {
		l.TensorBytes = 64 << 30
	}
	return l
}

// ParseManifest reads manifest.json strictly: known fields only, canonical
// bytes, a digest that holds, and names, sizes and ranges that are possible.
func ParseManifest(data []byte, limits Limits) (*Manifest, error) {
	limits = limits.withDefaults()
	if int64(len(data)) > limits.ManifestBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes, the limit is %d", ErrCorrupt, ManifestName, len(data), limits.ManifestBytes)
	}
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrCorrupt, ManifestName, err)
	}
	if version.Schema != SchemaVersion {
		return nil, fmt.Errorf("%s has schema %d, this version reads %d", ManifestName, version.Schema, SchemaVersion)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	m := new(Manifest)
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrCorrupt, ManifestName, err)
	}
	recorded := m.Digest
	canonical, err := m.Encode()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrCorrupt, ManifestName, err)
	}
	if recorded != m.Digest {
		return nil, fmt.Errorf("%w: %s: digest is %s, recorded %q", ErrCorrupt, ManifestName, m.Digest, recorded)
	}
	if !bytes.Equal(canonical, data) {
		return nil, fmt.Errorf("%w: %s is not in canonical form", ErrCorrupt, ManifestName)
	}
	if err := m.check(limits); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrCorrupt, ManifestName, err)
	}
	return m, nil
}

// check refuses what no writer would have written.
func (m *Manifest) check(limits Limits) error {
	switch m.Status {
	case "compressed", "no_reduction", "rolled_back":
	default:
		return fmt.Errorf("unknown status %q", m.Status)
	}
	if m.Architecture == "" {
		return errors.New("no architecture")
	}
	seen := map[string]bool{ManifestName: true}
	for _, f := range append(slices.Clone(m.Files), m.Weights.File) {
		if err := f.check(); err != nil {
			return err
		}
		if seen[f.Name] {
			return fmt.Errorf("file %q is listed twice", f.Name)
		}
		seen[f.Name] = true
	}
	for _, name := range []string{ExamplesName, OutputsName} {
		if !seen[name] {
			return fmt.Errorf("file %q is not listed", name)
		}
	}
	if !seen[ConfigName] && !seen[ArchName] {
		return fmt.Errorf("neither file %q nor %q is listed", ConfigName, ArchName)
	}
	var end int64
	names := map[string]bool{}
	for _, t := range m.Tensors {
		if t.Name == "" || names[t.Name] {
			return fmt.Errorf("tensor name %q is empty or used twice", t.Name)
		}
		names[t.Name] = true
		size, err := t.Shape.Bytes(t.DType)
		if err != nil {
			return fmt.Errorf("tensor %q: %v", t.Name, err)
		}
		if int64(size) > limits.TensorBytes {
			return fmt.Errorf("tensor %q has %d bytes, the limit is %d", t.Name, size, limits.TensorBytes)
		}
		if !isSHA256(t.SHA256) {
			return fmt.Errorf("tensor %q: %q is not a SHA-256", t.Name, t.SHA256)
		}
		if t.Offset != end || t.Length < 0 || t.Length > m.Weights.Size-end {
			return fmt.Errorf("tensor %q lies at %d+%d, expected it from %d within %d bytes", t.Name, t.Offset, t.Length, end, m.Weights.Size)
		}
		end += t.Length
	}
	if end != m.Weights.Size {
		return fmt.Errorf("tensors fill %d of %d bytes of %s", end, m.Weights.Size, m.Weights.Name)
	}
	for name, stored := range m.Aliases {
		if name == "" || names[name] || !names[stored] {
			return fmt.Errorf("alias %q of %q: the one must not be stored and the other must", name, stored)
		}
	}
	paths := map[string]bool{}
	for _, b := range m.Blocks {
		if b.Path == "" || paths[b.Path] {
			return fmt.Errorf("block path %q is empty or used twice", b.Path)
		}
		paths[b.Path] = true
	}
	for _, t := range m.Tables {
		if t.Tensor == "" || names[t.Tensor] || m.Aliases[t.Tensor] != "" {
			return fmt.Errorf("table %q is empty, used twice, or stored plain too", t.Tensor)
		}
		names[t.Tensor] = true
	}
	return nil
}

func (f File) check() error {
	if !fs.ValidPath(f.Name) || f.Name == "." || strings.ContainsAny(f.Name, `\:`) {
		return fmt.Errorf("file name %q is not a plain relative path", f.Name)
	}
	if f.Size < 0 || !isSHA256(f.SHA256) {
		return fmt.Errorf("file %q has size %d and digest %q", f.Name, f.Size, f.SHA256)
	}
	return nil
}

func isSHA256(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && strings.ToLower(s) == s
}

// EncodeJSON writes v as all JSON files of a package are written: indented by
// two spaces, without HTML escapes, with a newline at the end.
func EncodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// RawBytes is the size of all stored tensors when they are decoded, an alias not
// counted.
func (m *Manifest) RawBytes() (int64, error) {
	total := int64(0)
	for _, t := range m.Tensors {
		n, err := t.Shape.Bytes(t.DType)
		if err != nil {
			return 0, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		total += int64(n)
	}
	return total, nil
}
