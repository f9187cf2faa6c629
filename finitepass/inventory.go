package finitepass

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Amount measures stored tensors.
type Amount struct {
	// Values counts elements, once per storage.
	Values int64 `json:"values"`
	// LogicalBytes counts a tensor again for every name that it has.
	LogicalBytes int64 `json:"logical_bytes"`
	// ResidentBytes counts every distinct storage once.
	ResidentBytes int64 `json:"resident_bytes"`
}

// Plus returns a + b.
func (a Amount) Plus(b Amount) Amount {
	return Amount{a.Values + b.Values, a.LogicalBytes + b.LogicalBytes, a.ResidentBytes + b.ResidentBytes}
}

// Minus returns a − b.
func (a Amount) Minus(b Amount) Amount {
	return Amount{a.Values - b.Values, a.LogicalBytes - b.LogicalBytes, a.ResidentBytes - b.ResidentBytes}
}

// Inventory lists the tensors that a model holds and which of them share
// storage. It is immutable.
type Inventory struct {
	entries []entry
	index   map[string]int
}

type entry struct {
	name   string
	dtype  tensor.DType
	shape  tensor.Shape
	values int64
	bytes  int64
	// storage is the name of the first tensor with the same storage.
	storage string
	// clashes names tensors whose storage overlaps this one's without being the
	// same, so that neither can be counted or removed alone.
	clashes []string
}

// NewInventory lists what weights holds of params. Two tensors share storage
// when a tie is declared, when they are read from the same tensor of a
// checkpoint, or when their bytes in memory are the same. Tensors marked Ignored
// belong to the checkpoint, not to the model, and are left out.
func NewInventory(params []loader.Param, weights architectures.Weights) (*Inventory, error) {
	if w, ok := weights.(*loader.Weights); ok {
		return storedInventory(params, w)
	}
	inv := &Inventory{index: map[string]int{}}
	var spans []span
	// Addresses mean something only while what lies there is held.
	var held []*tensor.Tensor
	defer func() { runtime.KeepAlive(held) }()
	for _, p := range params {
		if p.Ignored {
			continue
		}
		t, err := weights.Tensor(p.Name)
		if err != nil {
			return nil, fmt.Errorf("inventory: %w", err)
		}
		held = append(held, t)
		if err := inv.add(p, t.DType(), t.Shape()); err != nil {
			return nil, err
		}
		if b := t.Bytes(); len(b) > 0 {
			from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
			spans = append(spans, span{from, from + uintptr(len(b)), len(inv.entries) - 1})
		}
	}
	inv.tie(params)
	inv.alias(spans)
	return inv, nil
}

// storedInventory reads no tensor: in a file, tensors do not overlap, so two
// parameters share storage when they have the same source.
func storedInventory(params []loader.Param, w *loader.Weights) (*Inventory, error) {
	inv := &Inventory{index: map[string]int{}}
	first := map[string]string{}
	for _, p := range params {
		if p.Ignored {
			continue
		}
		source := w.Source(p.Name)
		info, err := w.Checkpoint().Info(source)
		if err != nil {
			return nil, fmt.Errorf("inventory: %q: %w", p.Name, err)
		}
		if err := inv.add(p, info.DType, info.Shape); err != nil {
			return nil, err
		}
		if name, ok := first[source]; ok {
			inv.merge(inv.entries[inv.index[name]].storage, p.Name)
		} else {
			first[source] = p.Name
		}
	}
	inv.tie(params)
	return inv, nil
}

// span is the memory of the tensor of an entry.
type span struct {
	from, to uintptr
	at       int
}

// alias finds tensors in the same memory, wholly or in part.
func (inv *Inventory) alias(spans []span) {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i, s := range spans {
		for _, o := range spans[i+1:] {
			if o.from >= s.to {
				break
			}
			a, b := &inv.entries[s.at], &inv.entries[o.at]
			if s.from == o.from && s.to == o.to {
				inv.merge(a.storage, b.storage)
				continue
			}
			a.clashes = append(a.clashes, b.name)
			b.clashes = append(b.clashes, a.name)
		}
	}
}

