package lang

// Kind is a type of the language.
type Kind uint8

// The types. Void is that of functions without a result.
const (
	Void Kind = iota
	Bool
	Int
	Uint
	Float
)

func (k Kind) String() string { return [...]string{"void", "bool", "int", "uint", "float"}[k] }

var kinds = map[string]Kind{"void": Void, "bool": Bool, "int": Int, "uint": Uint, "float": Float}

// Variable is a local variable, a parameter or a function's result.
type Variable struct {
	Name string
	Kind Kind
	// Inout says that the function gives the parameter's value back.
	Inout bool
	// Index numbers the variables of a program from 0.
	Index int
}

// Array is memory that is indexed: a buffer or shared memory.
type Array struct {
	Name   string
	Kind   Kind // Float or Uint
	Shared bool
	Writes bool
	// Index numbers buffers and shared arrays, each from 0; Elements is the size of
	// a shared array.
	Index, Elements int
}

// Function is a function of the program.
type Function struct {
	Name       string
	Result     *Variable // Kind Void for none
	Parameters []*Variable
	Body       *Block
}

// Program is a kernel's source, checked.
type Program struct {
	Buffers, Shared []*Array
	// Constants are the push constants in their order.
	Constants []Variable
	Functions []*Function
	Body      *Block
	// Variables is the number of variables of the program.
	Variables int
}

// Place is where a node stands in the source.
type Place struct {
	Part string // "functions" or "body"
	Line int
}

// Expr is an expression: *Literal, *Load, *Constant, *Position, *Element, *Unary,
// *Binary, *Convert or *Call.
type Expr interface{ Kind() Kind }

type (
	// Literal is a constant by its bits; true is 1.
	Literal struct {
		Type Kind
		Bits uint32
	}
	// Load is a variable's value.
	Load struct{ Variable *Variable }
	// Constant is push constant Index.
	Constant struct {
		Type  Kind
		Index int
	}
	// Position is gid, lid or wid along an axis.
	Position struct {
		Name string
		Axis int
	}
	// Element is one of an array.
	Element struct {
		Place Place
		Array *Array
		Index Expr
	}
	// Unary is -, ! or ~.
	Unary struct {
		Op string
		X  Expr
	}
	// Binary is an operator of C, or "min".
	Binary struct {
		Place Place
		Op    string
		X, Y  Expr
		Type  Kind
	}
	// Convert is a conversion of values to Type; Bits keeps the bits instead.
	Convert struct {
		Place Place
		Type  Kind
		Bits  bool
		X     Expr
	}
	// Call is a call of a function. Outs are the variables that inout parameters
	// are given back to, nil for others.
	Call struct {
		Function *Function
		Args     []Expr
		Outs     []*Variable
	}
)

func (e *Literal) Kind() Kind  { return e.Type }
func (e *Load) Kind() Kind     { return e.Variable.Kind }
func (e *Constant) Kind() Kind { return e.Type }
func (*Position) Kind() Kind   { return Uint }
func (e *Element) Kind() Kind  { return e.Array.Kind }
func (e *Unary) Kind() Kind    { return e.X.Kind() }
func (e *Binary) Kind() Kind   { return e.Type }
func (e *Convert) Kind() Kind  { return e.Type }
func (e *Call) Kind() Kind     { return e.Function.Result.Kind }

// Stmt is a statement: *Block, *If, *Loop, *Assign, *Store, *Jump, *Barrier or
// *Do.
type Stmt interface{}

type (
	// Block is a list of statements.
	Block struct{ List []Stmt }
	// If chooses; Else may be nil.
	If struct {
		Cond       Expr
		Then, Else Stmt
	}
	// Loop runs Body, then Next, while Cond holds. Before and Next may be nil.
	Loop struct {
		Place        Place
		Before, Next Stmt
		Cond         Expr
		Body         Stmt
	}
	// Assign sets a variable.
	Assign struct {
		Variable *Variable
		Value    Expr
	}
	// Store sets an element.
	Store struct {
		Target *Element
		Value  Expr
	}
	// Jump is "break", "continue" or "return" with a Value or nil.
	Jump struct {
		What   string
		Result *Variable
		Value  Expr
	}
	// Barrier waits for the workgroup.
	Barrier struct{ Place Place }
	// Do is a call for its effects.
	Do struct{ Call *Call }
)
