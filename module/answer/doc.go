// Package answer answers the commands of the module. It parses the words of a [Call], lets
// package gcra decide by the stored values and the time, and fills in the reply and the
// writes, or an error.
//
// C calls it like a C function, on the server's own stack, in a process where the Go
// runtime never starts. docs/go-runtime.md explains how, and the rules for this code. In
// short: every function is marked go:nosplit, nothing panics or allocates, no
// package-level variable has a computed value, and no two strings are compared. The build
// checks that.
package answer
