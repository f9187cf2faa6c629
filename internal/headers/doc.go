// Package headers makes checkpoints of which only the headers are real: the
// names, types and shapes of a published model in a few lines of text, and files
// of the right length without any values. Code that reads headers alone cannot
// tell them from the model, whatever its size.
package headers
