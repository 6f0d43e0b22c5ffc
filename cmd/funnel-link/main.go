// Command funnel-link is the external linker of funnel.so, which leaves the Go runtime out. It
// stands in for the C compiler at the end of
//
//	go build -buildmode=c-shared -ldflags=-extld=funnel-link ./cmd/funnel
//
// A linker takes only the code that is needed. But Go's linker hands over all Go code in a single
// object, go.o, in which functions call each other without relocations. So funnel-link reads go.o
// (object.go). It decodes instructions (instructions.go) to follow calls and references from the
// functions that C calls (walk.go). It writes the symbols of this project that it reaches for the
// assembler, each in a section of its own (assembler.go). Symbols of other packages, such as the
// runtime, stay undefined. Then it calls the C compiler, CC, with the arguments of Go's linker and
// the new object instead of go.o.
//
// Code that needs the runtime is an undefined reference, and the linker names the function. A
// linker does not see initializers, variables and calls through pointers: funnel-link refuses these
// itself. If FUNNEL_GO names another release of Go than the one in use, funnel-link prints a
// warning.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

func main() {
	named := os.Getenv("FUNNEL_GO")
	if named != "" && named != runtime.Version() {
		fmt.Fprintf(os.Stderr, "funnel-link: warning: this is %s, and funnel is released with %s\n", runtime.Version(), named)
	}
	err := link(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "funnel-link:", err)
		os.Exit(1)
	}
}

// link does what Go's linker asks for: it links a library, or lets Go's linker probe the C
// compiler.
func link(args []string) error {
	isProbe := slices.ContainsFunc(args, func(arg string) bool {
		return filepath.Base(arg) == "trivial.c" || strings.HasSuffix(arg, "--version") || strings.HasPrefix(arg, "--print-")
	})
	if isProbe {
		return compile(args...)
	}
	at := slices.IndexFunc(args, func(arg string) bool { return filepath.Base(arg) == "go.o" })
	if at < 0 {
		return fmt.Errorf("there is no go.o among %q: funnel-link links what go build -buildmode=c-shared makes", args)
	}
	code, err := extract(args[at], slices.Concat(args[:at], args[at+1:]))
	if err != nil {
		return err
	}
	source, exports := args[at]+"-used.s", args[at]+"-exports"
	exported := []byte("{ global: RedisModule_OnLoad; RedisModule_OnUnload; local: *; };\n")
	err = errors.Join(os.WriteFile(source, code, 0o644), os.WriteFile(exports, exported, 0o644))
	if err != nil {
		return err
	}
	// Go's linker adds these for its runtime: nodelete keeps a library with threads in the process,
	// -rdynamic exports all functions of C, and runtime/cgo needs pthread.
	forRuntime := []string{"-Wl,-z,nodelete", "-rdynamic", "-lpthread"}
	args[at] = source + ".o"
	err = compile("-c", source, "-o", args[at])
	if err != nil {
		return err
	}
	args = slices.DeleteFunc(args, func(arg string) bool { return slices.Contains(forRuntime, arg) })
	// These follow CGO_LDFLAGS, because the last one counts.
	return compile(append(args, "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,noexecstack",
		"-Wl,--version-script="+exports)...)
}

// compile calls the C compiler. A shell splits CC, which may hold options and quotes.
func compile(args ...string) error {
	compiler := cmp.Or(os.Getenv("CC"), "cc")
	command := exec.Command("sh", append([]string{"-c", "exec " + compiler + ` "$@"`, "cc"}, args...)...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	err := command.Run()
	if err != nil {
		return fmt.Errorf("the C compiler, %s, failed: %w", compiler, err)
	}
	return nil
}
