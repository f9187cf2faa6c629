package compress

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// StorageOptions say how a package holds the tensors that no block replaced. The
// forms change no value, so that nothing has to be compared but their bytes,
// which is done when they are made and again when the package is opened.
type StorageOptions struct {
	// KeepEqual stores equal tensors, and equal rows of tables, as often as they
	// occur. Without it each is held once, on disk and in memory.
	KeepEqual bool
	// PackTables keeps tables that the model only gathers rows from, such as
	// embeddings, compressed in memory too, in blocks of rows that are decoded when
	// one is read. It saves bytes and costs time at every call.
	PackTables bool
}

// StorageReport tells what [StorageOptions] did.
type StorageReport struct {
	// Shared lists the tensors that are held once for several names.
	Shared []finitepass.SharedGroup `json:"shared,omitempty"`
	// SharedBytes is what that saves in memory.
	SharedBytes int64 `json:"shared_bytes"`
	// Tables lists the tables that are held as rows in a smaller form.
	Tables []StoredTable `json:"tables,omitempty"`
}

// StoredTable is a table in a smaller form.
type StoredTable struct {
	Tensor string `json:"tensor"`
	// Form is "equal_rows" or "packed_rows".
	Form string `json:"form"`
	// FullBytes is the whole table; StoredBytes what is held instead, indices and
	// checks included.
	FullBytes   int64 `json:"full_bytes"`
	StoredBytes int64 `json:"stored_bytes"`
	// DistinctRows counts the rows that are held, of Rows.
	Rows         int `json:"rows"`
	DistinctRows int `json:"distinct_rows,omitempty"`

	values  int64 // numbers that are no longer held
	recipe  json.RawMessage
	tensors []finitepass.StoredTensor
}

// Sentences tell it in words.
func (s *StorageReport) Sentences() []string {
	var out []string
	if n := len(s.Shared); n > 0 {
		names := 0
		for _, g := range s.Shared {
			names += len(g.Names)
		}
		out = append(out, fmt.Sprintf("%d equal tensors are held once for %d names: %s bytes less in memory", n, n+names, Digits(s.SharedBytes)))
	}
	for _, t := range s.Tables {
		change := fmt.Sprintf("%s bytes instead of %s", Digits(t.StoredBytes), Digits(t.FullBytes))
		if t.Form == finitepass.EqualRowsKind {
			out = append(out, fmt.Sprintf("%s: %d different rows of %d and an index: %s", t.Tensor, t.DistinctRows, t.Rows, change))
		} else {
			out = append(out, fmt.Sprintf("%s: %d rows packed in memory, decoded when they are read: %s", t.Tensor, t.Rows, change))
		}
	}
	return out
}

// storage is the outcome of the storage passes.
type storage struct {
	report StorageReport
	// aliases maps a tensor to the equal one that is stored.
	aliases map[string]string
	values  int64 // numbers that sharing saves
}

// gatherOnly notes how a build reads its weights.
type gatherOnly struct {
	architectures.Weights

	mu      sync.Mutex
	rows    map[string]bool
	tensors map[string]bool
}

func newGatherOnly(weights architectures.Weights) *gatherOnly {
	return &gatherOnly{Weights: weights, rows: map[string]bool{}, tensors: map[string]bool{}}
}

// Tensor notes that the whole tensor was asked for.
func (g *gatherOnly) Tensor(name string) (*tensor.Tensor, error) {
	g.mu.Lock()
	g.tensors[name] = true
	g.mu.Unlock()
	return g.Weights.Tensor(name)
}

// Rows notes that rows were asked for, and gives those of the plain tensor.
func (g *gatherOnly) Rows(name string) (nn.RowSource, error) {
	g.mu.Lock()
	g.rows[name] = true
	g.mu.Unlock()
	t, err := g.Weights.Tensor(name)
	if err != nil {
		return nil, err
	}
	return nn.TensorRows(t)
}

