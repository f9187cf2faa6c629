package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/hfcompress/compress/tensor"
)

// DomainKind says what the elements of a [Domain] are.
type DomainKind string

// The kinds of domains.
const (
	// TokenIDs: element i is token id i, or the i-th of the listed ids.
	TokenIDs DomainKind = "token_ids"
	// Timesteps: element i is the number with the i-th key as its bit pattern,
	// after the model's own cast.
	Timesteps DomainKind = "timesteps"
	// Pairs: element i·J + j is element i of the first factor and element j of the
	// second, which has J.
	Pairs DomainKind = "pairs"
	// Constant: one element, an input that is always the same.
	Constant DomainKind = "constant"
)

// Domain is the finite set of inputs that a block is a function of. It maps keys
// to indices 0 to Size−1, which is what blocks take. A Domain does not change
// once made; a nil one stands for token ids.
type Domain struct {
	Kind DomainKind `json:"kind"`
	// Size is the number of elements.
	Size int `json:"size"`
	// Cast says how a number becomes a key; timesteps only.
	Cast *Cast `json:"cast,omitempty"`
	// Keys are the elements, for timesteps and for token ids that are not all of
	// 0 to Size−1.
	Keys Keys `json:"keys,omitempty"`
	// Factors are the two domains of pairs.
	Factors []Domain `json:"factors,omitempty"`
}

// maxDomain bounds sizes, so that products of two fit an int.
const maxDomain = math.MaxInt32

// ListedTokens returns the domain of some token ids. Repetitions are dropped.
func ListedTokens(ids []int) (*Domain, error) {
	all := make([]uint64, len(ids))
	for i, id := range ids {
		if id < 0 {
			return nil, fmt.Errorf("%w: token id %d", ErrIndex, id)
		}
		all[i] = uint64(id)
	}
	d := &Domain{Kind: TokenIDs, Keys: newKeys(all)}
	d.Size = len(d.Keys)
	return d, d.Validate()
}

// NewTimesteps returns the domain of declared timesteps, given as the numbers
// that the model is called with. Numbers that the cast makes equal are one
// element.
func NewTimesteps(cast Cast, values []float32) (*Domain, error) {
	if err := cast.Validate(); err != nil {
		return nil, err
	}
	keys := make([]uint64, len(values))
	for i, v := range values {
		var err error
		if keys[i], err = cast.Key(v); err != nil {
			return nil, err
		}
	}
	return TimestepKeys(cast, keys)
}

// TimestepKeys returns the domain of timesteps given by their bit patterns after
// the cast, as they were captured from a reference.
func TimestepKeys(cast Cast, keys []uint64) (*Domain, error) {
	d := &Domain{Kind: Timesteps, Cast: &cast, Keys: newKeys(keys)}
	d.Size = len(d.Keys)
	return d, d.Validate()
}

// UniversalTimesteps returns the domain of every timestep from 1 to 1,000 that a
// model in BF16 can tell apart, when it rounds the number to BF16, divides by
// 1,000 and rounds again: 1,248 keys. No schedule has to be declared.
func UniversalTimesteps() *Domain {
	cast := Cast{DType: tensor.BF16, Divide: 1000}
	var values []float32
	for bits := castBits(tensor.BF16, 1); bits <= castBits(tensor.BF16, 1000); bits++ {
		values = append(values, cast.Value(bits))
	}
	d, err := NewTimesteps(cast, values)
	if err != nil {
		panic(err) // all of them are finite
	}
	return d
}

// ConstantDomain returns the domain of size one.
func ConstantDomain() *Domain { return &Domain{Kind: Constant, Size: 1} }

// NewPairs returns the product of two domains.
func NewPairs(first, second *Domain) (*Domain, error) {
	d := &Domain{Kind: Pairs, Factors: []Domain{*first, *second}}
	if n := int64(first.Size) * int64(second.Size); n > 0 && n <= maxDomain {
		d.Size = int(n)
	}
	return d, d.Validate()
}

// AllTokens returns the domain of the token ids 0 to n−1, for use as a factor of
// pairs.
func AllTokens(n int) (*Domain, error) {
	d := &Domain{Kind: TokenIDs, Size: n}
	return d, d.Validate()
}

// Validate checks that the parts fit the kind.
func (d *Domain) Validate() error {
	if err := d.validate(); err != nil {
		return fmt.Errorf("domain %.40q: %w", d.Kind, err)
	}
	return nil
}

func (d *Domain) validate() error {
	keyed := d.Keys != nil
	switch {
	case d.Size < 1 || d.Size > maxDomain:
		return fmt.Errorf("%w: %d elements, expected 1 to %d", tensor.ErrShape, d.Size, maxDomain)
	case d.Kind != Timesteps && d.Cast != nil:
		return fmt.Errorf("a cast belongs to timesteps")
	case d.Kind != Pairs && d.Factors != nil:
		return fmt.Errorf("factors belong to pairs")
	case keyed && d.Kind != Timesteps && d.Kind != TokenIDs:
		return fmt.Errorf("keys belong to timesteps and token ids")
	case keyed && len(d.Keys) != d.Size:
		return fmt.Errorf("%d keys for %d elements", len(d.Keys), d.Size)
	}
	if keyed {
		if err := d.Keys.validate(); err != nil {
			return err
		}
	}
	switch d.Kind {
	case TokenIDs:
		if keyed && d.Keys[d.Size-1] > maxDomain {
			return fmt.Errorf("%w: token id %d", ErrIndex, d.Keys[d.Size-1])
		}
	case Constant:
		if d.Size != 1 {
			return fmt.Errorf("%w: %d elements, expected 1", tensor.ErrShape, d.Size)
		}
	case Timesteps:
		return d.validateTimesteps()
	case Pairs:
		return d.validatePairs()
	default:
		return fmt.Errorf("unknown kind")
	}
	return nil
}

