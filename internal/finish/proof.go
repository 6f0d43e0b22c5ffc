package finish

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// A proof follows the code from the functions that C calls, and collects faults.
type proof struct {
	*library
	code    map[uint64]*function
	callers map[uint64]*function // of each function that was reached, the first
	faults  []string             // for each function: the chain of calls that leads there, and what is wrong
	faulty  uint64               // the function of the last fault
	judged  map[uint64]bool      // variables whose pointers were followed
}

// prove follows every call and every jump from the starts. These are faults:
//
//   - a call or a jump that leads out of this project, into the middle of a function or
//     into the kernel, or whose target is not known;
//   - an address of memory that is neither read-only nor a variable of this project;
//   - an instruction that not every processor has, that only a kernel may execute, or
//     that changes state which C relies on;
//   - a return with the stack pointer elsewhere than at the call;
//   - an initializer of any package of this project, because those never run.
//
// Everything that needs the Go runtime is one of these: a panic, an allocation, a larger
// stack, a write barrier, the comparison of two strings.
func (l *library) prove(code map[uint64]*function, starts []elf.Symbol) []string {
	p := &proof{library: l, code: code, callers: map[uint64]*function{}, judged: map[uint64]bool{}}
	var waiting []*function
	for _, start := range starts {
		p.callers[start.Value] = nil
		waiting = append(waiting, code[start.Value])
	}
	for len(waiting) > 0 {
		current := waiting[0]
		waiting = waiting[1:]
		for _, i := range current.code {
			if i.doubt != "" {
				p.fault(current, "has the instruction %q at %s, which %s", i.text, p.describe(i.address), i.doubt)
			}
			if next := p.follow(current, i); next != nil {
				p.callers[next.Value] = current
				waiting = append(waiting, next)
			}
			for _, address := range i.references {
				p.judgeReference(current, i, address)
			}
		}
		p.judgeStack(current)
		// Nothing has to follow a call that never returns; but such a call is a fault.
		if last := current.code[len(current.code)-1]; last.kind != back && !last.ends && p.faulty != current.Value {
			p.fault(current, "does not end with a return or a jump, but with %q", last.text)
		}
	}
	p.judgeInitializers()
	return p.faults
}

// follow judges where an instruction leads, and returns the function there if it was not
// reached before.
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

// judgeStack follows each path through a function, and compares how much is on the stack
// where two paths meet, and where a path ends.
func (p *proof) judgeStack(f *function) {
	if p.faulty == f.Value {
		return // it may not be what was read
	}
	depth := map[uint64]int64{f.Value: 0}
	for ways := []uint64{f.Value}; len(ways) > 0; {
		at := ways[len(ways)-1]
		ways = ways[:len(ways)-1]
		n := slices.IndexFunc(f.code, func(i instruction) bool { return i.address == at })
		if n < 0 {
			return // beyond its end: prove says so
		}
		i := f.code[n]
		behind := depth[at] + i.stack
		var next []uint64
		inside := i.kind == branch && f.Value < i.target && i.target < f.Value+f.Size
		if inside {
			next = append(next, i.target)
		}
		if i.kind != back && !i.ends {
			next = append(next, at+i.length)
		}
		if (i.kind == back || i.ends && !inside) && behind != 0 || behind < 0 {
			p.fault(f, "has %d bytes on the stack at %s, in %q", behind, p.describe(at), i.text)
			return
		}
		for _, to := range next {
			if known, met := depth[to]; !met {
				depth[to] = behind
				ways = append(ways, to)
			} else if known != behind {
				p.fault(f, "has %d or %d bytes on the stack at %s", known, behind, p.describe(to))
				return
			}
		}
	}
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
		// Read-only; the second is from the moment at which it is loaded.
		p.judgePointers(current, i, address)
	case p.isDisabledTLS(address):
		// Only the code between assembler and Go reads it (removeTLS).
	default:
		symbol, found := p.symbolAt(address)
		if !found || !strings.HasPrefix(symbol.Name, project) {
			p.fault(current, "uses the variable %s, which is not this project's", p.describe(address))
			return
		}
		p.judgePointers(current, i, address)
	}
}

// judgePointers judges the targets of a variable of this project like addresses in code.
// It ignores pointers to code: only an indirect call follows them.
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

// isDisabledTLS reports whether an address is the offset of thread-local storage, which
// was removed.
func (p *proof) isDisabledTLS(address uint64) bool {
	return slices.ContainsFunc(p.relocations, func(r relocation) bool { return r.kind == noRelocation && r.offset == address })
}

// judgeInitializers: nothing runs the code that a package would run before main, even if it
// is meant for a variable of another package.
func (p *proof) judgeInitializers() {
	for _, symbol := range p.symbols {
		pack := packageOf(symbol.Name)
		if strings.HasPrefix(symbol.Name, "main.") {
			pack = "main"
		} else if !strings.HasPrefix(pack, project) {
			continue
		}
		rest := strings.TrimPrefix(symbol.Name, pack+".")
		if rest == "init" || rest == ".inittask" || strings.HasPrefix(rest, "init.") || strings.HasPrefix(rest, "map.init.") {
			p.faults = append(p.faults, fmt.Sprintf("package %s has an initializer, %s, which never runs", pack, symbol.Name))
		}
	}
}

// packageOf returns the path of a symbol's package; empty for a symbol of assembler, which
// has none.
func packageOf(name string) string {
	// Type arguments and receivers may name other packages.
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
