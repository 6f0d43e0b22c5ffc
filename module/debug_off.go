//go:build !funneldebug

package module

// debugging is false in the module that people load, so that the compiler drops
// what depends on it.
const debugging = false

func debugPanic() {}
