package hyenadna

// WithSessionBytes returns a view of m that starts a new session whenever the
// results in the current one exceed n bytes.
func (m *Model) WithSessionBytes(n float64) *Model {
	view := *m
	view.sessionBytes = n
	return &view
}

// Tables counts the different tables that the layers' filters read.
func (m *Model) Tables() int {
	seen := map[any]bool{}
	for _, l := range m.layers {
		seen[l.filter.vectors], seen[l.filter.times] = true, true
	}
	return len(seen)
}
