package finitepass

import (
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// RecipeKind is the kind that a [Recipe] carries. Version 1 has no profiles and
// version 2 has at least one. Version 3 may have profiles, and has what the first
// two do not know: a domain, or tables in further codings.
const (
	RecipeKind = "finite_token_fanout"

	recipePlain    = 1
	recipeProfiles = 2
	recipeFurther  = 3
)

// EmbeddingTable is the name by which a [Location] means the model's own
// embedding, which a lookup reads and never stores.
const EmbeddingTable = "embedding"

// Recipe says how the stored tensors of a [Lookup] serve its outputs. Its JSON
// form is what a package keeps.
type Recipe struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// InputContract is what callers promised: see [architectures.ContractOf].
	InputContract string `json:"input_contract"`
	// NumTokens bounds the indices that the lookup is called with.
	NumTokens int `json:"num_tokens"`
	// Domain says what the indices mean; nil means the token ids below NumTokens.
	// For listed token ids, tables have a row for each of them.
	Domain *nn.Domain `json:"domain,omitempty"`
	// Embedding describes the model's embedding; nil when no output reads it.
	Embedding *EmbeddingRecipe `json:"embedding,omitempty"`
	Tables    []TableRecipe    `json:"tables"`
	// Sets are the XOR families that tables may live in.
	Sets []SetRecipe `json:"sets,omitempty"`
	// Outputs locates the results of bulk calls, in order.
	Outputs  []Location      `json:"outputs"`
	Profiles []ProfileRecipe `json:"row_count_profiles,omitempty"`
}

// EmbeddingRecipe names the model's embedding tensor.
type EmbeddingRecipe struct {
	Tensor string       `json:"tensor"`
	DType  tensor.DType `json:"dtype"`
	Width  int          `json:"width"`
}

// TableRecipe is one table: a tensor "tables.<name>" [rows, width], or one of
// the further codings. Rows is the number of elements of the domain, or 1 when
// all rows are the same.
type TableRecipe struct {
	Name  string       `json:"name"`
	DType tensor.DType `json:"dtype"`
	Rows  int          `json:"rows"`
	Width int          `json:"width"`
	// Set: the table is a route of an XOR family.
	Set *SetRoute `json:"set,omitempty"`
	// Index: equal rows are stored once.
	Index *IndexRecipe `json:"index,omitempty"`
	// Projection: the table is computed from another one.
	Projection *ProjectionRecipe `json:"projection,omitempty"`
}

// SetRoute points into a set.
type SetRoute struct {
	Name  string `json:"name"`
	Route int    `json:"route"`
}

// SetRecipe is an XOR family; its tensors are "sets.<name>.<tensor>".
type SetRecipe struct {
	Name   string          `json:"name"`
	Recipe xortable.Recipe `json:"recipe"`
}

// Location says where an output's columns lie.
type Location struct {
	Output string `json:"output"`
	// Table is a table's name or [EmbeddingTable].
	Table string `json:"table"`
	Start int    `json:"start"`
	Width int    `json:"width"`
}

// ProfileRecipe locates the outputs of calls that a profile serves.
type ProfileRecipe struct {
	MaxRows        int        `json:"max_rows"`
	EvaluationRows int        `json:"evaluation_rows"`
	Outputs        []Location `json:"outputs"`
}

// Limits on what a hostile recipe can cost.
const (
	maxRecipeBytes  = 8 << 20
	maxRecipeTables = 4096
	maxNameBytes    = 256
)

