// Package metal drives the GPUs of a Mac through Apple's Metal, without cgo: the
// Objective-C runtime is called by purego, and kernels are compiled from Metal's
// language when they are first asked for.
//
// Metal contracts a product and a sum into one rounding under every compile
// option unless the source forbids it, so the source's pragmas and the options
// both ask for strict arithmetic.
//
// All that speaks to the system is behind the [messenger]; the rest is ordinary
// Go, tested everywhere with a messenger that counts references and records the
// order of messages.
package metal
