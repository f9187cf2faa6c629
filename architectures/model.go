package architectures

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Family is one architecture family, such as "llama".
type Family interface {
	// Name is the registry key.
	Name() string
	// Matches reports whether a model's config.json describes this family.
	Matches(cfg Config) bool
	// New checks cfg and returns the model's blueprint. A setting that the family
	// does not implement is an error that names it, never ignored.
	New(cfg Config) (Blueprint, error)
}

// Blueprint is a model without weights: what it expects of a checkpoint and
// which finite blocks it declares, known from the configuration alone.
type Blueprint interface {
	// Params lists every tensor of the checkpoint, in a stable order.
	Params() []loader.Param
	// Blocks lists the declared finite blocks.
	Blocks() []BlockSpec
	// Build uploads weights to dev and returns a model that runs. A block given
	// in blocks, by path, takes the place of its source computation, and then the
	// parameters that only this block reads are not asked of weights.
	Build(dev nn.Device, weights Weights, blocks map[string]nn.TokenBlock) (Model, error)
	// Inputs says what the model takes, so that examples can be made for it.
	Inputs() InputSpec
}

// BlockSpec declares a finite block by the tensors involved.
type BlockSpec struct {
	// Path addresses the block within the model, such as "model.layers.0.qkv".
	Path string `json:"path"`
	// Contract is what the caller must promise for the rewrite to be allowed: the
	// one that [ContractOf] gives for the domain.
	Contract string `json:"contract"`
	// Domain is the finite set of inputs; nil means the token ids below NumTokens.
	Domain *nn.Domain `json:"domain,omitempty"`
	// NumTokens is the size of the domain. For tokens it is the number of rows of
	// the embedding, whose width EmbeddingWidth is; for other domains that is the
	// width of the rows that the source begins with.
	NumTokens      int `json:"num_tokens"`
	EmbeddingWidth int `json:"embedding_width"`
	// Embedding names the embedding tensor. It stays in the model, where the
	// residual and often other consumers read it, unless Removes lists it. It is
	// empty when the source's rows are computed, as for timesteps.
	Embedding string `json:"embedding"`
	// OwnsEmbedding says that nothing but this block, its residual included, reads
	// the embedding, so that a lookup that keeps the residual's rows may take its
	// place: see [ReachableIDsOnly].
	OwnsEmbedding bool `json:"owns_embedding,omitempty"`
	// Removes lists the tensors that nothing but this block reads.
	Removes []string `json:"removes"`
	// Outputs lists the branches' outputs, without the residual.
	Outputs []nn.Output `json:"outputs"`
	// Refusal, when not empty, says why this block must not be rewritten.
	Refusal string `json:"refusal,omitempty"`
}

// The contracts: what the callers of a block promise to give it, through its
// forward function and in no other way.
const (
	// TokenIndicesOnly: valid integer ids.
	TokenIndicesOnly = "token_indices_only"
	// ReachableIDsOnly: the token ids that the caller has listed. It comes on top of
	// TokenIndicesOnly, and blocks compiled under it refuse all other ids.
	ReachableIDsOnly = "reachable_ids_only"
	// DeclaredTimestepsOnly: the timesteps of the block's domain.
	DeclaredTimestepsOnly = "declared_timesteps_only"
	// DeclaredPairsOnly: the pairs of the block's domain.
	DeclaredPairsOnly = "declared_pairs_only"
	// ConstantInputOnly: the one input that the architecture knows.
	ConstantInputOnly = "constant_input_only"
)

// ContractOf returns the contract that a block over d needs.
func ContractOf(d *nn.Domain) string {
	if d == nil {
		return TokenIndicesOnly
	}
	switch d.Kind {
	case nn.Timesteps:
		return DeclaredTimestepsOnly
	case nn.Pairs:
		return DeclaredPairsOnly
	case nn.Constant:
		return ConstantInputOnly
	}
	return TokenIndicesOnly
}

