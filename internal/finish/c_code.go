package finish

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// entries names the only ways from C into Go.
var entries = strings.Join(Functions, ", ")

// checkCCode: no instruction of C leads into Go other than through the variables of the
// entry points, and all can be read. It does not follow calls through pointers:
// checkPointersToGo looks at the pointers.
func (l *library) checkCCode(functions []*function) error {
	var problems []error
	for _, f := range functions {
		note := func(i instruction, problem string) {
			problems = append(problems, fmt.Errorf("the C function %s has the instruction %q at %s, which %s",
				f.Name, i.text, l.describe(i.address), problem))
		}
		for _, i := range f.code {
			if i.problem == cannotBeRead {
				note(i, i.problem+": compile C without -march, -mavx and their like")
			}
			for _, address := range append(i.references, i.target) {
				if l.isGo(address) {
					note(i, "leads to "+l.describe(address)+": C enters Go through "+entries+" alone")
				}
			}
		}
	}
	return errors.Join(problems...)
}

// nameOfC matches the name of a C variable or function, with the suffixes that gcc adds.
// C cannot use Go's names.
var nameOfC = regexp.MustCompile(`^\w+(\.(\d+|lto_priv|part|constprop|isra))*$`)

// checkCgo: cgo exports no function of Go.
func (l *library) checkCgo() error {
	for _, symbol := range l.symbols {
		if name, found := strings.CutPrefix(symbol.Name, "_cgoexp_"); found {
			return fmt.Errorf("cgo exports a function of Go, %s: a call from C would wait for the Go runtime for ever; "+
				"remove //export, and see docs/go-runtime.md for the way into Go", name)
		}
	}
	return nil
}

// checkPointersToGo: in the memory of C, only the entry points hold addresses of Go code.
func (l *library) checkPointersToGo() error {
	imported, err := l.DynamicSymbols()
	if err != nil {
		return err
	}
	var known []uint64 // the places of the entry points
	for _, name := range Functions {
		variable, err := l.variable(name)
		if err != nil {
			return err
		}
		known = append(known, variable.Value)
	}
	var problems []error
	for _, r := range l.relocations {
		target := r.addend
		if 0 < r.symbol && int(r.symbol) <= len(imported) {
			target += imported[r.symbol-1].Value
		}
		if r.kind == noRelocation || !l.isGo(target) || slices.Contains(known, r.offset) {
			continue
		}
		function, _ := l.symbolAt(target)
		holder, found := l.symbolAt(r.offset)
		if nameOfC.MatchString(function.Name) && (!found || nameOfC.MatchString(holder.Name)) {
			problems = append(problems, fmt.Errorf("%s holds the address of %s: C enters Go through %s alone",
				l.describe(r.offset), l.describe(target), entries))
		}
	}
	return errors.Join(problems...)
}
