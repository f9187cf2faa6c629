package bert

// WithSessionBytes returns a view of m that starts a new session whenever the
// results in the current one exceed n bytes.
func (m *Model) WithSessionBytes(n float64) *Model {
	view := *m
	view.sessionBytes = n
	return &view
}
