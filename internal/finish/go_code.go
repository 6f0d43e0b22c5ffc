package finish

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// A walk goes through the Go code that C can reach, and collects problems.
type walk struct {
	*library
	code     map[uint64]*function
	callers  map[uint64]*function // the first caller of each function that was reached
	waiting  []*function          // reached, and not yet checked
	followed map[uint64]bool      // variables whose pointers were checked
	problems []string             // of the function that is being checked
}

// checkGoCode follows every call and every jump from the entry points. These are problems:
//
//   - a call or a jump that leads out of this project, into the middle of a function or
//     into the kernel, or whose target is not known;
//   - an address of memory that is neither read-only nor a variable of this project.
//
// Everything that needs the Go runtime is one of these: a panic, an allocation, a larger
// stack, a write barrier, the comparison of two strings.
//
// The error names, for each function with problems, the chain of calls that leads there.
func (l *library) checkGoCode(code map[uint64]*function) error {
	w := &walk{library: l, code: code, callers: map[uint64]*function{}, followed: map[uint64]bool{}}
	for _, name := range Functions {
		symbol, err := l.goFunction(name)
		if err != nil || code[symbol.Value] == nil {
			return fmt.Errorf("there is no code of %s", name)
		}
		w.reach(code[symbol.Value], nil)
	}
	var problems []string
	for len(w.waiting) > 0 {
		current := w.waiting[0]
		w.waiting, w.problems = w.waiting[1:], nil
		w.checkFunction(current)
		if len(w.problems) > 0 {
			problems = append(problems, "\n"+w.chain(current)+"\n  which "+strings.Join(w.problems, "\n  which "))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("this Go code is not safe without the Go runtime:%s", strings.Join(problems, ""))
	}
	return nil
}

func (w *walk) reach(f, caller *function) {
	if _, reached := w.callers[f.Value]; !reached {
		w.callers[f.Value] = caller
		w.waiting = append(w.waiting, f)
	}
}

// chain names the calls that lead to a function.
func (w *walk) chain(f *function) string {
	chain := f.Name
	for caller := w.callers[f.Value]; caller != nil; caller = w.callers[caller.Value] {
		chain = caller.Name + "\n  calls " + chain
	}
	return chain
}

// note adds a problem, worded to follow "which".
func (w *walk) note(format string, arguments ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, arguments...))
}

func (w *walk) checkFunction(f *function) {
	var last instruction
	for _, i := range f.code {
		last = i
		if i.problem != "" {
			w.note("has the instruction %q at %s, which %s", i.text, w.describe(i.address), i.problem)
		}
		w.checkFlow(f, i)
		for _, address := range i.references {
			w.checkReference(i, address)
		}
	}
	// A call that never returns may be the last instruction; but such a call is a problem.
	if last.kind != back && last.kind != jump && len(w.problems) == 0 {
		w.note("does not end with a return or a jump, but with %q", last.text)
	}
}

// checkFlow checks where an instruction leads.
func (w *walk) checkFlow(f *function, i instruction) {
	switch i.kind {
	case indirect:
		w.note("has the instruction %q at %s, which may lead anywhere", i.text, w.describe(i.address))
	case trap:
		w.note("has the instruction %q at %s, which leads into the kernel or to a signal handler",
			i.text, w.describe(i.address))
	case branch, jump:
		inside := f.Value <= i.target && i.target < f.Value+f.Size
		next := w.code[i.target]
		switch {
		case inside && !startsInstruction(f, i.target):
			w.note("jumps between two instructions, to %s", w.describe(i.target))
		case !inside && next == nil:
			w.note("calls %s", w.describe(i.target))
		case !inside:
			w.reach(next, f)
		}
	}
}

func startsInstruction(f *function, address uint64) bool {
	return slices.ContainsFunc(f.code, func(i instruction) bool { return i.address == address })
}

// checkReference checks an address that code computes, or that a variable holds.
func (w *walk) checkReference(i instruction, address uint64) {
	section := w.section(address)
	switch {
	case section == nil:
		w.note("refers to %#x, where there is nothing, in %q", address, i.text)
	case section.Flags&elf.SHF_EXECINSTR != 0:
		w.note("takes the address of code, %s, in %q", w.describe(address), i.text)
	case section.Flags&elf.SHF_WRITE == 0, section.Name == ".data.rel.ro":
		// Read-only; the second is from the moment at which it is loaded.
		w.checkPointers(i, address)
	case w.isRemovedTLS(address):
		// Only the code between assembler and Go reads it (removeTLS).
	default:
		symbol, found := w.symbolAt(address)
		if !found || !strings.HasPrefix(symbol.Name, project) {
			w.note("uses the variable %s, which is not this project's", w.describe(address))
			return
		}
		w.checkPointers(i, address)
	}
}

// checkPointers checks what a variable of this project points to like addresses in code.
// It ignores pointers to code: only an indirect call follows them.
func (w *walk) checkPointers(i instruction, address uint64) {
	variable, found := w.symbolAt(address)
	if !found || !strings.HasPrefix(variable.Name, project) || w.followed[variable.Value] {
		return
	}
	w.followed[variable.Value] = true
	for _, r := range w.relocations {
		if r.offset < variable.Value || r.offset-variable.Value >= variable.Size {
			continue
		}
		if section := w.section(r.addend); section == nil || section.Flags&elf.SHF_EXECINSTR == 0 {
			w.checkReference(i, r.addend)
		}
	}
}

// isRemovedTLS reports whether an address holds the place of the thread-local storage that
// was removed.
func (w *walk) isRemovedTLS(address uint64) bool {
	return slices.ContainsFunc(w.relocations, func(r relocation) bool {
		return r.kind == noRelocation && r.offset == address
	})
}
