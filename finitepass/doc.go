// Package finitepass replaces declared finite computations by tables of their
// results.
//
// A finite token fanout is an embedding, a shared prefix of row-local layers
// and named branches, with the embedding row itself as an optional live
// residual. Its whole input domain is the vocabulary. The pass evaluates every
// token once on the device that will run the model, stores the rows, and drops
// the tensors that only the block read:
//
//	outputs[name][id] = branch(prefix(embedding[id]))
//
// Nothing is guessed from names and nothing is fitted. A block is rewritten only
// when the caller gives the contract [architectures.TokenIndicesOnly], when
// logical and unique resident bytes both fall with everything counted, when the
// table agrees with the source on the full domain in every layout that
// [Comparison] lists, and when the whole model passes its gate afterwards.
//
// The same formula can round differently in calls with different row counts.
// A [Profile] is a further table for a range of row counts; [FindProfiles]
// measures where the bits change. Tables of different routes that differ by
// rounding are stored as one base and exact XOR differences.
//
// The domain may also be declared timesteps, pairs, a constant or some token ids
// (see Domain in architectures/nn): one compiler, one store of tables and one
// comparison serve them all. [Options.Projected] stores one table for raw and
// L2-normalised projections.
//
// Storage passes need no contract, since they keep every bit: [ShareTensors] for
// equal tensors, [StoreEqualRows] for equal rows of a table, [PackRows] for a wide
// embedding that stays compressed in memory. [ConstantRows] evaluates known rows
// at the shape that they have inside a larger operation.
//
// docs/passes.md says what is proven and what is not.
package finitepass