func (d *Domain) validateTimesteps() error {
	if d.Cast == nil || d.Keys == nil {
		return fmt.Errorf("timesteps need a cast and keys")
	}
	if err := d.Cast.Validate(); err != nil {
		return err
	}
	for _, k := range d.Keys {
		if k>>d.Cast.keyBits() != 0 {
			return fmt.Errorf("%w: key %#x is no %v", ErrIndex, k, d.Cast.DType)
		}
		if v := d.Cast.Value(k); v-v != 0 {
			return fmt.Errorf("%w: key %#x is %g", ErrIndex, k, v)
		}
	}
	return nil
}

func (d *Domain) validatePairs() error {
	if len(d.Factors) != 2 {
		return fmt.Errorf("%d factors, expected 2", len(d.Factors))
	}
	for i := range d.Factors {
		if d.Factors[i].Kind == Pairs {
			return fmt.Errorf("pairs of pairs")
		}
		if err := d.Factors[i].Validate(); err != nil {
			return err
		}
	}
	// Both sizes are below 2³¹.
	if n := int64(d.Factors[0].Size) * int64(d.Factors[1].Size); n != int64(d.Size) {
		return fmt.Errorf("%w: %d elements for factors of %d and %d", tensor.ErrShape, d.Size, d.Factors[0].Size, d.Factors[1].Size)
	}
	return nil
}

// Index returns the index of a key: a token id, or the bit pattern of a
// timestep. A key that is not declared is an error that names it and wraps
// [ErrIndex].
func (d *Domain) Index(key uint64) (int, error) {
	if d.Keys == nil {
		if d.Kind != Pairs && key < uint64(d.Size) {
			return int(key), nil
		}
		return 0, fmt.Errorf("%w: %d is outside 0..%d", ErrIndex, key, d.Size-1)
	}
	at, ok := slices.BinarySearch(d.Keys, key)
	switch {
	case ok:
		return at, nil
	case d.Kind == Timesteps:
		return 0, fmt.Errorf("%w: timestep %g (key %#x as %v) is not declared; %d are, from %g to %g", ErrIndex,
			d.Cast.Value(key), key, d.Cast.DType, d.Size, d.Cast.Value(d.Keys[0]), d.Cast.Value(d.Keys[d.Size-1]))
	}
	return 0, fmt.Errorf("%w: token id %d is not declared; %d are, from %d to %d", ErrIndex, key, d.Size, d.Keys[0], d.Keys[d.Size-1])
}

// TimestepIndex returns the index of a number that the model is called with.
func (d *Domain) TimestepIndex(value float32) (int, error) {
	if d == nil || d.Kind != Timesteps {
		return 0, fmt.Errorf("%w: the block has no timesteps", ErrIndex)
	}
	key, err := d.Cast.Key(value)
	if err != nil {
		return 0, err
	}
	return d.Index(key)
}

// PairIndex returns the index of element i of the first factor with element j of
// the second.
func (d *Domain) PairIndex(i, j int) (int, error) {
	if d == nil || d.Kind != Pairs {
		return 0, fmt.Errorf("%w: the block has no pairs", ErrIndex)
	}
	a, b := d.Factors[0].Size, d.Factors[1].Size
	if i < 0 || i >= a || j < 0 || j >= b {
		return 0, fmt.Errorf("%w: pair (%d, %d) of %d × %d", ErrIndex, i, j, a, b)
	}
	return i*b + j, nil
}

// Values returns the number that each timestep stands for, in order; nil for
// other domains.
func (d *Domain) Values() []float32 {
	if d == nil || d.Kind != Timesteps {
		return nil
	}
	out := make([]float32, len(d.Keys))
	for i, k := range d.Keys {
		out[i] = d.Cast.Value(k)
	}
	return out
}

// Equal reports whether both domains have the same elements in the same order.
func (d *Domain) Equal(o *Domain) bool {
	if d == nil || o == nil {
		return d == o
	}
	if d.Kind != o.Kind || d.Size != o.Size || !slices.Equal(d.Keys, o.Keys) || (d.Keys == nil) != (o.Keys == nil) ||
		(d.Cast == nil) != (o.Cast == nil) || len(d.Factors) != len(o.Factors) {
		return false
	}
	if d.Cast != nil && *d.Cast != *o.Cast {
		return false
	}
	for i := range d.Factors {
		if !d.Factors[i].Equal(&o.Factors[i]) {
			return false
		}
	}
	return true
}

// fits reports whether a block over d may stand where one over place is
// declared.
func (d *Domain) fits(place *Domain) bool {
	if d.Equal(place) {
		return true
	}
	tokens := func(x *Domain) bool { return x == nil || x.Kind == TokenIDs && x.Keys == nil }
	return tokens(place) && (tokens(d) || d.Kind == TokenIDs)
}

// String describes the domain in short, such as "1248 timesteps (BF16)".
func (d *Domain) String() string {
	switch {
	case d == nil:
		return "token ids"
	case d.Kind == Timesteps:
		return fmt.Sprintf("%d timesteps (%v)", d.Size, d.Cast.DType)
	case d.Kind == TokenIDs:
		return fmt.Sprintf("%d token ids", d.Size)
	case d.Kind == Pairs && len(d.Factors) == 2:
		return fmt.Sprintf("%d pairs (%v × %v)", d.Size, &d.Factors[0], &d.Factors[1])
	}
	return string(d.Kind)
}
