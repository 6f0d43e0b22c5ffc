// Command funnel is the module funnel.so: built with -buildmode=c-shared it holds
// the entry points that a Redis or Valkey server looks for, which package module
// exports. Build it with ./build.sh build.
package main

import _ "funnel/module"

// main is never called in a shared library; the toolchain asks for it.
func main() {}
