package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const project = "funnel/" // how the names of this project's packages begin

// A piece is a part of go.o that is written for the assembler: a function, or data.
type piece struct {
	name       string
	section    *elf.Section
	start, end uint64 // within the section
}

func (p piece) isCode() bool { return p.section.Flags&elf.SHF_EXECINSTR != 0 }

// A walk follows calls and references from piece to piece, beginning with the functions that C
// calls.
type walk struct {
	*object
	machine  machine
	assembly assembly
	pieces   []piece
	problems []error
}

// extract returns the part of a go.o that C objects need, as text for the assembler. The error
// lists everything that code without a runtime must not do and that no linker sees.
func extract(path string, objects []string) ([]byte, error) {
	roots := rootsOf(objects)
	if len(roots) == 0 {
		return nil, fmt.Errorf("no object of C calls a function of %s: see module/enter_*.S", project)
	}
	o, err := openObject(path)
	if err != nil {
		return nil, err
	}
	w := &walk{object: o, machine: machines[o.Machine]}
	for _, root := range roots {
		at := slices.IndexFunc(o.symbols, func(s elf.Symbol) bool {
			return s.Name == root && elf.ST_TYPE(s.Info) == elf.STT_FUNC
		})
		if at < 0 || !strings.HasPrefix(root, project) {
			return nil, fmt.Errorf("go.o lacks %s, which C calls: main must name it, and it must be go:noinline", root)
		}
		w.assembly.add(".globl %s\n.hidden %[1]s", quoted(root))
		w.follow(o.symbols[at], 0)
	}
	for i := 0; i < len(w.pieces); i++ {
		w.write(w.pieces[i]) // and append what it refers to
	}
	w.rejectInitializers()
	return w.assembly.Bytes(), errors.Join(w.problems...)
}

func (w *walk) reject(name, format string, args ...any) {
	w.problems = append(w.problems, fmt.Errorf(name+": "+format, args...))
}

// rejectInitializers rejects code that Go would run before main: nothing runs it.
func (w *walk) rejectInitializers() {
	ours := `(main|` + regexp.QuoteMeta(project) + `(.*/)?[^./]*)`
	initializer := regexp.MustCompile(`^` + ours + `\.(init|\.inittask|(map\.)?init\.\d+)$`)
	for _, symbol := range w.symbols {
		if initializer.MatchString(symbol.Name) {
			w.reject(symbol.Name, "nothing runs this initializer, a function init or the value of a variable")
		}
	}
}

// follow returns the name and addend that stand for a symbol plus addend. If the symbol belongs to
// this project, or if the compiler made it for this project, it becomes a piece to write.
func (w *walk) follow(symbol elf.Symbol, addend int64) (name string, rest int64) {
	p := piece{symbol.Name, w.section(symbol), symbol.Value, symbol.Value + symbol.Size}
	isData := elf.ST_TYPE(symbol.Info) == elf.STT_OBJECT
	switch {
	case strings.HasPrefix(p.name, project) && symbol.Section != elf.SHN_UNDEF:
	case isData && isType(p.name):
		// One symbol stands for all types, each at its addend. A type begins with an
		// internal/abi.Type of 48 bytes. Code without a runtime compares its address and its hash,
		// and reads nothing else.
		p.start += uint64(addend)
		p.name = fmt.Sprintf("type:%#x", p.start)
		p.end = p.start + 48
		addend = 0
	case isData && strings.HasPrefix(p.name, "go:string."): // one symbol for all constants, whose lengths are in the code
		p.end = w.next(p.section, p.start)
	case isData && strings.Contains(p.name, "..stmp_"): // a constant, named after any of the packages that have it
		p.name = fmt.Sprintf("constant:%#x", p.start)
	case isData && (isMethods(p.name) || strings.HasPrefix(p.name, "$f")): // "$f64." and the bits of a constant
	case !strings.ContainsAny(p.name, ".:"): // so no function or variable of C takes its place
		return "go:" + p.name, addend
	default:
		return p.name, addend
	}
	if !slices.Contains(w.pieces, p) {
		w.pieces = append(w.pieces, p)
	}
	return p.name, addend
}

var isType = regexp.MustCompile(`^type(:|rel\.)`).MatchString
var isMethods = regexp.MustCompile(`^go:itab\.`).MatchString

// write writes a piece for the assembler, and follows all its references.
func (w *walk) write(p piece) {
	content := make([]byte, p.end-p.start)
	_, err := p.section.ReadAt(content, int64(p.start))
	if err != nil {
		w.reject(p.name, "cannot be read: %w", err)
	}
	var relocations []relocation
	for _, r := range w.relocations[p.section] {
		// Nothing reads the pointers of a type, or calls a method by its table.
		isUnused := isType(p.name) || isMethods(p.name) && !isType(r.symbol.Name)
		if r.offset >= p.start && r.offset < p.end && !isUnused {
			relocations = append(relocations, r)
		}
	}
	bias := int64(0)
	if p.isCode() {
		bias = w.machine.bias
		relocations = append(relocations, w.branches(p, content, relocations)...)
	}
	w.assembly.begin(p, content)
	for _, r := range relocations {
		// The section tells a variable, whatever its name: go:linkname can name it like a constant.
		// Only the loader writes .data.rel.ro, which has tables of addresses.
		section := w.section(r.symbol)
		isFunction := elf.ST_TYPE(r.symbol.Info) == elf.STT_FUNC
		if section.Flags&elf.SHF_WRITE != 0 && !strings.HasPrefix(section.Name, ".data.rel.ro") {
			w.reject(p.name, "it uses the variable %s in %s: keep state in the call", r.symbol.Name, section.Name)
			continue
		}
		if p.isCode() && isFunction && !slices.Contains(w.machine.calls, r.kind) {
			w.reject(p.name, "the instruction at +%#x %s", r.offset-p.start, takesAddress)
		}
		name, offset := w.follow(r.symbol, r.addend-bias)
		w.assembly.refer(p, r.offset-p.start, w.machine.name(r.kind), name, offset+bias)
	}
}

// branches returns relocations for the calls and jumps that Go's linker has resolved without one.
func (w *walk) branches(p piece, content []byte, relocations []relocation) (added []relocation) {
	contains := func(is func(relocation) bool) bool { return slices.ContainsFunc(relocations, is) }
	isRelocated := func(from, to int) bool {
		return contains(func(r relocation) bool { return r.offset-p.start >= uint64(from) && r.offset-p.start < uint64(to) })
	}
	hasTable := contains(func(r relocation) bool { return strings.HasPrefix(r.symbol.Name, p.name+".jump") })
	for _, i := range w.machine.instructions(content, isRelocated, hasTable) {
		address := p.start + uint64(i.target)
		at := w.functionAt(p.section, address)
		switch {
		case i.wrong != "":
			w.reject(p.name, "the instruction at +%#x %s", i.at, i.wrong)
		case address >= p.start && address < p.end:
		case at < 0 || i.kind == 0:
			w.reject(p.name, "the instruction at +%#x leads to %s+%#x, and cannot be linked", i.at, p.section.Name, address)
		default:
			addend := int64(address-w.symbols[at].Value) + w.machine.bias
			added = append(added, relocation{p.start + uint64(i.at), i.kind, w.symbols[at], addend})
		}
	}
	return added
}
