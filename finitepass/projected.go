package finitepass

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// projectedSource is a fanout whose two branches apply one linear map to the
// embedding row, once as it is and once after L2 normalisation:
//
//	raw        = W·e + b
//	normalised = W·(e / max(‖e‖, eps)) + b
type projectedSource struct {
	raw, normalised int // branches
	linear          *nn.Linear
	eps             float32
}

// asProjected reports whether f has the form of a projected source.
func asProjected(block nn.TokenBlock) (*projectedSource, bool) {
	f, ok := block.(*nn.Fanout)
	if !ok || len(f.Prefix) > 0 || len(f.Branches) != 2 || f.Pair != nil || f.Over != nil || f.Embedding.DType() != tensor.F32 {
		return nil, false
	}
	p := &projectedSource{raw: -1, normalised: -1}
	for i, b := range f.Branches {
		layers := b.Layers
		if len(layers) == 2 {
			n, ok := layers[0].(nn.RowNormalize)
			if !ok {
				return nil, false
			}
			p.normalised, p.eps = i, n.Eps
			layers = layers[1:]
		} else {
			p.raw = i
		}
		if len(layers) != 1 {
			return nil, false
		}
		l, ok := layers[0].(*nn.Linear)
		if !ok || p.linear != nil && (l.Weight != p.linear.Weight || l.Bias != p.linear.Bias) {
			return nil, false
		}
		p.linear = l
	}
	if p.raw < 0 || p.normalised < 0 || p.linear.Weight.DType() != tensor.F32 || !(p.eps > 0) || math.IsInf(float64(p.eps), 0) {
		return nil, false
	}
	return p, true
}

// projection is the table of z = W·e and the norms r = max(‖e‖, eps).
const projectionTable = "projection"

// buildProjected computes z on the device and r on the host, in float64 and
// rounded once, and describes the two outputs as computed from them:
//
//	raw = z + b        normalised = z/r + b
func buildProjected(ctx context.Context, dev nn.Device, src *sourceBlock, p *projectedSource, o Options, report *BlockReport) (*built, error) {
	width := src.branches[p.raw].Width
	z, err := o.Alloc(tensor.F32, src.elements, width)
	if err != nil {
		return nil, err
	}
	norms, err := tensor.New(tensor.F32, src.elements)
	if err != nil {
		return nil, err
	}
	plain := &nn.Fanout{
		Embedding: src.fanout.Embedding, EmbeddingSource: src.fanout.EmbeddingSource, EmbeddingName: src.fanout.EmbeddingName,
		Branches: []nn.Branch{{Name: "z", Layers: []nn.RowLocal{&nn.Linear{Weight: p.linear.Weight, WeightName: p.linear.WeightName}}}},
	}
	if err := fillProjection(ctx, dev, plain, src, o, z, norms, p.eps); err != nil {
		return nil, err
	}
	bias := p.linear.Bias != nil
	r := &Recipe{
		Kind: RecipeKind, InputContract: contractFor(src.spec), NumTokens: src.spec.NumTokens, Domain: src.spec.Domain,
		Tables: []TableRecipe{{Name: projectionTable, DType: tensor.F32, Rows: src.elements, Width: width}},
	}
	b := &built{recipe: r, tensors: map[string]*tensor.Tensor{tableTensor(projectionTable): z, normsTensor(projectionTable): norms}}
	for i, branch := range src.branches {
		name := projectionTable
		if i == p.normalised || bias {
			name = "output_" + fmt.Sprint(i)
			r.Tables = append(r.Tables, TableRecipe{Name: name, DType: tensor.F32, Rows: src.elements, Width: width,
				Projection: &ProjectionRecipe{Of: projectionTable, Normalised: i == p.normalised, Bias: bias}})
		}
		r.Outputs = append(r.Outputs, Location{Output: branch.Name, Table: name, Width: width})
	}
	if src.liveResidual() {
		e := src.fanout.Embedding
		r.Outputs = append(r.Outputs, Location{Output: src.fanout.Residual, Table: EmbeddingTable, Width: e.Width()})
		r.Embedding = &EmbeddingRecipe{src.spec.Embedding, e.DType(), e.Width()}
	}
	if bias {
		if b.tensors[biasTensor(projectionTable)], err = hostVector(ctx, dev, p.linear.Bias); err != nil {
			return nil, err
		}
	}
	r.settleVersion()
	if err := r.Validate(); err != nil {
		return nil, err
	}
	return b, projectedAccount(b, src, o, report)
}

