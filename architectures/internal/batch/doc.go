// Package batch checks what a text model's call is given, and names what it
// returns.
package batch
