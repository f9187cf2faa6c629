package planner

import "fmt"

// families are all that the planner knows, in no particular order: the one with
// the most precise evidence is taken.
var families = join(tokenFamilies, languageFamilies, scanFamilies, wideFamilies, imageFamilies, videoFamilies, unetFamilies, pooledFamilies)

func join(lists ...[]family) []family {
	var all []family
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// serial declares the fan-out of a layer whose linears read the normalised
// embedding: removes are what goes, and columns those of them whose outputs are
// stored.
func serial(block, embedding string, removes, columns []string) pass {
	return pass{kind: kindLookup, block: block, embedding: embedding, removes: removes, columns: columns, contract: tokensOnly}
}

// with changes a copy of a pass.
func (p pass) with(change func(*pass)) pass {
	change(&p)
	return p
}

// unless refuses a pass while a condition does not hold.
func unless(holds func(*model) bool, reason string) func(*model) string {
	return func(m *model) string {
		if holds(m) {
			return ""
		}
		return reason
	}
}

// never refuses a pass for what its family computes.
func never(reason string) func(*model) string { return func(*model) string { return reason } }

// product is the number of pairs of rows of two tensors.
func product(a, b string, times int64) func(*model) int64 {
	return func(m *model) int64 { return m.rowsOf(a) * m.rowsOf(b) * times }
}

// exactly is a domain of a fixed size.
func exactly(n int64) func(*model) int64 { return func(*model) int64 { return n } }

// timeFamily declares a diffusion transformer whose modulations are functions of
// the timestep alone. steps is the usual number of steps, removes the timestep's
// own layers and columns the modulations, both without ".weight" and ".bias".
// universal is the number of BF16 timesteps, 0 where the model casts later.
func timeFamily(name, class string, steps int64, removes, columns []string, universal int64, needs ...string) family {
	var gone, weights []string
	for _, r := range removes {
		gone = append(gone, r+".{weight,bias}")
	}
	for _, c := range columns {
		gone = append(gone, c+".{weight,bias}")
		weights = append(weights, c+".weight")
	}
	f := family{name: name, classes: []string{class}, passes: []pass{{
		kind: kindTimesteps, block: "modulations", steps: steps, removes: gone, columns: weights, contract: stepsOnly,
		needs: append([]string{fmt.Sprintf("a declared list of timesteps; %d is usual for its pipeline", steps)}, needs...),
	}}}
	if universal > 0 {
		f.passes = append(f.passes, pass{
			kind: kindUniversal, block: "modulations", rows: exactly(universal), removes: gone, columns: weights, contract: stepsOnly,
			needs: append([]string{"the forward casts the timestep to BF16 first; no schedule"}, needs...),
		})
	}
	return f
}
