package loader

import "github.com/hfcompress/compress/tensor"

// Param declares one tensor that a model expects of its checkpoint.
type Param struct {
	// Name is the tensor's name in the checkpoint.
	Name string
	// Shape is the only accepted shape.
	Shape tensor.Shape
	// DTypes lists the accepted element types; there is never a silent cast.
	DTypes []tensor.DType
	// TiedTo names another declared parameter that this one must equal. A tied
	// parameter may be absent from the checkpoint, and is then filled; when it is
	// present its bits must agree.
	TiedTo string
	// Ignored marks a tensor that checkpoints of this architecture may carry and
	// the model does not read, such as a stored mask. It may be absent. An ignored
	// tensor must still have the declared shape and type when these are given.
	Ignored bool
}