func fillProjection(ctx context.Context, dev nn.Device, plain *nn.Fanout, src *sourceBlock, o Options, z, norms *tensor.Tensor, eps float32) error {
	e := newEvaluator(ctx, dev, plain)
	defer e.close() //nolint:errcheck // a failure of the last session has been returned by call
	row := make([]byte, 4*plain.Embedding.Width())
	rows := bulkChunk(src.elements, o)
	for first := 0; first < src.elements; first += rows {
		ids := make([]int, rows)
		for i := range ids {
			ids[i] = src.id((first + i) % src.elements)
		}
		got, err := e.call(ids)
		if err != nil {
			return err
		}
		if at := notFinite(got[0]); at >= 0 {
			return fmt.Errorf("%w: the projection of token %d", ErrNonFinite, ids[at/z.Shape()[1]])
		}
		n := min(rows, src.elements-first)
		for i := range n {
			copy(z.Row(first+i), got[0].Row(i))
			if err := plain.EmbeddingSource.DecodeRow(row, ids[i]); err != nil {
				return fmt.Errorf("embedding %q: %w", plain.EmbeddingName, err)
			}
			r := norm(row, eps)
			if math.IsInf(float64(r), 0) || r != r {
				return fmt.Errorf("%w: the norm of token %d", ErrNonFinite, ids[i])
			}
			norms.Float32s()[first+i] = r
		}
		if o.Progress != nil {
			o.Progress("compile", int64(first+n), int64(src.elements))
		}
	}
	return e.close()
}

// norm returns max(‖row‖₂, eps) of float32 elements.
func norm(row []byte, eps float32) float32 {
	var sum float64
	for k := 0; k < len(row); k += 4 {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(row[k:])))
		sum += v * v
	}
	return max(float32(math.Sqrt(sum)), eps)
}

// hostVector brings an uploaded vector back.
func hostVector(ctx context.Context, dev nn.Device, a nn.Array) (*tensor.Tensor, error) {
	s := dev.Begin(ctx)
	t := s.ToHost(a)
	if err := s.Close(); err != nil {
		return nil, err
	}
	return t, nil
}

// projectedAccount counts V·(m + 1) values, and m for the bias.
func projectedAccount(b *built, src *sourceBlock, o Options, report *BlockReport) error {
	removed, err := o.Inventory.Of(src.spec.Removes)
	if err != nil {
		return err
	}
	if !src.removesEmbedding() {
		if src.stays, err = o.Inventory.Of([]string{src.spec.Embedding}); err != nil {
			return err
		}
	}
	var stored Amount
	for _, t := range b.tensors {
		n := int64(len(t.Bytes()))
		stored = stored.Plus(Amount{int64(t.Len()), n, n})
	}
	text, err := b.recipe.Encode()
	if err != nil {
		return err
	}
	a := account(src.stays.Plus(removed), src.stays.Plus(stored), src.stays.Plus(stored), int64(len(text)))
	report.Account = &a
	report.UniqueTables = 1
	report.Tables = []TableReport{{
		Name: projectionTable, DType: tensor.F32, Rows: src.elements, Width: b.recipe.Tables[0].Width,
		Coding: "projection and norms", FullBytes: 2 * int64(len(b.tensors[tableTensor(projectionTable)].Bytes())),
		StoredBytes: stored.ResidentBytes, Routes: []int{0},
	}}
	report.Routes = []RouteReport{{
		Rows: "1 and more", EvaluatedRows: bulkChunk(src.elements, o), Tables: []string{projectionTable},
		NewValues: stored.Values, FullBytes: report.Tables[0].FullBytes, StoredBytes: stored.ResidentBytes,
	}}
	return nil
}

// projects reports whether block is compiled as a projected lookup.
func (o Options) projects(block nn.TokenBlock) (*projectedSource, bool) {
	if !o.Projected {
		return nil, false
	}
	return asProjected(block)
}

// planRefuses reports whether a plan settles that block stays as it is.
func (o Options) planRefuses(p Plan, block nn.TokenBlock) bool {
	if p.Refusal == "" {
		return false
	}
	_, projected := o.projects(block)
	return !((o.IgnorePlan || projected) && p.sizeOnly)
}
