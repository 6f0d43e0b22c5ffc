// Package command answers the commands of the module. It parses the words of a [Call], decides by
// the stored values and the time (package funnel/internal/call), and fills in the reply and the
// writes, or an error.
//
// Each kind of row has a file with the same verbs: parse its words, read its state, write its
// state, reply, and fail. kind.go calls them by the kind of a row. The kind's own package decides:
// gcra, slots or quota.
//
// C calls the package like a C function, on the server's own stack, in a file without the Go
// runtime. docs/go-runtime.md explains how, and what the build refuses. So there are no
// package-level variables, nothing panics or allocates, no two strings are compared, and every
// function is marked go:nosplit.
package command
