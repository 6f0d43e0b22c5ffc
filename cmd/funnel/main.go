// Command funnel is the module funnel.so: built with -buildmode=c-shared it holds
// the entry points that a Redis or Valkey server looks for, which package module
// exports. Build it with ./build.sh build: what the Go linker writes is not a module
// yet (docs/go-runtime.md).
package main

import (
	_ "funnel/module"
	"funnel/module/command"
)

// main is never called in a shared library. It keeps the linker from removing what C calls.
func main() { command.Functions() }
