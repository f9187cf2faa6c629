package planner

// family declares what is known of a family of models.
type family struct {
	// name is what a report calls it.
	name string
	// modelTypes, architectures and classes are values of config.json's
	// model_type, architectures and _class_name, any of which recognises it.
	modelTypes, architectures, classes []string
	// tensors are patterns that all have to match. Alone, they recognise a family
	// whose files come without a configuration that names it.
	tensors []string
	// passes in the order of the report. Those whose tensors are absent are left
	// out when they are marked optional, and are otherwise refused.
	passes []pass
	// note is a sentence about the whole family.
	note string
}

// kind says what a pass does.
type kind string

const (
	kindLookup    kind = "lookup"     // token ids to the outputs of a block
	kindWide      kind = "wide_table" // a frozen feature table and its projection
	kindTimesteps kind = "timesteps"  // declared timesteps to modulations
	kindUniversal kind = "universal_timesteps"
	kindPairs     kind = "pairs"
	kindConstant  kind = "constant"
	kindTrim      kind = "reachable_ids"
	kindShared    kind = "shared_tensors"
	kindUnread    kind = "unread_tensors"
	kindComputed  kind = "computed_tensors"
	kindFold      kind = "fold"
)

// pass declares one pass by the tensors involved; patterns are those of
// [compile].
type pass struct {
	kind kind
	// block is the place within the model, for people.
	block string
	// optional leaves the pass out of the report when none of its tensors are there.
	optional bool

	// embedding is the tensor whose rows are the domain, of which extra more rows
	// are needed. listed, when not zero, is the number of rows that can be reached.
	embedding string
	extra     int64
	listed    int64
	// rows overrides the size of the domain.
	rows func(*model) int64
	// steps is the usual number of timesteps, and each how many elements of the
	// domain one timestep makes; 0 means 1.
	steps, each int64

	// removes are the tensors that go.
	removes []string
	// columns are the tensors whose first axis is part of a row of the table, and
	// more counts columns that no first axis shows. times repeats all of them.
	columns []string
	more    func(*model) int64
	times   int64

	// contract is what the caller has to promise, needs what has to hold besides.
	contract string
	needs    []string
	// refuse gives the reason for which the pass does not apply, whatever it would
	// save; empty when it does.
	refuse func(*model) string
	// bytes says what has to be seen in the bytes before the pass may be used.
	bytes string
}

// recognise returns the family of a model, or nil.
func recognise(m *model) *family {
	var best *family
	score := 0
	for i := range families {
		f := &families[i]
		if s := f.score(m); s > score {
			best, score = f, s
		}
	}
	return best
}

// score is 0 when the family does not fit, and greater the more precise the
// evidence: a configuration that names it and its tensors, or tensors alone.
func (f *family) score(m *model) int {
	named := 0
	for _, t := range f.modelTypes {
		if t == m.parsed.ModelType && t != "" {
			named = 2
		}
	}
	for _, a := range f.architectures {
		for _, b := range m.parsed.Architectures {
			if a == b {
				named = 2
			}
		}
	}
	for _, c := range f.classes {
		if c == m.config.text("_class_name") {
			named = 2
		}
	}
	if len(f.tensors) > 0 {
		if !m.has(f.tensors...) {
			return 0
		}
		return 1 + 2*named
	}
	return named
}
