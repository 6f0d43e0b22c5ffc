// Package throttle is the command CL.THROTTLE as Go sees it: a [Call] with the
// arguments comes in, then the same with the stored value and the time, and is
// answered with a decision of package gcra or with an error in words.
//
// C calls it as it calls a function of C, on the server's own stack, in a process
// where the Go runtime never starts. docs/go-runtime.md tells how, and what that asks
// of the code here. In short: every function is marked go:nosplit, nothing panics or
// allocates, no package-level variable has a computed value, and no two strings are
// compared. Whoever forgets is told by the build.
package throttle
