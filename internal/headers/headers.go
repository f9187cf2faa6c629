package headers

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing/fstest"
	"time"

	"github.com/hfcompress/compress/tensor"
)

// Model is a checkpoint without values.
type Model struct {
	// ConfigPath is the path of the configuration, empty when there is none, and
	// Config its text.
	ConfigPath string
	Config     []byte
	// File is the path of the safetensors file.
	File string
	// Tensors are in the order of the file.
	Tensors []Tensor
}

// Tensor is an entry of the header.
type Tensor struct {
	Name  string
	DType tensor.DType
	Shape tensor.Shape
}

// maxTensors bounds what the ranges of a text may ask for.
const maxTensors = 1 << 14

// Parse reads a model's text:
//
//	# a remark
//	config PATH JSON      or: config none
//	file PATH
//	DTYPE [2,3] NAME      one tensor, or several: {0-3,7} in NAME stands for numbers
func Parse(text []byte) (*Model, error) {
	m := &Model{}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := m.line(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if m.File == "" || len(m.Tensors) == 0 {
		return nil, fmt.Errorf("no file, or no tensors")
	}
	return m, nil
}

func (m *Model) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "config":
		if rest == "none" {
			return nil
		}
		name, text, _ := strings.Cut(rest, " ")
		if !fs.ValidPath(name) || !json.Valid([]byte(text)) {
			return fmt.Errorf("expected config PATH JSON")
		}
		m.ConfigPath, m.Config = name, []byte(text)
		return nil
	case "file":
		if !fs.ValidPath(rest) {
			return fmt.Errorf("%q is no path", rest)
		}
		m.File = rest
		return nil
	}
	d, err := tensor.ParseDType(word)
	if err != nil {
		return err
	}
	list, name, _ := strings.Cut(rest, " ")
	var shape tensor.Shape
	if err := json.Unmarshal([]byte(list), &shape); err != nil || name == "" {
		return fmt.Errorf("expected DTYPE [SHAPE] NAME")
	}
	if _, err := shape.Bytes(d); err != nil {
		return err
	}
	before, after, several := strings.Cut(name, "{")
	if !several {
		m.Tensors = append(m.Tensors, Tensor{name, d, shape})
		return nil
	}
	list, after, _ = strings.Cut(after, "}")
	for _, part := range strings.Split(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA != nil || errB != nil || a > b || b-a > maxTensors-len(m.Tensors) {
			return fmt.Errorf("%q is no range of numbers", part)
		}
		for n := a; n <= b; n++ {
			m.Tensors = append(m.Tensors, Tensor{before + strconv.Itoa(n) + after, d, shape})
		}
	}
	return nil
}

// Header returns the beginning of the safetensors file, up to the values, and
// the length of the whole file.
func (m *Model) Header() (head []byte, size int64, err error) {
	var b bytes.Buffer
	b.WriteString(`{"__metadata__":{"format":"pt"}`)
	at := int64(0)
	for _, t := range m.Tensors {
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, 0, err
		}
		shape := t.Shape
		if shape == nil {
			shape = tensor.Shape{}
		}
		dims, err := json.Marshal(shape)
		if err != nil {
			return nil, 0, err
		}
		n, err := t.Shape.Bytes(t.DType)
		if err != nil {
			return nil, 0, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		fmt.Fprintf(&b, `,%s:{"dtype":"%v","shape":%s,"data_offsets":[%d,%d]}`, name, t.DType, dims, at, at+int64(n))
		at += int64(n)
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	head = binary.LittleEndian.AppendUint64(nil, uint64(b.Len()))
	head = append(head, b.Bytes()...)
	return head, int64(len(head)) + at, nil
}

// Write makes dir hold the model. The file has no blocks on disk beyond its
// header where the file system has sparse files; elsewhere it takes its length.
func (m *Model) Write(dir string) error {
	head, size, err := m.Header()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, filepath.FromSlash(m.File))
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(file, head, 0o666); err != nil {
		return err
	}
	if err := os.Truncate(file, size); err != nil {
		return err
	}
	if m.ConfigPath == "" {
		return nil
	}
	config := filepath.Join(dir, filepath.FromSlash(m.ConfigPath))
	if err := os.MkdirAll(filepath.Dir(config), 0o777); err != nil {
		return err
	}
	return os.WriteFile(config, m.Config, 0o666)
}

// FS returns the model's files. Reading a value gives an error: nothing that
// works on headers may ask for one.
func (m *Model) FS() (fs.FS, error) {
	head, size, err := m.Header()
	if err != nil {
		return nil, err
	}
	files := fstest.MapFS{m.File: &fstest.MapFile{Data: head}}
	if m.ConfigPath != "" {
		files[m.ConfigPath] = &fstest.MapFile{Data: m.Config}
	}
	return &headFS{MapFS: files, file: m.File, head: head, size: size}, nil
}

type headFS struct {
	fstest.MapFS
	file string
	head []byte
	size int64
}

func (f *headFS) Open(name string) (fs.File, error) {
	if name != f.file {
		return f.MapFS.Open(name)
	}
	return &headFile{Reader: bytes.NewReader(f.head), name: path.Base(name), size: f.size}, nil
}

func (f *headFS) Stat(name string) (fs.FileInfo, error) {
	if name != f.file {
		return f.MapFS.Stat(name)
	}
	return headInfo{path.Base(name), f.size}, nil
}

// headFile is the file as far as its header goes.
type headFile struct {
	*bytes.Reader
	name string
	size int64
}

func (f *headFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.Reader.ReadAt(p, off)
	if err == io.EOF && off+int64(n) < f.size {
		return n, fmt.Errorf("%s: the values are not there", f.name)
	}
	return n, err
}

func (f *headFile) Stat() (fs.FileInfo, error) { return headInfo{f.name, f.size}, nil }
func (f *headFile) Close() error               { return nil }

type headInfo struct {
	name string
	size int64
}

func (i headInfo) Name() string     { return i.name }
func (i headInfo) Size() int64      { return i.size }
func (headInfo) Mode() fs.FileMode  { return 0o444 }
func (headInfo) ModTime() time.Time { return time.Time{} }
func (headInfo) IsDir() bool        { return false }
func (headInfo) Sys() any           { return nil }
