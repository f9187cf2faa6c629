package xortable

// Storage is how a route lies in memory, for readers that decode rows somewhere
// else, such as on a device. docs/xortable.md describes the forms. The slices are
// the set's own and must not be written to.
type Storage struct {
	Mode Mode
	// Base is the base table, or in mode full the table itself; routes of a set
	// share it.
	Base []byte
	// Codes and Offsets are those of mode packed, with OffsetBits bits an offset.
	Codes, Offsets []byte
	OffsetBits     int
	// Low, Columns and High are those of the rectangular modes. Slots is 0, and the
	// last two are empty, where a table has no exceptions.
	Low, Columns, High            []byte
	LowBits, ColumnBits, HighBits int
	Slots                         int
}

// Storage returns how the route is stored.
func (r *Route) Storage() Storage {
	s := Storage{Mode: r.mode, Base: r.base}
	switch r.mode {
	case Packed:
		s.Codes, s.Offsets, s.OffsetBits = r.codes, r.offsets, int(r.offBits)
	case Low8, Low16:
		s.Low, s.Columns, s.High = r.rect.low, r.rect.columns, r.rect.high
		s.LowBits, s.Slots = int(r.rect.lowBits), r.rect.slots
		s.ColumnBits, s.HighBits = int(r.rect.columnBits), int(r.rect.highBits)
	}
	return s
}
