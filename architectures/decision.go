package architectures

// Decision names an output whose largest elements along the last axis decide
// something discrete: the next token, or the experts that a router takes. A
// drift far below any tolerance can change it where the elements nearly tie.
type Decision struct {
	// Output is the model's output.
	Output string `json:"output"`
	// Top is how many of the largest elements are chosen.
	Top int `json:"top"`
	// Block and BlockOutput name the declared block and the branch that compute
	// the output, when nothing is done to it after the block; else they are empty.
	Block       string `json:"block,omitempty"`
	BlockOutput string `json:"block_output,omitempty"`
}

// Decider is implemented by blueprints that say what their models decide. Of
// other models, the largest element of the output "logits" is taken for a
// decision if there is such an output.
type Decider interface {
	// Decisions lists the decisions; none are a statement too.
	Decisions() []Decision
}