// PlannedInventory lists params without any weights, from a configuration or
// from file headers: dtype says how each is stored, and nil takes the first
// type that the parameter accepts. Ties are those declared.
func PlannedInventory(params []loader.Param, dtype func(loader.Param) tensor.DType) (*Inventory, error) {
	inv := &Inventory{index: map[string]int{}}
	for _, p := range params {
		if p.Ignored {
			continue
		}
		var d tensor.DType
		switch {
		case dtype != nil:
			d = dtype(p)
		case len(p.DTypes) > 0:
			d = p.DTypes[0]
		}
		if err := inv.add(p, d, p.Shape); err != nil {
			return nil, err
		}
	}
	inv.tie(params)
	return inv, nil
}

func (inv *Inventory) add(p loader.Param, d tensor.DType, shape tensor.Shape) error {
	n, err := shape.Bytes(d)
	if err != nil {
		return fmt.Errorf("inventory: tensor %q: %w", p.Name, err)
	}
	values, err := shape.Elements()
	if err != nil {
		return fmt.Errorf("inventory: tensor %q: %w", p.Name, err)
	}
	if _, twice := inv.index[p.Name]; twice {
		return fmt.Errorf("inventory: tensor %q is declared twice", p.Name)
	}
	inv.index[p.Name] = len(inv.entries)
	inv.entries = append(inv.entries, entry{
		name: p.Name, dtype: d, shape: shape.Clone(),
		values: int64(values), bytes: int64(n), storage: p.Name,
	})
	return nil
}

func (inv *Inventory) tie(params []loader.Param) {
	for _, p := range params {
		if p.TiedTo == "" || p.Ignored {
			continue
		}
		if at, ok := inv.index[p.TiedTo]; ok {
			inv.merge(inv.entries[at].storage, inv.entries[inv.index[p.Name]].storage)
		}
	}
}

// merge makes all of drop's storage that of keep.
func (inv *Inventory) merge(keep, drop string) {
	if keep == drop {
		return
	}
	for i := range inv.entries {
		if inv.entries[i].storage == drop {
			inv.entries[i].storage = keep
		}
	}
}

// Total measures all tensors.
func (inv *Inventory) Total() Amount {
	names := make([]string, len(inv.entries))
	for i, e := range inv.entries {
		names[i] = e.name
	}
	a, _ := inv.Of(names)
	return a
}

// Of measures the named tensors. An unknown name, or one given twice, is an
// error that wraps [ErrBlock].
func (inv *Inventory) Of(names []string) (Amount, error) {
	var a Amount
	storages, seen := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		at, ok := inv.index[name]
		if !ok {
			return Amount{}, fmt.Errorf("%w: the model has no tensor %q", ErrBlock, name)
		}
		if seen[name] {
			return Amount{}, fmt.Errorf("%w: tensor %q is listed twice", ErrBlock, name)
		}
		seen[name] = true
		e := inv.entries[at]
		a.LogicalBytes += e.bytes
		if !storages[e.storage] {
			storages[e.storage] = true
			a.Values += e.values
			a.ResidentBytes += e.bytes
		}
	}
	return a, nil
}

// Consumer returns a tensor outside of names that shares storage with one of
// them, and that one. Both are empty when the named tensors can be removed
// alone.
func (inv *Inventory) Consumer(names []string) (inside, outside string) {
	within := map[string]bool{}
	storage := map[string]string{}
	for _, name := range names {
		within[name] = true
		if at, ok := inv.index[name]; ok {
			storage[inv.entries[at].storage] = name
		}
	}
	for _, e := range inv.entries {
		if within[e.name] {
			for _, other := range e.clashes {
				if !within[other] {
					return e.name, other
				}
			}
			continue
		}
		if in, shared := storage[e.storage]; shared {
			return in, e.name
		}
	}
	return "", ""
}
