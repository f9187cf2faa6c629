// Package speed measures a GPU device: what its memory and its arithmetic can do
// at most, and what products of matrices through the device reach of that.
package speed
