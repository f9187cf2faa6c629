// Package planner says what the exact passes would save on a checkpoint, before
// any of its weights are read: from config.json and the headers of the
// safetensors files alone.
//
// [Make] recognises a family by its configuration or its tensor names. A family
// is a short declaration: which tensors a finite block reads, which of them
// show the width of its outputs, how many elements its domain has, and what the
// caller must promise. All counts come from the shapes in the headers, so one
// declaration serves every size of a model and every element type.
//
// For families that package architectures has registered, the blocks are those
// of the blueprint and the arithmetic is that of finitepass.PlanBlock: planner
// and compiler cannot disagree there.
//
// A plan is arithmetic and not proof. Whether two tensors are equal is in their
// bytes, and where a pass rests on it the verdict is [Possible]. Whether a table
// reproduces a model is for package finitepass to measure.
package planner
