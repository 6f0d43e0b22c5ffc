// Package answer answers the commands of the module. It parses the words of a [Call], lets
// package gcra decide by the stored values and the time, and fills in the reply and the
// writes, or an error.
//
// C calls it like a C function, on the server's own stack, in a file without the Go runtime.
// docs/go-runtime.md explains how, and what the build refuses: there are no package-level
// variables, nothing panics or allocates, no two strings are compared, and every function is
// marked go:nosplit.
package answer
