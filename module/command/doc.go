// Package command answers the commands of the module. It parses the words of a [Call],
// decides by the stored values and the time (package funnel/internal/call), and fills in
// the reply and the writes, or an error.
//
// Each kind of row has a file with the same verbs: parse its words, read its state, write
// its state, reply, and fail. The fifth verb, decide, is the kind's own package's. kind.go
// calls them by the kind of a row.
//
// C calls the package like a C function, on the server's own stack, in a process where the
// Go runtime never starts. docs/go-runtime.md explains how, and the rules for this code. In
// short: every function is marked go:nosplit, nothing panics or allocates, no
// package-level variable has a computed value, and no two strings are compared. The build
// checks that.
package command