// tables lists, in order, what the model gathers rows from and never reads whole.
func (g *gatherOnly) tables() []string {
	var out []string
	for name := range g.rows {
		if !g.tensors[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// planStorage runs the storage passes over the tensors that stay, for the package.
func (r *road) planStorage(ctx context.Context, removed map[string]bool) (*storage, error) {
	s := &storage{aliases: map[string]string{}}
	var params []loader.Param
	present, tied := map[string]bool{}, map[string]bool{}
	for _, name := range r.weights.Names() {
		present[name] = true
		if source := r.weights.Source(name); source != name {
			tied[name], tied[source] = true, true
		}
	}
	for _, p := range r.plan.Params() {
		if !removed[p.Name] && present[p.Name] {
			params = append(params, p)
		}
	}
	if !r.o.Storage.KeepEqual {
		if err := s.share(ctx, params, r.weights); err != nil {
			return nil, err
		}
	}
	for _, name := range r.gathered.tables() {
		// A table that has several names stays one tensor: what reads it under another
		// name may need it whole.
		if removed[name] || tied[name] || s.isShared(name) {
			continue
		}
		if err := s.table(ctx, name, r.weights, r.o.Storage); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// shrinkRest runs the storage passes and puts what they save into the report.
func (r *road) shrinkRest(ctx context.Context, compiled *finitepass.Result) (err error) {
	if r.storage, err = r.planStorage(ctx, r.removed(compiled)); err != nil || r.storage.empty() {
		return err
	}
	report := r.result.Report
	report.Storage = &r.storage.report
	bytes, values := r.storage.saved()
	report.Values.After -= values
	report.Bytes.Resident.After -= bytes
	report.Bytes.ResidentFullTables -= bytes
	// Shared tensors keep their names, so that only tables lower the logical bytes.
	report.Bytes.Logical.After -= bytes - r.storage.report.SharedBytes
	if report.Status == finitepass.NoReduction {
		report.Status, report.Reason = finitepass.Compressed, ""
		r.result.Status = report.Status
	}
	return nil
}

func (s *storage) isShared(name string) bool {
	if s.aliases[name] != "" {
		return true
	}
	return slices.ContainsFunc(s.report.Shared, func(g finitepass.SharedGroup) bool { return g.Tensor == name })
}

// share finds equal tensors.
func (s *storage) share(ctx context.Context, params []loader.Param, weights *loader.Weights) error {
	sharing, report, err := finitepass.ShareTensors(ctx, params, weights)
	if err != nil || sharing == nil {
		return err
	}
	s.report.Shared = sharing.Groups
	s.report.SharedBytes = report.Account.BytesSaved
	s.values += report.Account.ValuesSaved
	for _, g := range sharing.Groups {
		for _, name := range g.Names {
			s.aliases[name] = g.Tensor
		}
	}
	return nil
}

// table puts a table into a smaller form, when there is one.
func (s *storage) table(ctx context.Context, name string, weights architectures.Weights, o StorageOptions) error {
	t, err := weights.Tensor(name)
	if err != nil || len(t.Shape()) != 2 {
		return err
	}
	var rows nn.RowSource
	if !o.KeepEqual {
		equal, report, err := finitepass.StoreEqualRows(name, t)
		if err != nil {
			return err
		}
		if equal != nil {
			rows = equal
			held := int64(report.Distinct) * int64(t.Shape()[1])
			if report.Distinct > 1 {
				held += int64(report.Rows)
			}
			if err := s.keep(StoredTable{
				Tensor: name, Form: finitepass.EqualRowsKind, FullBytes: report.FullBytes, StoredBytes: report.StoredBytes,
				Rows: report.Rows, DistinctRows: report.Distinct, values: int64(t.Len()) - held,
			}, equal.Recipe(), equal.Tensors()); err != nil {
				return err
			}
		}
	}
	if !o.PackTables {
		return nil
	}
	if rows == nil {
		if rows, err = nn.TensorRows(t); err != nil {
			return err
		}
	}
	packed, report, err := finitepass.PackRows(ctx, name, rows, RowCodec(), finitepass.PackOptions{})
	if err != nil || packed == nil {
		return err
	}
	if done, ok := s.find(name); ok && done.StoredBytes <= report.StoredBytes {
		return nil
	}
	return s.keep(StoredTable{
		Tensor: name, Form: finitepass.PackedRowsKind, FullBytes: report.FullBytes, StoredBytes: report.StoredBytes,
		Rows: t.Shape()[0],
	}, packed.Recipe(), packed.Tensors())
}

func (s *storage) find(name string) (StoredTable, bool) {
	i := slices.IndexFunc(s.report.Tables, func(t StoredTable) bool { return t.Tensor == name })
	if i < 0 {
		return StoredTable{}, false
	}
	return s.report.Tables[i], true
}

// keep enters a table's form in place of an earlier one.
func (s *storage) keep(t StoredTable, recipe interface{ Encode() ([]byte, error) }, tensors []finitepass.StoredTensor) error {
	text, err := recipe.Encode()
	if err != nil {
		return err
	}
	t.recipe, t.tensors = compact(text), tensors
	s.report.Tables = append(slices.DeleteFunc(s.report.Tables, func(o StoredTable) bool { return o.Tensor == t.Tensor }), t)
	return nil
}

// saved is what the forms save in memory, and the numbers that are no longer
// held.
func (s *storage) saved() (bytes, values int64) {
	bytes, values = s.report.SharedBytes, s.values
	for _, t := range s.report.Tables {
		bytes += t.FullBytes - t.StoredBytes
		values += t.values
	}
	return bytes, values
}

// empty reports whether nothing was found.
func (s *storage) empty() bool { return len(s.aliases) == 0 && len(s.report.Tables) == 0 }

// RowCodec is the codec of tables that packages keep packed: the float codec, a
// block of rows as one tensor.
func RowCodec() finitepass.RowCodec { return rowCodec{} }

type rowCodec struct{}

func (rowCodec) Name() string { return "floatcodec" }

func (rowCodec) Encode(dst []byte, d tensor.DType, width int, raw []byte) ([]byte, error) {
	rows := 0
	if row := width * d.Size(); row > 0 {
		rows = len(raw) / row
	}
	return floatcodec.Encode(dst, d, tensor.Shape{rows, width}, raw, floatcodec.Options{})
}

func (rowCodec) Decode(dst, enc []byte, size int) ([]byte, error) {
	return floatcodec.Decode(dst, enc, floatcodec.Limits{MaxSize: int64(size)})
}

// tablePrefix stands before the names of a table's tensors in a package; see
// [blockPrefix].
func tablePrefix(name string) string { return "tables/" + name + "/" }

// openTables gives the view of a package's weights in which tables are rows in
// the form that the package holds.
func openTables(p *pack.Package) (architectures.RowWeights, error) {
	rows := map[string]nn.RowSource{}
	for _, t := range p.Manifest().Tables {
		source, err := openTable(p, t)
		if err != nil {
			return nil, fmt.Errorf("table %q: %w", t.Tensor, err)
		}
		rows[t.Tensor] = source
	}
	return finitepass.WithRows(p, rows), nil
}

func openTable(p *pack.Package, t pack.Table) (nn.RowSource, error) {
	get := func(name string) (*tensor.Tensor, error) { return p.Tensor(t.Prefix + name) }
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(t.Recipe, &kind); err != nil {
		return nil, err
	}
	var rows nn.RowSource
	var names string
	switch kind.Kind {
	case finitepass.EqualRowsKind:
		recipe, err := finitepass.ParseEqualRows(t.Recipe)
		if err != nil {
			return nil, err
		}
		if rows, err = finitepass.OpenEqualRows(recipe, get); err != nil {
			return nil, err
		}
		names = recipe.Tensor
	case finitepass.PackedRowsKind:
		recipe, err := finitepass.ParsePackedRows(t.Recipe)
		if err != nil {
			return nil, err
		}
		if rows, err = finitepass.OpenPackedRows(recipe, RowCodec(), get, finitepass.PackOptions{}); err != nil {
			return nil, err
		}
		names = recipe.Tensor
	default:
		return nil, fmt.Errorf("unknown form %.40q", kind.Kind)
	}
	if names != t.Tensor {
		return nil, fmt.Errorf("the recipe is for %q", names)
	}
	return rows, nil
}
