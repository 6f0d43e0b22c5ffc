// Package throttle implements the decision of the command CL.THROTTLE: it parses the
// arguments of a [Call], and then, with the stored value and the time, writes the reply
// of a decision of package gcra, or an error.
//
// C calls it as it calls a function of C, on the server's own stack, in a process
// where the Go runtime never starts. docs/go-runtime.md explains how, and what that requires
// of this code. In short: every function is marked go:nosplit, nothing panics or
// allocates, no package-level variable has a computed value, and no two strings are
// compared. The build checks that.
package throttle
