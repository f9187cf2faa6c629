package hub

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

const (
	// firstRead is what one range asks for: most headers fit.
	firstRead = 128 << 10
	// maxHeader is the Hub clients' own limit.
	maxHeader = 25_000_000
	// maxIndex bounds an index file, maxShards the files it may name.
	maxIndex   = 128 << 20
	maxShards  = 10_000
	maxTensors = 1_000_000
	maxRank    = 16
)

// SafetensorsOptions selects what [Client.RemoteSafetensors] reads.
type SafetensorsOptions struct {
	// Files are the safetensors files to read. Empty: the repository's model,
	// that is model.safetensors, else the shards of its index, else every
	// safetensors file.
	Files []string
	// Strict fails if the index and the shards disagree. Without it the
	// disagreement is listed in Problems.
	Strict bool
}

// SafetensorsInfo is what the headers of a repository say.
type SafetensorsInfo struct {
	Commit Commit
	Files  []SafetensorsFile
	// WeightMap is the index's map from tensor to file; nil without an index.
	WeightMap map[string]string
	// Problems are disagreements between index and shards.
	Problems []string
}

// SafetensorsFile is the header of one file.
type SafetensorsFile struct {
	File File
	// Header is the JSON text as stored; data begins at byte 8+len(Header).
	Header []byte
	// Tensors are in the order of the header.
	Tensors []TensorInfo
	// Metadata is __metadata__; nil if absent or null.
	Metadata map[string]string
}

// TensorInfo is one entry of a header. DType is as written; an unknown one is
// no error here.
type TensorInfo struct {
	Name  string
	DType string
	Shape []int64
	// Begin and End are byte offsets from the start of the data.
	Begin, End int64
}

// RemoteSafetensors reads the headers of a repository's safetensors files by
// range requests alone: some hundred kilobytes for a model of any size. Files
// in the cache are read there, so that it works offline as well.
func (c *Client) RemoteSafetensors(ctx context.Context, r Repo, revision string, o SafetensorsOptions) (*SafetensorsInfo, error) {
	info, err := c.remoteSafetensors(ctx, r, revision, o)
	if err != nil {
		return nil, withPlace(err, "read headers", r, revision, "")
	}
	return info, nil
}

func (c *Client) remoteSafetensors(ctx context.Context, r Repo, revision string, o SafetensorsOptions) (*SafetensorsInfo, error) {
	cm, err := c.resolve(ctx, r, revision)
	if err != nil {
		return nil, err
	}
	files, err := c.listOrScan(ctx, r, cm)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]File, len(files))
	for _, f := range files {
		byName[f.Path] = f
	}
	info := &SafetensorsInfo{Commit: cm}
	names := o.Files
	if len(names) == 0 {
		if names, err = c.chooseSafetensors(ctx, r, cm, byName, info); err != nil {
			return nil, err
		}
	}
	for _, n := range names {
		f, ok := byName[n]
		if !ok {
			return nil, &Error{Kind: ErrEntryNotFound, File: n}
		}
		info.Files = append(info.Files, SafetensorsFile{File: f})
	}
	if err := c.readHeaders(ctx, r, cm, info.Files); err != nil {
		return nil, err
	}
	info.compare()
	if o.Strict && len(info.Problems) > 0 {
		return nil, &Error{Kind: ErrMetadata, Message: fmt.Sprintf("index and shards disagree: %s (%d in all)", info.Problems[0], len(info.Problems))}
	}
	return info, nil
}

// listOrScan lists a commit, from the snapshot's files if there is no listing
// and no network.
func (c *Client) listOrScan(ctx context.Context, r Repo, cm Commit) ([]File, error) {
	files, err := c.list(ctx, r, cm)
	if err == nil || !c.opts.Offline {
		return files, err
	}
	dir := c.cacheOf(r).snapshot(cm)
	if ok, _ := isDir(dir); !ok {
		return nil, err
	}
	return scanSnapshot(dir)
}

// chooseSafetensors finds the files that make up the model.
func (c *Client) chooseSafetensors(ctx context.Context, r Repo, cm Commit, files map[string]File, info *SafetensorsInfo) ([]string, error) {
	if _, ok := files["model.safetensors"]; ok {
		return []string{"model.safetensors"}, nil
	}
	var all []string
	index := ""
	for name := range files {
		switch {
		case strings.HasSuffix(name, ".safetensors"):
			all = append(all, name)
		case strings.HasSuffix(name, ".safetensors.index.json") && !strings.Contains(name, "/") && (index == "" || name < index):
			index = name
		}
	}
	if f, ok := files["model.safetensors.index.json"]; ok {
		index = f.Path
	}
	if index == "" {
		slices.Sort(all)
		if len(all) == 0 {
			return nil, &Error{Kind: ErrEntryNotFound, Message: "the repository has no safetensors file"}
		}
		return all, nil
	}
	f := files[index]
	if f.Size > maxIndex {
		return nil, &Error{Kind: ErrMetadata, File: index, Message: fmt.Sprintf("the index is longer than %d bytes", maxIndex)}
	}
	at, done, err := c.readerAt(ctx, r, cm, f)
	if err != nil {
		return nil, err
	}
	defer done()
	b := make([]byte, f.Size)
	if _, err := at.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	weights, shards, err := parseIndex(b)
	if err != nil {
		return nil, &Error{Kind: ErrMetadata, File: index, Err: err}
	}
	info.WeightMap = weights
	return shards, nil
}