// Scheduled is implemented by blueprints with blocks that are functions of a
// timestep. Until a schedule is given, such blocks are not declared.
type Scheduled interface {
	Blueprint
	// TimestepCast says how the model rounds a timestep.
	TimestepCast() nn.Cast
	// WithTimesteps returns a blueprint of the same model whose timestep blocks
	// have the given domain. Its models refuse other timesteps.
	WithTimesteps(d *nn.Domain) (Blueprint, error)
}

// UsualSchedule is implemented by scheduled blueprints whose published sampler has
// one schedule unless it is told otherwise.
type UsualSchedule interface {
	Scheduled
	// UsualTimesteps lists its timesteps in the order of the steps. They are for plans
	// and suggestions: what a caller has not declared is not promised.
	UsualTimesteps() []float32
}

// Labelled is implemented by scheduled blueprints whose blocks are functions of a
// timestep and of a class label: the schedule that they take may also be a domain
// of pairs of both.
type Labelled interface {
	Scheduled
	// Labels is the number of valid labels: 0 to Labels()−1.
	Labels() int
}

// LatentInput describes the inputs of models that take images with a timestep and
// a class label each: hidden_states F32 [batch, Channels, Size, Size], timestep F32
// or I64 [batch], and class_labels I64 [batch].
type LatentInput struct {
	Channels, Size int
	// Labels is the number of valid labels.
	Labels int
	// Timesteps and LabelIDs are those that examples may use: what is declared, or a
	// choice where nothing is. LabelIDs may be empty for all labels.
	Timesteps []float32
	LabelIDs  []int
}

// FlowInput describes the inputs of models that take rows of features, such as a
// spectrogram's, with a text and a time: x and cond F32 [batch, length, Features],
// text I64 [batch, characters], −1 behind the end of a shorter one, time F32 [batch],
// and mask I64 [batch, length], which may be left out: ones and then zeros, in at
// least one sequence no zeros. Flags are "drop_audio_cond", "drop_text" and, without
// these, "cfg_infer".
type FlowInput struct {
	Features int
	// Characters is the number of valid text ids from 0 on.
	Characters int
	// MaxLength is the largest length, 0 when unlimited.
	MaxLength int
	// Timesteps are the times that examples may use: what is declared, or a choice
	// where nothing is.
	Timesteps []float32
}

// InputSpec says which inputs a model takes, for generating examples.
type InputSpec struct {
	// Latent and Flow, when not nil, say that the model takes images, or rows of
	// features, instead of token ids. The other fields are zero then.
	Latent *LatentInput
	Flow   *FlowInput

	// Vocabulary is the number of valid ids of input_ids.
	Vocabulary int
	// IDs, when not empty, are the only ones of them that examples may use, in
	// increasing order: the caller has promised that no others occur.
	IDs []int
	// MaxPositions is the longest sequence, 0 when unlimited.
	MaxPositions int
	// PadToken is the id used in padded positions.
	PadToken int
	// Masks says that attention_mask and position_ids are understood.
	Masks bool
	// Further lists other integer inputs; all of them may be left out of a call.
	Further []FurtherInput
}

// FurtherInput is an integer input beside input_ids, I64 of two axes.
type FurtherInput struct {
	// Name is the input's, such as "token_type_ids" or "decoder_input_ids".
	Name string
	// Values bounds it: 0 ≤ value < Values.
	Values int
	// Tokens says that the values are token ids as those of input_ids are, so that
	// examples use InputSpec.IDs alone.
	Tokens bool
	// OwnLength says that it has as many rows as input_ids, of any length; else it
	// has the shape of input_ids.
	OwnLength bool
	// Like names a further input whose shape it has in calls that give that one, as
	// the mask of a decoder's ids does.
	Like string
	// Padding says that it is a mask: 1, and 0 behind the end of a shorter sequence.
	Padding bool
}

// Size is the number of ids that examples may use.
func (s InputSpec) Size() int {
	if len(s.IDs) > 0 {
		return len(s.IDs)
	}
	return s.Vocabulary
}

