// Package finish converts the shared library that the Go linker writes into the
// funnel.so that servers load, and verifies it.
//
// # The idea
//
// A Go shared library starts the Go runtime when it is loaded, and C enters Go through
// the runtime. The Go code that decides a command needs no runtime: it runs like a C
// function. So the finished file has the runtime disabled, by changes to fields of fixed
// size:
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
// Then the package reads the result again, verifies it, and proves parts of it. It
// verifies that loading runs no Go code, that every C library it may run with has its
// imports, and that the Go compiler left out no check. It proves two parts of the machine
// code:
//
//   - Go code that the entry points reach: it calls nothing of the runtime, reads nothing
//     that the runtime sets up, and has only instructions that every processor has;
//   - C code, all of it: it refers to no Go function except the entry points, and has only
//     instructions that every processor has.
//
// It does not prove that pointers are valid: a nil pointer in Go, or a division by zero in
// assembler, raises a signal, as in C. It also does not follow C where C computes a
// pointer to a function. docs/go-runtime.md explains why the rest is enough.
package finish

import (
	"debug/elf"
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

// project is the prefix of this project's Go packages: that of this one, whatever the path of
// the module is.
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

// Check verifies and proves a finished library.
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

func (l *library) check(path string, options Options) error {
	if err := l.verify(options); err != nil {
		return err
	}
	starts := make([]elf.Symbol, len(Functions))
	for i, name := range Functions {
		var err error
		if starts[i], err = l.goFunction(name); err != nil {
			return err
		}
	}
	ours, c, err := l.code(path, starts)
	if err != nil {
		return err
	}
	if faults := l.judgeC(c); len(faults) > 0 {
		return fmt.Errorf("this C code is not safe in a server:\n%s", strings.Join(faults, "\n"))
	}
	if faults := l.prove(ours, starts); len(faults) > 0 {
		return fmt.Errorf("this Go code is not safe without the Go runtime:\n%s", strings.Join(faults, "\n"))
	}
	return nil
}
