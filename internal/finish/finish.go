// Package finish converts the shared library that the Go linker writes into funnel.so, which
// servers load, and checks the result.
//
// # The changes
//
// A Go shared library starts the Go runtime when it is loaded, and C enters Go through
// the runtime. The Go code that decides a command needs no runtime: it runs like a C
// function. So the finished file has the runtime disabled, by changes to fields of fixed
// size (change.go):
//
//   - in .init_array, a function that does nothing replaces the one that starts the
//     runtime;
//   - the variables through which C calls Go point to the Go functions, which C cannot
//     name;
//   - thread-local storage is removed: it is unused, and musl does not load a library
//     that has it;
//   - the flag NODELETE, which keeps the library in the process, is removed.
//
// Each field is found by its symbol and its type of relocation. If anything is not exactly
// as expected, that is an error, and no file is written.
//
// # The checks
//
// Go promises nothing about code that runs without its runtime. A careless line of ours, an
// option, or a new release of a compiler or a linker may break it. So the package reads the
// finished file again, and checks:
//
//   - what a loader reads (loading.go, imports.go): loading runs no Go code, C has its way
//     into Go, and every kernel and C library takes the file;
//   - what the Go compiler was told (build.go): no flag took away a check, and no package
//     has an initializer, which would never run;
//   - Go code (go_code.go): what the entry points reach calls nothing of the runtime, and
//     reads nothing that the runtime sets up;
//   - C code (c_code.go): it refers to no Go function except the entry points.
//
// For the last two, a disassembler lists the instructions (disassembly.go), and amd64.go
// and arm64.go say where each leads and which memory it refers to.
//
// An error lists all problems, and no file is written. The checks find mistakes, and are no
// proof: docs/go-runtime.md names their gaps.
package finish

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Functions are the entry points from C into Go. Each is the name of a C variable, and of
// the Go function, written in assembler, that the variable will point to.
var Functions = []string{"go_parse", "go_decide"}

// Names of C functions.
const (
	notFinished  = "not_finished"  // the initial value of the variables
	startNothing = "start_nothing" // does nothing, when the library is loaded
)

// project is the prefix of this project's Go packages, found in the path of this package.
var project = strings.TrimSuffix(reflect.TypeFor[Options]().PkgPath(), "internal/finish")

// Options change what a file may contain.
type Options struct {
	// Imports are prefixes of further names that the file may import, such as those of
	// AddressSanitizer, in a file that is not released.
	Imports []string
}

// File reads the library that the Go linker wrote, and writes the finished one, executable.
// On an error it writes nothing: output changes whole or not at all.
func File(input, output string, options Options) error {
	library, err := open(input)
	if err != nil {
		return err
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

// Check checks a finished library. The error lists every problem.
func Check(path string, options Options) error {
	library, err := open(path)
	if err != nil {
		return err
	}
	if err := library.check(path, options); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func open(path string) (*library, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	library, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return library, nil
}

func (l *library) check(path string, options Options) error {
	goCode, cCode, err := l.disassemble(path)
	if err != nil {
		return err
	}
	return errors.Join(
		// What a loader reads.
		l.checkStart(),
		l.checkFunctions(),
		l.checkExports(),
		l.checkRelocations(),
		l.checkThreadLocal(),
		l.checkFlags(),
		l.checkSegments(),
		l.checkImports(options),
		// What the Go compiler was told.
		l.checkSettings(),
		l.checkCompiler(),
		l.checkInitializers(),
		// Go code.
		l.checkGoCode(goCode),
		// C code.
		l.checkCCode(cCode),
		l.checkPointersToGo(),
		l.checkCgo(),
	)
}
