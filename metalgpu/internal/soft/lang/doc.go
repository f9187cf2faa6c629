// Package lang reads the common language of GPU kernels, which package kernel
// describes, and checks it: names, types, and that nothing is used whose result
// the graphics APIs leave open, such as the division of floats.
package lang
