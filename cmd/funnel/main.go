// Command funnel is the module funnel.so: built with -buildmode=c-shared it holds the entry points
// that a Redis or Valkey server looks for, which package module exports. ./build.sh build links it
// without the Go runtime (docs/go-runtime.md).
package main

import (
	_ "funnel/module"
	"funnel/module/command"
)

// main is never called. It names the functions that C calls, or Go's linker would leave them out.
func main() {
	command.Parse(nil)
	command.Decide(nil)
}
