package hyenadna

import (
	"errors"
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/settings"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// ErrConfig is wrapped by every error about a configuration that is malformed,
// out of bounds, or asks for what this package does not compute.
var ErrConfig = errors.New("config.json does not describe a supported HyenaDNA model")

const (
	modelType  = "hyenadna"
	classLM    = "HyenaDNAForCausalLM"
	classModel = "HyenaDNAModel"

	classClassifier = "HyenaDNAForSequenceClassification"
)

var classes = []string{classLM, classModel, classClassifier}

// code lists the classes in the published repositories that this package computes.
var code = []string{"modeling_hyena." + classModel, "modeling_hyena." + classLM, "modeling_hyena." + classClassifier}

// Config holds what a config.json says about the computation.
type Config struct {
	// VocabSize is the number of token ids, which is vocab_size rounded up to a
	// multiple of pad_vocab_size_multiple. HiddenSize is the width of the residual
	// stream, IntermediateSize that of the MLP.
	VocabSize, HiddenSize, IntermediateSize int
	Layers                                  int
	// Positions is the longest sequence, and the number of stored positions.
	Positions int
	// Order is the number of streams that are multiplied with each other: Order−1
	// long convolutions are in between.
	Order int
	// PositionSize is the width of the stored position vectors, FilterSize that of
	// the MLP that makes filters of them, and FilterLayers the number of its inner
	// layers.
	PositionSize, FilterSize, FilterLayers int
	// TrainedFrequencies says that the factors inside the sines are stored; else
	// they are all Frequency.
	TrainedFrequencies bool
	Frequency          float32
	// LM says that there is a head over the ids. TiedHead says that its matrix is the
	// embedding.
	LM, TiedHead bool
	// Labels is the number of classes of a model that classifies sequences, 0 for
	// others.
	Labels int
	// PadToken is -1 when the configuration has none.
	PadToken int
}

// Bounds on what a configuration may ask for: the number of values of every tensor,
// in bytes, stays within 63 bits.
const (
	maxVocab        = 1 << 20
	maxHidden       = 1 << 16
	maxIntermediate = 1 << 20
	maxLayers       = 1 << 10
	maxOrder        = 16
	maxPosition     = 1 << 12
	maxFilter       = 1 << 16
	maxFilterLayers = 64
	maxLabels       = 1 << 16
)

const (
	normEpsilon = 1e-5
	// shift is added to the window of every filter. The programs have no setting for
	// it.
	shift = 0.05
	// shortTaps is the number of positions of the depthwise convolution.
	shortTaps = 3
)

// neutral lists settings that would change the computation, with the values at
// which they do not.
var neutral = []settings.Neutral{
	{Key: "short_filter_order", OK: []string{"3"}, What: "another length than 3 of the short filter"},
	{Key: "layer_norm_epsilon", OK: []string{"1e-05", "1e-5", "0.00001"}, What: "another epsilon than 1e-5, on which the published programs differ,"},
	{Key: "layer", What: "the configuration of the original program; its model_type hyenadna form, with max_seq_len, is read. This"},
}

// ParseConfig checks a config.json for what decides the computation. Settings
// that change it and are not implemented are errors that name them; other
// unknown settings are left alone. Errors wrap [ErrConfig].
func ParseConfig(cfg architectures.Config) (*Config, error) {
	o, err := settings.Parse(ErrConfig, cfg.Raw)
	if err != nil {
		return nil, err
	}
	class, err := o.IdentityOfCode(cfg, []string{modelType}, classes, code)
	if err != nil {
		return nil, err
	}
	if err := o.Check(settings.Common, settings.NotSeq2Seq, neutral); err != nil {
		return nil, err
	}
	if _, err := o.DType(tensor.F32); err != nil {
		return nil, err
	}
	c := &Config{LM: class == classLM}
	c.VocabSize = o.Size("vocab_size", settings.Required, maxVocab)
	c.HiddenSize = o.Size("d_model", settings.Required, maxHidden)
	c.IntermediateSize = o.Size("d_inner", 4*c.HiddenSize, maxIntermediate)
	c.Layers = o.Size("n_layer", settings.Required, maxLayers)
	c.Positions = o.Size("max_seq_len", settings.Required, nn.MaxLongConvolution)
	c.Order = o.Size("hyena_order", 2, maxOrder)
	c.PositionSize = o.Size("emb_dim", 3, maxPosition)
	c.FilterSize = o.Size("filter_order", 64, maxFilter)
	c.FilterLayers = o.Count("num_inner_mlps", 2, maxFilterLayers)
	c.TrainedFrequencies = o.Flag("train_freq", true)
	c.Frequency = float32(o.Number("activation_freq", 1))
	c.TiedHead = o.Flag("tie_word_embeddings", true) && c.LM
	if class == classClassifier {
		c.Labels = labels(o)
	}
	multiple := o.Size("pad_vocab_size_multiple", 8, maxVocab)
	if o.Err != nil {
		return nil, o.Err
	}
	c.VocabSize = (c.VocabSize + multiple - 1) / multiple * multiple
	c.PadToken = o.PadToken(-1, c.VocabSize)
	switch {
	case o.Err != nil:
		return nil, o.Err
	case math.IsInf(float64(c.Frequency), 0):
		return nil, o.Fail("activation_freq", "%s is too large for float32", settings.Snippet(o.Raw("activation_freq")))
	case c.Order < 2:
		return nil, o.Fail("hyena_order", "%d: without a long convolution it is not supported", c.Order)
	case c.PositionSize < 3 || c.PositionSize%2 == 0:
		return nil, o.Fail("emb_dim", "%d: expected an odd number from 3 on, a time, cosines and sines", c.PositionSize)
	}
	return c, nil
}

// labels is the number of classes: those that id2label names, or num_labels, or
// two, in the order in which the reference looks.
func labels(o *settings.Object) int {
	n := o.Size("num_labels", 2, maxLabels)
	if names := o.Object("id2label").Keys(); len(names) > 0 {
		n = len(names)
	}
	if n > maxLabels && o.Err == nil {
		o.Err = o.Fail("id2label", "%d labels; at most %d are read", n, maxLabels)
	}
	return n
}

// streams is the width of the input projection.
func (c *Config) streams() int { return (c.Order + 1) * c.HiddenSize }

// filters is the width of all filters of a layer.
func (c *Config) filters() int { return (c.Order - 1) * c.HiddenSize }

// limits says what a call may hold.
func (c *Config) limits() batch.Limits {
	return batch.Limits{Vocabulary: c.VocabSize, Positions: c.Positions, NoPositions: true, Unmasked: true}
}

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("hyenadna: %d layers, hidden %d, %d positions, vocabulary %d", c.Layers, c.HiddenSize, c.Positions, c.VocabSize)
}