// ParseRecipe reads the JSON form. It must be exactly what [Recipe.Encode]
// writes, up to white space and the order of keys: unknown, repeated, missing or
// otherwise spelt keys are refused, and so is whatever [Recipe.Validate]
// refuses. Errors wrap [ErrRecipe].
func ParseRecipe(data []byte) (*Recipe, error) {
	r := &Recipe{}
	if err := parseRecipe(data, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Encode writes the JSON form, compact and always the same for equal recipes.
func (r *Recipe) Encode() ([]byte, error) { return encodeRecipe(r) }

// Validate checks everything that the recipe alone can show. Errors wrap
// [ErrRecipe].
func (r *Recipe) Validate() error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	return nil
}

func (r *Recipe) validate() error {
	switch {
	case r.Kind != RecipeKind:
		return fmt.Errorf("kind is %s, expected %q", quoteShort(r.Kind), RecipeKind)
	case r.Version < recipePlain || r.Version > recipeFurther:
		return fmt.Errorf("version is %d, this program reads 1 to 3", r.Version)
	case (r.Version == recipeFurther) != r.further():
		return fmt.Errorf("version %d and what the recipe holds do not agree", r.Version)
	case r.Version == recipePlain && len(r.Profiles) > 0:
		return fmt.Errorf("version 1 has no profiles, this one has %d", len(r.Profiles))
	case r.Version == recipeProfiles && len(r.Profiles) == 0:
		return fmt.Errorf("version 2 has profiles, this one has none")
	case r.InputContract != r.contract():
		return fmt.Errorf("input contract is %s, expected %q", quoteShort(r.InputContract), r.contract())
	case r.NumTokens < 1:
		return fmt.Errorf("num_tokens is %d", r.NumTokens)
	case len(r.Tables) > maxRecipeTables || len(r.Sets) > maxRecipeTables:
		return fmt.Errorf("more than %d tables", maxRecipeTables)
	case len(r.Outputs) == 0 || len(r.Outputs) > maxRecipeTables:
		return fmt.Errorf("%d outputs, expected 1 to %d", len(r.Outputs), maxRecipeTables)
	}
	if err := r.validateDomain(); err != nil {
		return err
	}
	sets, err := r.validateSets()
	if err != nil {
		return err
	}
	tables := map[string]TableRecipe{}
	routesUsed := map[SetRoute]bool{}
	for _, t := range r.Tables {
		if err := checkName("table", t.Name); err != nil {
			return err
		}
		if _, twice := tables[t.Name]; twice || t.Name == EmbeddingTable {
			return fmt.Errorf("table name %q is taken", t.Name)
		}
		if _, ok := exponentMask(t.DType); !ok {
			return fmt.Errorf("table %q has dtype %v", t.Name, t.DType)
		}
		if _, err := (tensor.Shape{t.Rows, t.Width}).Bytes(t.DType); err != nil || t.Width < 1 {
			return fmt.Errorf("table %q has shape [%d,%d]", t.Name, t.Rows, t.Width)
		}
		if t.Rows != 1 && t.Rows != r.elements() {
			return fmt.Errorf("table %q has %d rows, expected 1 or %d", t.Name, t.Rows, r.elements())
		}
		if err := t.validateCoding(); err != nil {
			return err
		}
		if t.Set != nil {
			set, ok := sets[t.Set.Name]
			if !ok {
				return fmt.Errorf("table %q lies in the unknown set %s", t.Name, quoteShort(t.Set.Name))
			}
			if t.Set.Route < 0 || t.Set.Route >= len(set.Routes) {
				return fmt.Errorf("table %q is route %d of a set with %d", t.Name, t.Set.Route, len(set.Routes))
			}
			if set.DType != t.DType || !set.Shape.Equal(tensor.Shape{t.Rows, t.Width}) {
				return fmt.Errorf("table %q is %v[%d,%d], its set holds %v%v", t.Name, t.DType, t.Rows, t.Width, set.DType, set.Shape)
			}
			if routesUsed[*t.Set] {
				return fmt.Errorf("two tables are route %d of set %q", t.Set.Route, t.Set.Name)
			}
			routesUsed[*t.Set] = true
		}
		tables[t.Name] = t
	}
	for name, set := range sets {
		for i := range set.Routes {
			if !routesUsed[SetRoute{name, i}] {
				return fmt.Errorf("no table is route %d of set %q", i, name)
			}
		}
	}
	return r.validateOutputs(tables)
}

func (r *Recipe) validateSets() (map[string]xortable.Recipe, error) {
	sets := map[string]xortable.Recipe{}
	for _, s := range r.Sets {
		if err := checkName("set", s.Name); err != nil {
			return nil, err
		}
		if _, twice := sets[s.Name]; twice {
			return nil, fmt.Errorf("set name %q is used twice", s.Name)
		}
		if err := s.Recipe.Validate(); err != nil {
			return nil, fmt.Errorf("set %q: %w", s.Name, err)
		}
		sets[s.Name] = s.Recipe
	}
	return sets, nil
}

func (r *Recipe) validateOutputs(tables map[string]TableRecipe) error {
	if e := r.Embedding; e != nil {
		if err := checkText("embedding tensor", e.Tensor); err != nil {
			return err
		}
		if e.Width < 1 || e.DType.Size() == 0 {
			return fmt.Errorf("embedding is %v of width %d", e.DType, e.Width)
		}
	}
	read := map[string]bool{}
	locate := func(l Location) (tensor.DType, error) {
		if l.Table == EmbeddingTable {
			if r.Embedding == nil {
				return tensor.Invalid, fmt.Errorf("output %s reads an embedding that is not described", quoteShort(l.Output))
			}
			if l.Start != 0 || l.Width != r.Embedding.Width {
				return tensor.Invalid, fmt.Errorf("output %s reads columns %d to %d of an embedding of width %d; it must read all",
					quoteShort(l.Output), l.Start, l.Start+l.Width, r.Embedding.Width)
			}
			read[EmbeddingTable] = true
			return r.Embedding.DType, nil
		}
		t, ok := tables[l.Table]
		if !ok {
			return tensor.Invalid, fmt.Errorf("output %s reads the unknown table %s", quoteShort(l.Output), quoteShort(l.Table))
		}
		if l.Start < 0 || l.Width < 1 || l.Width > t.Width || l.Start > t.Width-l.Width {
			return tensor.Invalid, fmt.Errorf("output %s reads %d columns from %d on of table %q, which has %d",
				quoteShort(l.Output), l.Width, l.Start, t.Name, t.Width)
		}
		read[l.Table] = true
		return t.DType, nil
	}
	seen := map[string]bool{}
	dtypes := make([]tensor.DType, len(r.Outputs))
	for i, l := range r.Outputs {
		if err := checkText("output name", l.Output); err != nil {
			return err
		}
		if seen[l.Output] {
			return fmt.Errorf("output %q is listed twice", l.Output)
		}
		seen[l.Output] = true
		var err error
		if dtypes[i], err = locate(l); err != nil {
			return err
		}
	}
	if err := CheckProfiles(r.profiles()); err != nil {
		return err
	}
	for i, p := range r.Profiles {
		if len(p.Outputs) != len(r.Outputs) {
			return fmt.Errorf("profile %d has %d outputs, bulk has %d", i, len(p.Outputs), len(r.Outputs))
		}
		for j, l := range p.Outputs {
			if l.Output != r.Outputs[j].Output || l.Width != r.Outputs[j].Width {
				return fmt.Errorf("profile %d: output %d is %s of width %d, bulk has %q of width %d",
					i, j, quoteShort(l.Output), l.Width, r.Outputs[j].Output, r.Outputs[j].Width)
			}
			d, err := locate(l)
			if err != nil {
				return fmt.Errorf("profile %d: %w", i, err)
			}
			if d != dtypes[j] {
				return fmt.Errorf("profile %d: output %q is %v, bulk is %v", i, l.Output, d, dtypes[j])
			}
		}
	}
	if err := r.validateProjections(tables, read); err != nil {
		return err
	}
	for name := range tables {
		if !read[name] {
			return fmt.Errorf("no output reads table %q", name)
		}
	}
	if r.Embedding != nil && !read[EmbeddingTable] {
		return fmt.Errorf("no output reads the embedding")
	}
	return nil
}

// checkName refuses names that could not be part of a tensor name.
func checkName(what, name string) error {
	if err := checkText(what, name); err != nil {
		return err
	}
	for _, c := range name {
		if c == '.' {
			return fmt.Errorf("%s name %s has a dot", what, quoteShort(name))
		}
	}
	return nil
}

func checkText(what, text string) error {
	if text == "" || len(text) > maxNameBytes {
		return fmt.Errorf("%s has %d bytes, expected 1 to %d", what, len(text), maxNameBytes)
	}
	return nil
}

func (r *Recipe) profiles() []Profile {
	var out []Profile
	for _, p := range r.Profiles {
		out = append(out, Profile{p.MaxRows, p.EvaluationRows})
	}
	return out
}

// outputs lists names, widths and element types in order.
func (r *Recipe) outputs() []nn.Output {
	dtypes := map[string]tensor.DType{}
	if r.Embedding != nil {
		dtypes[EmbeddingTable] = r.Embedding.DType
	}
	for _, t := range r.Tables {
		dtypes[t.Name] = t.DType
	}
	out := make([]nn.Output, len(r.Outputs))
	for i, l := range r.Outputs {
		out[i] = nn.Output{Name: l.Output, Width: l.Width, DType: dtypes[l.Table]}
	}
	return out
}
