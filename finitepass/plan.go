package finitepass

import (
	"fmt"
	"strconv"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/thousands"
	"github.com/hfcompress/compress/tensor"
)

// Plan is what arithmetic alone says about a block, before any weight is read.
type Plan struct {
	Path string `json:"path"`
	// Tables is the number of full tables planned: one, and one per profile.
	Tables int `json:"tables"`
	// Removed measures the tensors that would go.
	Removed Amount `json:"removed"`
	// TableValues and TableBytes measure one full table of all outputs.
	TableValues int64 `json:"table_values"`
	TableBytes  int64 `json:"table_bytes"`
	// ValuesSaved and BytesSaved are what Tables full tables save (resident
	// bytes); negative when they cost more than they replace.
	ValuesSaved int64 `json:"values_saved"`
	BytesSaved  int64 `json:"bytes_saved"`
	// BestBytesSaved is what is saved when all further tables turn out equal to
	// the first, or nearly so as XOR differences.
	BestBytesSaved int64 `json:"best_bytes_saved"`
	// BreakEvenTables is the largest number of full tables that still saves bytes.
	BreakEvenTables int64 `json:"break_even_tables"`
	// Refusal says why the block cannot be rewritten; empty when it may.
	Refusal string `json:"refusal,omitempty"`
	// Arithmetic is the same in words.
	Arithmetic string `json:"arithmetic"`

	sizeOnly bool // nothing but its size speaks against the block
}

// PlanBlock counts what a rewrite of the block removes and adds, with one table
// and one more per profile. inv may come from [PlannedInventory].
//
// A plan refuses when the architecture does, when a tensor to be removed has
// another owner, and when a single full table is not smaller than what it
// replaces. The last rule looks at shapes only: an output that happens to be
// constant could still pay, and [Options.IgnorePlan] lets the compiler find out.
func PlanBlock(spec architectures.BlockSpec, inv *Inventory, profiles int) Plan {
	p := Plan{Path: spec.Path, Tables: 1 + max(profiles, 0), Refusal: spec.Refusal}
	var words string
	elements := elementsOf(spec)
	for i, o := range spec.Outputs {
		p.TableValues += int64(elements) * int64(o.Width)
		p.TableBytes += int64(elements) * int64(o.Width) * int64(o.DType.Size())
		if i > 0 {
			words += " + "
		}
		words += strconv.Itoa(o.Width)
	}
	refuse := func(format string, args ...any) {
		if p.Refusal == "" {
			p.Refusal = fmt.Sprintf(format, args...)
		}
	}
	if err := checkSpec(spec); err != nil {
		refuse("%v", err)
	}
	removed, err := inv.Of(spec.Removes)
	if err != nil {
		refuse("%v", err)
	}
	p.Removed = removed
	p.ValuesSaved = removed.Values - p.TableValues*int64(p.Tables)
	p.BytesSaved = removed.ResidentBytes - p.TableBytes*int64(p.Tables)
	best := min(removed.ResidentBytes, removed.LogicalBytes)
	p.BestBytesSaved = best - p.TableBytes
	if p.TableBytes > 0 {
		p.BreakEvenTables = max(0, (best-1)/p.TableBytes)
	}
	p.Arithmetic = fmt.Sprintf(
		"%d %s × (%s) columns = %s values, %s bytes per table; removes %s values, %s bytes; %d full table%s: %s %s bytes",
		elements, elementName(spec.Domain), words, thousands.Group(p.TableValues), thousands.Group(p.TableBytes),
		thousands.Group(removed.Values), thousands.Group(removed.ResidentBytes),
		p.Tables, plural(p.Tables), saves(p.BytesSaved), thousands.Group(abs(p.BytesSaved)))
	if in, out := inv.Consumer(spec.Removes); in != "" {
		refuse("external consumer: tensor %q shares its storage with %q, which stays", in, out)
	}
	if p.BestBytesSaved <= 0 {
		p.sizeOnly = p.Refusal == ""
		refuse("no storage saving: even one table of %s bytes is not smaller than the %s bytes that it replaces",
			thousands.Group(p.TableBytes), thousands.Group(best))
	}
	return p
}

// checkSpec refuses declarations that no table could be built for.
func checkSpec(spec architectures.BlockSpec) error {
	if spec.NumTokens < 1 || spec.EmbeddingWidth < 1 {
		return fmt.Errorf("%w: %d tokens of width %d", ErrBlock, spec.NumTokens, spec.EmbeddingWidth)
	}
	if len(spec.Outputs) == 0 {
		return fmt.Errorf("%w: no outputs", ErrBlock)
	}
	seen := map[string]bool{}
	for _, o := range spec.Outputs {
		if o.Name == "" || seen[o.Name] {
			return fmt.Errorf("%w: output name %q is empty or used twice", ErrBlock, o.Name)
		}
		seen[o.Name] = true
		if _, ok := exponentMask(o.DType); !ok {
			return fmt.Errorf("%w: output %q is %v, expected F16, BF16, F32 or F64", ErrBlock, o.Name, o.DType)
		}
		if _, err := (tensor.Shape{spec.NumTokens, o.Width}).Bytes(o.DType); err != nil || o.Width < 1 {
			return fmt.Errorf("%w: output %q has width %d", ErrBlock, o.Name, o.Width)
		}
	}
	return nil
}

// elementName says what the elements of a domain are called.
func elementName(d *nn.Domain) string {
	switch {
	case d == nil || d.Kind == nn.TokenIDs:
		return "tokens"
	case d.Kind == nn.Constant:
		return "constant"
	}
	return string(d.Kind)
}

func saves(n int64) string {
	if n >= 0 {
		return "would save"
	}
	return "would cost"
}

func abs(n int64) int64 { return max(n, -n) }

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