// parseIndex reads the weight_map of an index and returns the shards in order.
func parseIndex(b []byte) (weights map[string]string, shards []string, err error) {
	var idx struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &idx); err != nil || len(idx.WeightMap) == 0 {
		return nil, nil, fmt.Errorf("the index has no weight_map of tensor names to file names")
	}
	seen := map[string]bool{}
	for _, f := range idx.WeightMap {
		if seen[f] {
			continue
		}
		if err := CheckPath(f); err != nil {
			return nil, nil, err
		}
		if seen[f] = true; len(seen) > maxShards {
			return nil, nil, fmt.Errorf("the index names more than %d files", maxShards)
		}
		shards = append(shards, f)
	}
	slices.Sort(shards)
	return idx.WeightMap, shards, nil
}

// readerAt opens a file of a commit: from the cache if it is there, else on
// the Hub.
func (c *Client) readerAt(ctx context.Context, r Repo, cm Commit, f File) (io.ReaderAt, func(), error) {
	p, err := c.cacheOf(r).pointer(cm, f.Path)
	if err != nil {
		return nil, nil, err
	}
	if exists(p) {
		local, err := os.Open(extended(p))
		if err != nil {
			return nil, nil, &Error{Kind: ErrCache, Err: err}
		}
		return local, func() { _ = local.Close() }, nil
	}
	remote, err := c.remoteFile(ctx, r, cm, f)
	return remote, func() {}, err
}

// readHeaders fills in the headers, several files at once. The first error in
// the order of the files is returned.
func (c *Client) readHeaders(ctx context.Context, r Repo, cm Commit, files []SafetensorsFile) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(files))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(c.opts.Workers, len(files)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				if errs[i] = c.readHeader(ctx, r, cm, &files[i]); errs[i] != nil {
					cancel()
				}
			}
		}()
	}
	for i := range files {
		next <- i
	}
	close(next)
	wg.Wait()
	var first error
	for i, err := range errs {
		if err == nil {
			continue
		}
		err = withPlace(err, "read headers", r, string(cm), files[i].File.Path)
		// A cancelled neighbour is a consequence, not the cause.
		if first == nil || isCancel(first) && !isCancel(err) {
			first = err
		}
	}
	return first
}

func (c *Client) readHeader(ctx context.Context, r Repo, cm Commit, s *SafetensorsFile) error {
	at, done, err := c.readerAt(ctx, r, cm, s.File)
	if err != nil {
		return err
	}
	defer done()
	s.Header, err = headerBytes(at, s.File.Size)
	if err != nil {
		return err
	}
	s.Tensors, s.Metadata, err = parseHeader(s.Header, s.File.Size)
	if err != nil {
		return &Error{Kind: ErrMetadata, Err: err}
	}
	return nil
}

