package xortable

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"unsafe"

	"github.com/hfcompress/compress/tensor"
)

// Values of [Report.Status].
const (
	// StatusVerified says that every byte of every route was compared with the
	// supplied tables.
	StatusVerified = "byte_verified"
	// StatusOpened says that the set was opened from storage: its structure holds,
	// but no table was there to compare with.
	StatusOpened = "opened"
)

// Report describes a set. All sizes are bytes.
type Report struct {
	Status string        `json:"status"`
	DType  tensor.DType  `json:"dtype"`
	Shape  tensor.Shape  `json:"shape"`
	Base   int           `json:"base"`
	Routes []RouteReport `json:"routes"`
	// BaseBytes is the base table, TotalBytes all stored tensors, and RecipeBytes
	// the JSON recipe, which is not part of TotalBytes.
	BaseBytes   int64 `json:"base_bytes"`
	TotalBytes  int64 `json:"total_bytes"`
	RecipeBytes int64 `json:"recipe_bytes"`
	// FullBytes is every route as a full table: the logical size.
	FullBytes int64 `json:"full_bytes"`
	// SuppliedBytes is the distinct host memory that the tables given to [Encode]
	// occupied; tables that alias each other count once. 0 for an opened set.
	SuppliedBytes int64 `json:"supplied_resident_bytes,omitempty"`
	// LogicalReduced, ResidentReduced and Reduced (both) say whether TotalBytes is
	// below FullBytes and SuppliedBytes. The last two need supplied tables.
	LogicalReduced  bool `json:"logical_storage_reduced"`
	ResidentReduced bool `json:"resident_storage_reduced"`
	Reduced         bool `json:"storage_reduced"`
	// ComparedElements counts the elements compared by [Encode], and Digest is the
	// SHA-256 of the recipe and storage that were compared.
	ComparedElements int64  `json:"compared_elements,omitempty"`
	Digest           string `json:"digest,omitempty"`
}

// RouteReport describes one route.
type RouteReport struct {
	Route int  `json:"route"`
	Mode  Mode `json:"mode"`
	// Bytes is the route's own storage, without the base.
	Bytes int64 `json:"bytes"`
	// Exceptions counts the elements whose code needs more than its width, and
	// PaddingSlots the unused slots of a rectangular mode.
	Exceptions   int64 `json:"exceptions"`
	PaddingSlots int64 `json:"padding_slots,omitempty"`
	// EqualRows, XORGroups and DifferenceGroups say how the packed mode came out.
	EqualRows        int64 `json:"equal_rows,omitempty"`
	XORGroups        int64 `json:"xor_groups,omitempty"`
	DifferenceGroups int64 `json:"difference_groups,omitempty"`
	// Considered is what each mode would have occupied; only after [Encode].
	Considered map[Mode]int64 `json:"considered,omitempty"`
}

func newReport(s *Set) Report {
	r := Report{
		Status: StatusOpened,
		DType:  s.recipe.DType, Shape: s.recipe.Shape, Base: s.recipe.Base,
		BaseBytes: int64(len(s.base.Bytes())),
	}
	for _, route := range s.routes {
		r.Routes = append(r.Routes, route.facts)
		r.FullBytes += r.BaseBytes
	}
	for _, n := range s.storage {
		r.TotalBytes += int64(len(n.Tensor.Bytes()))
	}
	if text, err := json.Marshal(s.recipe); err == nil {
		r.RecipeBytes = int64(len(text))
	}
	r.LogicalReduced = r.TotalBytes < r.FullBytes
	return r
}

// verified adds what only a comparison with tables can say.
func (r *Report) verified(tables []*tensor.Tensor, digest string) {
	r.Status, r.Digest = StatusVerified, digest
	r.SuppliedBytes = distinctBytes(tables)
	r.ResidentReduced = r.TotalBytes < r.SuppliedBytes
	r.Reduced = r.LogicalReduced && r.ResidentReduced
	for _, t := range tables {
		r.ComparedElements += int64(t.Len())
	}
}

func (r Report) clone() Report {
	r.Shape = r.Shape.Clone()
	r.Routes = slices.Clone(r.Routes)
	for i := range r.Routes {
		r.Routes[i].Considered = maps.Clone(r.Routes[i].Considered)
	}
	return r
}

// distinctBytes is the size of the union of the tables' memory, so that tables
// which alias each other cannot fake a saving.
func distinctBytes(tables []*tensor.Tensor) int64 {
	type span struct{ from, to uintptr }
	var spans []span
	for _, t := range tables {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(t.Bytes())))
		spans = append(spans, span{from, from + uintptr(len(t.Bytes()))})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var total int64
	var end uintptr
	for _, s := range spans {
		if s.to > end {
			total += int64(s.to - max(s.from, end))
			end = s.to
		}
	}
	return total
}
