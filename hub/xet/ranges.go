package xet

import "slices"

// Range is the bytes [Start, End) of a file.
type Range struct{ Start, End int64 }

// ranges is a sorted list of ranges that neither touch nor overlap.
type ranges []Range

// newRanges sorts and joins rs, within [0, size).
func newRanges(rs []Range, size int64) (out ranges) {
	for _, r := range rs {
		out.add(Range{max(r.Start, 0), min(r.End, size)})
	}
	return out
}

// from is the index of the first range that ends after pos.
func (rs ranges) from(pos int64) int {
	i, found := slices.BinarySearchFunc(rs, pos, func(r Range, pos int64) int {
		switch {
		case r.End < pos:
			return -1
		case r.End > pos:
			return 1
		}
		return 0
	})
	if found {
		i++ // it ends exactly at pos
	}
	return i
}

func (rs *ranges) add(r Range) {
	if r.Start >= r.End {
		return
	}
	// All that overlap or touch r become one with it.
	i := rs.from(r.Start)
	if i > 0 && (*rs)[i-1].End == r.Start {
		i--
	}
	j := i
	for ; j < len(*rs) && (*rs)[j].Start <= r.End; j++ {
		r.Start, r.End = min(r.Start, (*rs)[j].Start), max(r.End, (*rs)[j].End)
	}
	*rs = slices.Replace(*rs, i, j, r)
}

func (rs *ranges) remove(r Range) {
	if r.Start >= r.End {
		return
	}
	i := rs.from(r.Start)
	j := i
	var keep []Range
	for ; j < len(*rs) && (*rs)[j].Start < r.End; j++ {
		if o := (*rs)[j]; o.Start < r.Start {
			keep = append(keep, Range{o.Start, r.Start})
		}
		if o := (*rs)[j]; o.End > r.End {
			keep = append(keep, Range{r.End, o.End})
		}
	}
	*rs = slices.Replace(*rs, i, j, keep...)
}

// overlaps reports whether a byte of r is in rs.
func (rs ranges) overlaps(r Range) bool {
	i := rs.from(r.Start)
	return i < len(rs) && rs[i].Start < r.End && r.Start < r.End
}

// covers reports whether all of r is in rs.
func (rs ranges) covers(r Range) bool {
	i := rs.from(r.Start)
	return i < len(rs) && rs[i].Start <= r.Start && r.End <= rs[i].End
}

// within calls f with each part of r that is in rs, in order.
func (rs ranges) within(r Range, f func(Range) error) error {
	for i := rs.from(r.Start); i < len(rs) && rs[i].Start < r.End; i++ {
		if part := (Range{max(r.Start, rs[i].Start), min(r.End, rs[i].End)}); part.Start < part.End {
			if err := f(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// without is what of rs is not in other.
func (rs ranges) without(other ranges) ranges {
	out := slices.Clone(rs)
	for _, r := range other {
		out.remove(r)
	}
	return out
}