// ID returns the i-th of the ids that examples may use.
func (s InputSpec) ID(i int) int {
	if len(s.IDs) > 0 {
		return s.IDs[i]
	}
	return i
}

// Weights hands out checkpoint tensors by name.
type Weights interface {
	Tensor(name string) (*tensor.Tensor, error)
}

// RowWeights is implemented by weights that hold some tensors as tables of rows
// in a smaller form: equal rows once, or packed.
type RowWeights interface {
	Weights
	// Rows returns the rows of a tensor of two axes, or nil when it is held as a
	// plain tensor.
	Rows(name string) (nn.RowSource, error)
}

// Rows returns the rows of the named tensor of two axes in the form in which
// weights hold it. Families read the tables that they gather from, and nothing
// else, through it.
func Rows(weights Weights, name string) (nn.RowSource, error) {
	if w, ok := weights.(RowWeights); ok {
		if rows, err := w.Rows(name); rows != nil || err != nil {
			return rows, err
		}
	}
	t, err := weights.Tensor(name)
	if err != nil {
		return nil, err
	}
	rows, err := nn.TensorRows(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	return rows, nil
}

// Model is a model on a device. Models are immutable and safe for concurrent
// use; WithBlock gives a new view that shares all other weights.
type Model interface {
	// Forward runs the model once on a whole batch.
	Forward(ctx context.Context, in Inputs) (Outputs, error)
	// Block returns the block in use at path.
	Block(path string) (nn.TokenBlock, error)
	// WithBlock returns a model in which the block at path is replaced.
	WithBlock(path string, block nn.TokenBlock) (Model, error)
	// Device returns the device that the model runs on.
	Device() nn.Device
}

// Generator is implemented by models that continue token sequences.
type Generator interface {
	// Generate appends up to maxNew greedily chosen tokens to each prompt, using a
	// key/value cache. A sequence ends at a token of the configuration's end
	// tokens, which is included; prompts may differ in length.
	Generate(ctx context.Context, prompts [][]int, maxNew int) ([][]int, error)
}

// Inputs is one call of a model: tensors by name and flags by name, as the
// reference implementation names them.
//
//	input_ids       I64 [batch, length]
//	attention_mask  I64 [batch, length], 0 hides a position
//	position_ids    I64 [batch, length]
//
// Flags are "output_hidden_states" and "output_attentions".
type Inputs struct {
	Tensors map[string]*tensor.Tensor
	Flags   map[string]bool
}

// TokenInputs returns inputs with one batch of equally long id sequences.
func TokenInputs(ids ...[]int) (Inputs, error) {
	t, err := IDTensor(ids)
	if err != nil {
		return Inputs{}, err
	}
	return Inputs{Tensors: map[string]*tensor.Tensor{"input_ids": t}}, nil
}

// IDTensor packs equally long rows as an I64 tensor [len(rows), length].
func IDTensor(rows [][]int) (*tensor.Tensor, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("%w: no sequences", tensor.ErrShape)
	}
	width := len(rows[0])
	flat := make([]int64, 0, len(rows)*width)
	for i, r := range rows {
		if len(r) != width {
			return nil, fmt.Errorf("%w: sequence %d has %d ids, the first has %d", tensor.ErrShape, i, len(r), width)
		}
		for _, id := range r {
			flat = append(flat, int64(id))
		}
	}
	return tensor.FromInt64s(flat, len(rows), width)
}

// Named is one output tensor.
type Named struct {
	Name   string
	Tensor *tensor.Tensor
}

// Outputs lists a call's results in a fixed order: logits first, then
// "hidden_states.0" …, then "attentions.0" ….
type Outputs []Named

// Get returns the named output, or nil.
func (o Outputs) Get(name string) *tensor.Tensor {
	for _, n := range o {
		if n.Name == name {
			return n.Tensor
		}
	}
	return nil
}
