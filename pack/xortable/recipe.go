package xortable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hfcompress/compress/internal/strictjson"
	"github.com/hfcompress/compress/tensor"
)

// Mode is how one route is stored.
type Mode string

// The modes of a route. Low8 and Low16 are rectangles: the low bits of every
// XOR and padded exceptions per row. Packed chooses a width and XOR or
// difference for every 64 columns of a row, and keeps exceptions unpadded.
const (
	Same   Mode = "same"
	Low8   Mode = "low8"
	Low16  Mode = "low16"
	Packed Mode = "packed"
	Full   Mode = "full"
)

// RecipeKind and RecipeVersion are what a [Recipe] must carry.
const (
	RecipeKind    = "xor_tables"
	RecipeVersion = 1
)

// ErrRecipe is wrapped by every error about a recipe, or tensors given with it,
// that do not describe a valid set.
var ErrRecipe = errors.New("bad XOR table recipe")

// Names of a route's tensors.
const (
	tensorBase    = "base"
	tensorLow     = "low"
	tensorColumns = "columns"
	tensorHigh    = "high"
	tensorCodes   = "codes"
	tensorOffsets = "offsets"
	tensorFull    = "full"
)

// Recipe says how the tensors of a [Set] fit together. Its JSON form is what a
// package keeps; docs/xortable.md describes it.
type Recipe struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// DType and Shape, [rows, width], are those of every table.
	DType tensor.DType `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
	// Base is the route that the base tensor holds; its mode is same.
	Base   int           `json:"base"`
	Routes []RouteRecipe `json:"routes"`
}

// RouteRecipe is one table of a [Recipe].
type RouteRecipe struct {
	Mode Mode `json:"mode"`
	// Tensors describes the route's own storage by name; nothing for same.
	Tensors map[string]TensorRecipe `json:"tensors,omitempty"`
}

// TensorRecipe is the element type and shape that a stored tensor must have.
type TensorRecipe struct {
	DType tensor.DType `json:"dtype"`
	Shape tensor.Shape `json:"shape"`
}

// maxRecipeBytes and maxRoutes bound what a hostile recipe can cost.
const (
	maxRecipeBytes = 4 << 20
	maxRoutes      = 4096
)

// ParseRecipe reads the JSON form. It refuses unknown and repeated keys, text
// after the object, and whatever [Recipe.Validate] refuses.
func ParseRecipe(data []byte) (Recipe, error) {
	var r Recipe
	if len(data) > maxRecipeBytes {
		return r, fmt.Errorf("%w: %d bytes, the limit is %d", ErrRecipe, len(data), maxRecipeBytes)
	}
	if err := strictjson.Check(data, strictjson.Options{Key: strictjson.LowerKey}); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Recipe{}, fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	if err := r.Validate(); err != nil {
		return Recipe{}, err
	}
	return r, nil
}

// Validate checks everything that the recipe alone can show.
func (r Recipe) Validate() error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	return nil
}

func (r Recipe) validate() error {
	if r.Kind != RecipeKind {
		return fmt.Errorf("kind is %.40q, want %q", r.Kind, RecipeKind)
	}
	if r.Version != RecipeVersion {
		return fmt.Errorf("version is %d, this program reads %d", r.Version, RecipeVersion)
	}
	bits, err := wordBits(r.DType)
	if err != nil {
		return err
	}
	if len(r.Shape) != 2 || r.Shape[0] < 1 || r.Shape[1] < 1 {
		return fmt.Errorf("%w: tables have shape %v, want [rows, width], both positive", tensor.ErrShape, r.Shape)
	}
	if _, err := r.Shape.Bytes(r.DType); err != nil {
		return err
	}
	if len(r.Routes) == 0 || len(r.Routes) > maxRoutes {
		return fmt.Errorf("%d routes, want 1 to %d", len(r.Routes), maxRoutes)
	}
	if r.Base < 0 || r.Base >= len(r.Routes) {
		return fmt.Errorf("base is route %d of %d", r.Base, len(r.Routes))
	}
	if m := r.Routes[r.Base].Mode; m != Same {
		return fmt.Errorf("base route %d has mode %q, want %q", r.Base, m, Same)
	}
	for i, route := range r.Routes {
		if err := route.validate(r.DType, r.Shape, bits); err != nil {
			return fmt.Errorf("route %d: %w", i, err)
		}
	}
	return nil
}

func (r RouteRecipe) validate(d tensor.DType, shape tensor.Shape, element uint) error {
	rows, width := shape[0], shape[1]
	want := map[string]TensorRecipe{}
	switch r.Mode {
	case Same:
	case Full:
		want[tensorFull] = TensorRecipe{d, shape}
	case Low8, Low16:
		low := lowBitsOf(r.Mode)
		if low >= element {
			return fmt.Errorf("mode %s is as wide as an element of %v", r.Mode, d)
		}
		want[tensorLow] = TensorRecipe{unsigned(low), tensor.Shape{rows, width}}
		if columns, ok := r.Tensors[tensorColumns]; ok {
			if len(columns.Shape) != 2 || columns.Shape[1] < 1 || columns.Shape[1] > width {
				return fmt.Errorf("%w: columns have shape %v, want [%d, 1 to %d]", tensor.ErrShape, columns.Shape, rows, width)
			}
			want[tensorColumns] = TensorRecipe{unsigned(columnBits(width)), tensor.Shape{rows, columns.Shape[1]}}
			want[tensorHigh] = TensorRecipe{unsigned(highBits(element, low)), tensor.Shape{rows, columns.Shape[1]}}
		}
	case Packed:
		// The length of the codes is data: the offsets bound it.
		codes := r.Tensors[tensorCodes]
		if len(codes.Shape) != 1 || codes.Shape[0] < 1 {
			return fmt.Errorf("%w: codes have shape %v, want one positive extent", tensor.ErrShape, codes.Shape)
		}
		want[tensorCodes] = TensorRecipe{tensor.U8, codes.Shape}
		want[tensorOffsets] = TensorRecipe{unsigned(offsetBits(codes.Shape[0])), tensor.Shape{rows + 1}}
	default:
		return fmt.Errorf("unknown mode %.40q", r.Mode)
	}
	for name, w := range want {
		have, ok := r.Tensors[name]
		if !ok {
			return fmt.Errorf("mode %s needs tensor %q", r.Mode, name)
		}
		if have.DType != w.DType {
			return fmt.Errorf("%w: %s are %v, want %v", tensor.ErrDType, name, have.DType, w.DType)
		}
		if !have.Shape.Equal(w.Shape) {
			return fmt.Errorf("%w: %s have shape %v, want %v", tensor.ErrShape, name, have.Shape, w.Shape)
		}
		if _, err := have.Shape.Bytes(have.DType); err != nil {
			return err
		}
	}
	for name := range r.Tensors {
		if _, ok := want[name]; !ok {
			return fmt.Errorf("mode %s has no tensor %.40q", r.Mode, name)
		}
	}
	return nil
}

func lowBitsOf(m Mode) uint {
	if m == Low8 {
		return 8
	}
	return 16
}

// offsetBits is the width of an offset into codes of n bytes.
func offsetBits(n int) uint {
	if uint64(n) < 1<<32 {
		return 32
	}
	return 64
}
