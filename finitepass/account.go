package finitepass

// Account compares the storage of a block, or of a whole model, before and
// after. Everything that is stored counts: tables, XOR heads, codes and
// exceptions, padding, and the embedding that stays.
type Account struct {
	Before Amount `json:"before"`
	After  Amount `json:"after"`
	// AfterFull is After with every distinct table stored whole, without XOR.
	AfterFull Amount `json:"after_full_tables"`
	// RecipeBytes is the size of the JSON that describes the tables. It belongs to
	// no tensor, so it is counted apart, and a saving has to exceed it.
	RecipeBytes int64 `json:"recipe_bytes"`

	// ValuesSaved counts with full tables, whatever form they are stored in.
	ValuesSaved int64 `json:"values_saved"`
	// BytesSaved is the fall of resident bytes as stored, and BytesSavedFull what
	// it would be with full tables. Recipes are not included.
	BytesSaved     int64 `json:"bytes_saved"`
	BytesSavedFull int64 `json:"bytes_saved_full_tables"`
}

// account fills the differences.
func account(before, after, full Amount, recipe int64) Account {
	return Account{
		Before: before, After: after, AfterFull: full, RecipeBytes: recipe,
		ValuesSaved:    before.Values - full.Values,
		BytesSaved:     before.ResidentBytes - after.ResidentBytes,
		BytesSavedFull: before.ResidentBytes - full.ResidentBytes,
	}
}

// Saves reports whether logical and resident bytes both fall by more than the
// recipe takes.
func (a Account) Saves() bool {
	return a.After.LogicalBytes+a.RecipeBytes < a.Before.LogicalBytes &&
		a.After.ResidentBytes+a.RecipeBytes < a.Before.ResidentBytes
}
