package validation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Report is the verdict of [Run]. It holds figures, never outputs.
type Report struct {
	// Accepted says that every output of every example passed the gate; Exact and
	// Bitwise, that every one was equal by value and by bytes.
	Accepted bool `json:"accepted"`
	Exact    bool `json:"exact"`
	Bitwise  bool `json:"bitwise"`
	// Gate is the gate that was used, defaults filled in.
	Gate Gate `json:"gate"`
	// Examples is the number given; Compared of them were compared, fewer when
	// Gate.StopEarly ended the run. Outputs counts compared tensors and Elements
	// their elements.
	Examples int   `json:"examples"`
	Compared int   `json:"compared"`
	Outputs  int   `json:"outputs"`
	Elements int64 `json:"elements"`
	// Worst is the largest of each figure, with where it was found.
	WorstMaxAbs *Extreme `json:"worst_max_abs,omitempty"`
	WorstRelL2  *Extreme `json:"worst_relative_l2,omitempty"`
	// SmallestMargin is the decision that the source took most narrowly.
	SmallestMargin *Extreme `json:"smallest_margin,omitempty"`
	// FirstFailure is the first example that failed.
	FirstFailure *Failure `json:"first_failure,omitempty"`
	// Results has one entry per compared example, in order.
	Results []ExampleResult `json:"results"`

	// Subject is what was compared, and Digest identifies it.
	Subject Subject `json:"subject"`
	Digest  string  `json:"digest"`
	// Historical says that something changed after the comparison, so that the
	// verdict speaks of the past only; HistoricalReason says what.
	Historical       bool   `json:"historical,omitempty"`
	HistoricalReason string `json:"historical_reason,omitempty"`
}

// Extreme is a figure and where it was found.
type Extreme struct {
	Value   float64 `json:"value"`
	Example string  `json:"example"`
	Output  string  `json:"output"`
	// Index is where in the output, for margins.
	Index []int `json:"index,omitempty"`
}

// Failure names the first output that failed. Output is empty when the example
// failed as a whole: its structure changed, or the candidate gave an error.
type Failure struct {
	Example string  `json:"example"`
	Output  string  `json:"output,omitempty"`
	Reason  string  `json:"reason"`
	MaxAbs  float64 `json:"max_abs"`
	RelL2   float64 `json:"relative_l2"`
}

// ExampleResult sums up one example. Only outputs that failed are given in full.
type ExampleResult struct {
	Example  string  `json:"example"`
	Accepted bool    `json:"accepted"`
	Exact    bool    `json:"exact"`
	Bitwise  bool    `json:"bitwise"`
	Outputs  int     `json:"outputs"`
	MaxAbs   float64 `json:"max_abs"`
	RelL2    float64 `json:"relative_l2"`
	// MinMargin is the smallest margin of the source's decisions, nil without any.
	MinMargin *float64 `json:"min_margin,omitempty"`
	// Reason is set when the example failed as a whole.
	Reason string         `json:"reason,omitempty"`
	Failed []OutputResult `json:"failed,omitempty"`
	// Digests are those of the candidate's outputs ([OutputDigests]), when the gate
	// asks for them and the outputs have the source's structure.
	Digests map[string]string `json:"-"`
}

// Subject names what a report speaks of.
type Subject struct {
	// Source and Candidate identify the models, given to [Report.Bind]: a commit or
	// a digest of the weights, and a digest of the candidate's.
	Source    string `json:"source,omitempty"`
	Candidate string `json:"candidate,omitempty"`
	// Examples is the [Digest] of the examples, and the devices are fingerprints.
	Examples        string `json:"examples"`
	SourceDevice    string `json:"source_device"`
	CandidateDevice string `json:"candidate_device"`
}

// Digest identifies the subject: a SHA-256 in hexadecimal.
func (s Subject) Digest() string {
	text, err := json.Marshal(s)
	if err != nil { // strings only
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Bind ties the report to the identity of both models.
func (r *Report) Bind(source, candidate string) {
	r.Subject.Source, r.Subject.Candidate = source, candidate
	r.Digest = r.Subject.Digest()
}

// Current reports whether the verdict still speaks of the subject with this
// digest: the one that it was bound to, and not marked historical since.
func (r *Report) Current(digest string) bool {
	return !r.Historical && r.Subject.Source != "" && r.Subject.Candidate != "" &&
		digest == r.Digest && digest == r.Subject.Digest()
}

// MarkHistorical records that something changed after the comparison. There is
// no way back: undoing the change does not make the verdict current again.
func (r *Report) MarkHistorical(reason string) {
	if !r.Historical {
		r.Historical, r.HistoricalReason = true, reason
	}
}