// headerBytes reads the header with one range, or two if it is long.
func headerBytes(at io.ReaderAt, size int64) ([]byte, error) {
	bad := func(format string, v ...any) error {
		return &Error{Kind: ErrMetadata, Message: "not a safetensors file: " + fmt.Sprintf(format, v...)}
	}
	if size < 8 {
		return nil, bad("%d bytes long", size)
	}
	first := make([]byte, min(size, firstRead))
	if _, err := at.ReadAt(first, 0); err != nil && err != io.EOF {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(first)
	if n > maxHeader || int64(n) > size-8 {
		return nil, bad("header of %d bytes in a file of %d", n, size)
	}
	if int64(n) <= int64(len(first))-8 {
		return first[8 : 8+n : 8+n], nil
	}
	header := make([]byte, n)
	have := copy(header, first[8:])
	if _, err := at.ReadAt(header[have:], int64(8+have)); err != nil && err != io.EOF {
		return nil, err
	}
	return header, nil
}

// compare lists where index and shards disagree.
func (info *SafetensorsInfo) compare() {
	if info.WeightMap == nil {
		return
	}
	where := map[string]string{}
	for _, f := range info.Files {
		for _, t := range f.Tensors {
			if other, twice := where[t.Name]; twice {
				info.Problems = append(info.Problems, fmt.Sprintf("tensor %q is in %s and in %s", clip(t.Name, 128), other, f.File.Path))
			}
			where[t.Name] = f.File.Path
			if _, ok := info.WeightMap[t.Name]; !ok {
				info.Problems = append(info.Problems, fmt.Sprintf("tensor %q of %s is not in the index", clip(t.Name, 128), f.File.Path))
			}
		}
	}
	for name, file := range info.WeightMap {
		if where[name] != file {
			info.Problems = append(info.Problems, fmt.Sprintf("the index places tensor %q in %s, which does not hold it", clip(name, 128), path.Base(file)))
		}
	}
	slices.Sort(info.Problems)
}

// parseHeader reads a header token by token, so that duplicate names show and
// nothing is sized by what the text claims. size is that of the whole file.
func parseHeader(header []byte, size int64) ([]TensorInfo, map[string]string, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, fmt.Errorf("the header does not start with {")
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("the header is not valid JSON")
	}
	dataLen := size - 8 - int64(len(header))
	var tensors []TensorInfo
	var meta map[string]string
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		name, ok := tok.(string)
		if err != nil || !ok {
			return nil, nil, fmt.Errorf("the header is not valid JSON")
		}
		if seen[name] {
			return nil, nil, fmt.Errorf("the name %q occurs twice", clip(name, 128))
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := dec.Decode(&meta); err != nil {
				return nil, nil, fmt.Errorf("__metadata__ is not a map of strings")
			}
			continue
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, nil, fmt.Errorf("the header is not valid JSON")
		}
		if len(tensors) >= maxTensors {
			return nil, nil, fmt.Errorf("more than %d tensors", maxTensors)
		}
		t, err := parseTensor(name, raw, dataLen)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", clip(name, 128), err)
		}
		tensors = append(tensors, t)
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("the header is not valid JSON")
	}
	if rest := strings.TrimLeft(string(header[dec.InputOffset():]), " "); rest != "" {
		return nil, nil, fmt.Errorf("text follows the header's object")
	}
	return tensors, meta, checkLayout(tensors, dataLen)
}

func parseTensor(name string, raw json.RawMessage, dataLen int64) (TensorInfo, error) {
	var e struct {
		DType   string
		Shape   []int64
		Offsets []int64
	}
	// Key by key: a plain decoder would take "DTYPE" for "dtype" and the
	// last of two equal keys.
	fields := map[string]any{"dtype": &e.DType, "shape": &e.Shape, "data_offsets": &e.Offsets}
	dec := json.NewDecoder(bytes.NewReader(raw))
	tok, err := dec.Token()
	good := err == nil && tok == json.Delim('{')
	for good && dec.More() {
		tok, err := dec.Token()
		key, _ := tok.(string)
		field := fields[key]
		delete(fields, key)
		good = err == nil && field != nil && dec.Decode(field) == nil
	}
	if !good || len(fields) > 0 || e.Shape == nil || len(e.Offsets) != 2 || e.DType == "" || len(e.DType) > 32 {
		return TensorInfo{}, fmt.Errorf("dtype, shape and data_offsets expected, each once")
	}
	t := TensorInfo{Name: name, DType: e.DType, Shape: e.Shape, Begin: e.Offsets[0], End: e.Offsets[1]}
	if len(t.Shape) > maxRank {
		return t, fmt.Errorf("rank %d is above %d", len(t.Shape), maxRank)
	}
	if t.Begin < 0 || t.End < t.Begin || t.End > dataLen {
		return t, fmt.Errorf("bytes %d to %d of %d", t.Begin, t.End, dataLen)
	}
	n := int64(1)
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > (1<<62)/d {
			return t, fmt.Errorf("shape %v", t.Shape)
		}
		n *= d
	}
	bits, known := dtypeBits[t.DType]
	if !known {
		return t, nil
	}
	if n > (1<<62)/bits || n*bits%8 != 0 || n*bits/8 != t.End-t.Begin {
		return t, fmt.Errorf("%s with shape %v does not fill %d bytes", t.DType, t.Shape, t.End-t.Begin)
	}
	return t, nil
}

// dtypeBits are the sizes of the element types that the format knows.
var dtypeBits = map[string]int64{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "E8M0": 8,
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}

// checkLayout wants the tensors to cover the data without gap or overlap.
func checkLayout(tensors []TensorInfo, dataLen int64) error {
	order := slices.Clone(tensors)
	slices.SortStableFunc(order, func(a, b TensorInfo) int {
		if a.Begin != b.Begin {
			return int(max(min(a.Begin-b.Begin, 1), -1))
		}
		return int(max(min(a.End-b.End, 1), -1))
	})
	at := int64(0)
	for _, t := range order {
		if t.Begin != at {
			return fmt.Errorf("tensor %q begins at byte %d, expected %d", clip(t.Name, 128), t.Begin, at)
		}
		at = t.End
	}
	if at != dataLen {
		return fmt.Errorf("tensors end at byte %d of %d", at, dataLen)
	}
	return nil
}
