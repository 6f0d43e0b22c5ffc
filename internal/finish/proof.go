package finish

import (
	"debug/elf"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A proof follows the code from the functions that C calls, and collects what is
// wrong.
type proof struct {
	*library
	code    map[uint64]*function
	callers map[uint64]*function // of each function that was reached, the first
	packs   map[string]bool      // packages that were reached, by a call or a variable
	faults  []string             // of a function: the chain of calls that leads there, and what is wrong
	faulty  uint64               // the function of the last fault
	judged  map[uint64]bool      // variables whose pointers were followed
}

// prove follows every call and every jump from the starts. What it finds wrong:
//
//   - a call or a jump that leads out of this project, or into the middle of a
//     function, or cannot be foreseen, or into the kernel;
//   - an address of what is neither read-only nor a variable of this project;
//   - a package with an initializer, since those never run.
//
// Whatever asks the Go runtime for something is one of these: a panic, an
// allocation, a larger stack, a write barrier, the comparison of two strings.
func (l *library) prove(code map[uint64]*function, starts []elf.Symbol) []string {
	p := &proof{library: l, code: code, callers: map[uint64]*function{}, packs: map[string]bool{}, judged: map[uint64]bool{}}
	var waiting []*function
	for _, start := range starts {
		p.callers[start.Value] = nil
		waiting = append(waiting, code[start.Value])
	}
	for len(waiting) > 0 {
		current := waiting[0]
		waiting = waiting[1:]
		p.packs[packageOf(current.Name)] = true
		for _, i := range current.code {
			if next := p.follow(current, i); next != nil {
				p.callers[next.Value] = current
				waiting = append(waiting, next)
			}
			for _, address := range i.references {
				p.judgeReference(current, i, address)
			}
		}
		// Behind a call that never returns, nothing has to come; but such a call is a fault.
		if last := current.code[len(current.code)-1]; last.kind != back && !last.ends && p.faulty != current.Value {
			p.fault(current, "does not end with a return or a jump, but with %q", last.text)
		}
	}
	for _, pack := range slices.Sorted(maps.Keys(p.packs)) {
		p.judgeInitializers(pack)
	}
	return p.faults
}

// follow judges where an instruction leads, and returns the function if it is one that
// was not reached before.
func (p *proof) follow(current *function, i instruction) *function {
	switch i.kind {
	case indirect:
		p.fault(current, "has the instruction %q at %s, which may lead anywhere", i.text, p.describe(i.address))
	case trap:
		p.fault(current, "has the instruction %q at %s, which leads into the kernel or to a signal handler", i.text, p.describe(i.address))
	case branch:
		if current.Value <= i.target && i.target < current.Value+current.Size {
			if !startsInstruction(current, i.target) {
				p.fault(current, "jumps between two instructions, to %s", p.describe(i.target))
			}
			return nil
		}
		next, found := p.code[i.target]
		if !found {
			p.fault(current, "calls %s", p.describe(i.target))
			return nil
		}
		if _, reached := p.callers[i.target]; !reached {
			return next
		}
	}
	return nil
}

func startsInstruction(f *function, address uint64) bool {
	return slices.ContainsFunc(f.code, func(i instruction) bool { return i.address == address })
}

// judgeReference judges an address that code computes.
func (p *proof) judgeReference(current *function, i instruction, address uint64) {
	section := p.section(address)
	switch {
	case section == nil:
		p.fault(current, "refers to %#x, where there is nothing, in %q", address, i.text)
	case section.Flags&elf.SHF_EXECINSTR != 0:
		p.fault(current, "takes the address of code, %s, in %q", p.describe(address), i.text)
	case section.Flags&elf.SHF_WRITE == 0, section.Name == ".data.rel.ro":
		// Read-only, the second from the moment on at which it is loaded.
		p.judgePointers(current, i, address)
	case p.isDisabledTLS(address):
		// The one reader is the code between assembler and Go (removeTLS).
	default:
		symbol, found := p.symbolAt(address)
		if !found || !strings.HasPrefix(symbol.Name, project) {
			p.fault(current, "uses the variable %s, which is not this project's", p.describe(address))
			return
		}
		p.packs[packageOf(symbol.Name)] = true
		p.judgePointers(current, i, address)
	}
}

// judgePointers: what a variable of this project points to is judged like what code
// refers to. Pointers to code are not: only an indirect call follows them.
func (p *proof) judgePointers(current *function, i instruction, address uint64) {
	variable, found := p.symbolAt(address)
	if !found || !strings.HasPrefix(variable.Name, project) || p.judged[variable.Value] {
		return
	}
	p.judged[variable.Value] = true
	for _, r := range p.relocations {
		if r.offset < variable.Value || r.offset-variable.Value >= variable.Size {
			continue
		}
		if section := p.section(r.addend); section == nil || section.Flags&elf.SHF_EXECINSTR == 0 {
			p.judgeReference(current, i, r.addend)
		}
	}
}

// isDisabledTLS reports whether an address is that of the offset of thread-local storage,
// which was removed.
func (p *proof) isDisabledTLS(address uint64) bool {
	return slices.ContainsFunc(p.relocations, func(r relocation) bool { return r.kind == noRelocation && r.offset == address })
}

// judgeInitializers: what a package would compute before main never is.
func (p *proof) judgeInitializers(pack string) {
	for _, symbol := range p.symbols {
		rest, found := strings.CutPrefix(symbol.Name, pack+".")
		if !found {
			continue
		}
		if rest == "init" || rest == ".inittask" || strings.HasPrefix(rest, "init.") || strings.HasPrefix(rest, "map.init.") {
			p.faults = append(p.faults, fmt.Sprintf("package %s has an initializer, %s, which never runs", pack, symbol.Name))
		}
	}
}

// packageOf is the path of the package that a symbol belongs to; empty for one of
// assembler, which has none.
func packageOf(name string) string {
	// Arguments of types and receivers, in which there may be other packages.
	path, _, _ := strings.Cut(name, "[")
	path, _, _ = strings.Cut(path, "(")
	base := strings.LastIndex(path, "/") + 1
	pack, _, _ := strings.Cut(path[base:], ".")
	if base == 0 {
		return ""
	}
	return path[:base] + pack
}

// fault notes what is wrong with a function, the first time with the chain of calls
// that leads there.
func (p *proof) fault(f *function, format string, arguments ...any) {
	which := "\n  which " + fmt.Sprintf(format, arguments...)
	if p.faulty == f.Value {
		p.faults[len(p.faults)-1] += which
		return
	}
	chain := f.Name
	for caller := p.callers[f.Value]; caller != nil; caller = p.callers[caller.Value] {
		chain = caller.Name + "\n  calls " + chain
	}
	p.faults = append(p.faults, chain+which)
	p.faulty = f.Value
}
