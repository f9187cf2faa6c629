package xortable

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hfcompress/compress/tensor"
)

// Open builds a set from a recipe and stored tensors, which get hands out by the
// names that [Set.Tensors] uses. Every row of every route is checked, so that
// decoding cannot fail or read outside the storage afterwards. The set keeps the
// tensors. Errors wrap [ErrRecipe], or are those of get.
func Open(recipe Recipe, get func(name string) (*tensor.Tensor, error)) (*Set, error) {
	if err := recipe.Validate(); err != nil {
		return nil, err
	}
	s := &Set{recipe: recipe.clone(), routes: make([]Route, len(recipe.Routes))}
	take := func(name string, want TensorRecipe) (*tensor.Tensor, error) {
		t, err := get(name)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if t == nil {
			return nil, fmt.Errorf("%w: tensor %q is missing", ErrRecipe, name)
		}
		if t.DType() != want.DType || !t.Shape().Equal(want.Shape) {
			return nil, fmt.Errorf("%w: tensor %q is %v, want %v%v", ErrRecipe, name, t, want.DType, want.Shape)
		}
		s.storage = append(s.storage, Named{name, t})
		return t, nil
	}
	var err error
	if s.base, err = take(tensorBase, TensorRecipe{recipe.DType, recipe.Shape}); err != nil {
		return nil, err
	}
	for i, rr := range s.recipe.Routes {
		own := map[string]*tensor.Tensor{}
		for _, name := range slices.Sorted(maps.Keys(rr.Tensors)) {
			if own[name], err = take(storedName(i, name), rr.Tensors[name]); err != nil {
				return nil, err
			}
		}
		if err := s.openRoute(i, own); err != nil {
			return nil, fmt.Errorf("%w: route %d: %w", ErrRecipe, i, err)
		}
	}
	s.report = newReport(s)
	return s, nil
}

func (s *Set) openRoute(i int, own map[string]*tensor.Tensor) error {
	bits, err := wordBits(s.recipe.DType)
	if err != nil {
		return err
	}
	r := &s.routes[i]
	*r = Route{
		mode:  s.recipe.Routes[i].Mode,
		dtype: s.recipe.DType,
		rows:  s.recipe.Shape[0],
		width: s.recipe.Shape[1],
		bytes: s.recipe.Shape[1] * int(bits) / 8,
		geo:   newGeometry(bits),
		base:  s.base.Bytes(),
		facts: RouteReport{Route: i, Mode: s.recipe.Routes[i].Mode},
	}
	for _, t := range own {
		r.facts.Bytes += int64(len(t.Bytes()))
	}
	switch r.mode {
	case Full:
		r.base = own[tensorFull].Bytes()
	case Low8, Low16:
		low := lowBitsOf(r.mode)
		r.rect = rect{lowBits: low, low: own[tensorLow].Bytes(), columnBits: columnBits(r.width), highBits: highBits(bits, low)}
		if c := own[tensorColumns]; c != nil {
			r.rect.columns, r.rect.high, r.rect.slots = c.Bytes(), own[tensorHigh].Bytes(), c.Shape()[1]
		}
		if r.facts.Exceptions, err = r.rect.check(r.rows, r.width, bits); err != nil {
			return err
		}
		r.facts.PaddingSlots = int64(r.rows)*int64(r.rect.slots) - r.facts.Exceptions
	case Packed:
		r.codes, r.offsets = own[tensorCodes].Bytes(), own[tensorOffsets].Bytes()
		r.offBits = offsetBits(len(r.codes))
		return r.checkPacked()
	}
	return nil
}

func (r *Route) checkPacked() error {
	if first := loadWord(r.offsets, 0, r.offBits); first != 0 {
		return fmt.Errorf("the first row starts at byte %d, want 0", first)
	}
	if last := loadWord(r.offsets, r.rows, r.offBits); last != uint64(len(r.codes)) {
		return fmt.Errorf("the last row ends at byte %d, the codes have %d", last, len(r.codes))
	}
	for i := range r.rows {
		from, to := loadWord(r.offsets, i, r.offBits), loadWord(r.offsets, i+1, r.offBits)
		if from > to || to > uint64(len(r.codes)) {
			return fmt.Errorf("row %d: bytes %d to %d of %d", i, from, to, len(r.codes))
		}
		f, err := r.geo.checkRow(r.base[i*r.bytes:(i+1)*r.bytes], r.codes[from:to], r.width)
		if err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		if from == to {
			r.facts.EqualRows++
		}
		r.facts.Exceptions += int64(f.exceptions)
		r.facts.XORGroups += int64(f.xor)
		r.facts.DifferenceGroups += int64(f.diff)
	}
	return nil
}

// clone detaches the recipe from the caller's maps and slices.
func (r Recipe) clone() Recipe {
	r.Shape = r.Shape.Clone()
	r.Routes = slices.Clone(r.Routes)
	for i := range r.Routes {
		r.Routes[i].Tensors = maps.Clone(r.Routes[i].Tensors)
		for name, t := range r.Routes[i].Tensors {
			t.Shape = t.Shape.Clone()
			r.Routes[i].Tensors[name] = t
		}
	}
	return r
}
