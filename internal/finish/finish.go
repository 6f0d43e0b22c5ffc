// Package finish converts the shared library that the Go linker writes into the
// funnel.so that servers load, and verifies it.
//
// # The idea
//
// A shared library of Go starts the Go runtime when it is loaded, and C enters Go
// through it. The Go code that decides a command needs no runtime: it runs like a
// function of C. So the runtime is disabled in the finished file, by changing fields
// of fixed size:
//
//   - in .init_array, a function that does nothing replaces the one that starts the
//     runtime;
//   - the variables through which C calls Go point to the Go functions, which C cannot
//     name;
//   - thread-local storage is removed: it is unused, and musl does not load a library
//     that has it;
//   - the flag NODELETE, which keeps the library in the process, is removed.
//
// Each is found by its symbol and its type of relocation; what is not exactly as
// expected is an error, and no file is written.
//
// Then the result is read again, verified and proved. Verified: loading runs no Go code,
// and every C library that it has to run with has what it imports. Proved: the machine
// code that C can reach calls nothing of the runtime, and reads nothing that the
// runtime sets up. docs/go-runtime.md explains why that is enough.
package finish

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Functions are the entry points from C into Go: each is the name of a variable of C and of
// the Go function, written in assembler, that it is to point to.
var Functions = []string{"go_parse", "go_decide", "go_parse_funnels", "go_decide_funnels"}

// Names of functions of C.
const (
	notFinished  = "not_finished"  // the initial value of the variables
	startNothing = "start_nothing" // does nothing, when the library is loaded
)

// project begins the names of this project's Go packages.
const project = "funnel/"

// Options change what a file may hold.
type Options struct {
	// Imports are the beginnings of further names that the file may import, such as
	// those of AddressSanitizer, for a file that does not ship.
	Imports []string
}

// File reads the library that the Go linker wrote, and writes the finished one,
// executable, or an error and nothing. Output changes whole or not at all.
func File(input, output string, options Options) error {
	content, err := os.ReadFile(input)
	if err != nil {
		return err
	}
	library, err := parse(content)
	if err != nil {
		return fmt.Errorf("%s: %w", input, err)
	}
	if err := library.change(); err != nil {
		return fmt.Errorf("%s: %w", input, err)
	}

	draft, err := os.MkdirTemp(filepath.Dir(output), ".finish-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft)
	path := filepath.Join(draft, filepath.Base(output))
	// Servers do not load a module without the execute bit.
	if err := os.WriteFile(path, library.content, 0o755); err != nil {
		return err
	}
	if err := Check(path, options); err != nil {
		return err
	}
	return os.Rename(path, output)
}

// Check verifies and proves a finished library.
func Check(path string, options Options) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	library, err := parse(content)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := library.verify(options); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	starts := make([]elf.Symbol, len(Functions))
	for i, name := range Functions {
		if starts[i], err = library.goFunction(name); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	code, err := library.code(path, starts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if faults := library.prove(code, starts); len(faults) > 0 {
		return fmt.Errorf("%s: what C calls needs the Go runtime:\n%s", path, strings.Join(faults, "\n"))
	}
	return nil
}
