package finish

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"slices"
)

// verify says what is wrong with a finished file.
func (l *library) verify(options Options) error {
	if err := l.verifyStart(); err != nil {
		return err
	}
	if err := l.verifyFunctions(); err != nil {
		return err
	}
	if err := l.verifyRelocations(); err != nil {
		return err
	}
	if at, found := l.dynamic(elf.DT_FLAGS_1); found && l.word(at)&uint64(elf.DF_1_NODELETE) != 0 {
		return fmt.Errorf("the flag NODELETE is set: a file that failed to load could not be replaced")
	}
	if err := l.verifySegments(); err != nil {
		return err
	}
	if err := l.verifyProcessor(); err != nil {
		return err
	}
	return l.verifyImports(options)
}

// verifyProcessor: the code asks for no more than every processor has.
func (l *library) verifyProcessor() error {
	info, err := buildinfo.Read(bytes.NewReader(l.content))
	if err != nil {
		return err
	}
	for _, setting := range info.Settings {
		if setting.Key == l.level && setting.Value == l.lowest {
			return nil
		}
	}
	return fmt.Errorf("it was not built with %s=%s: nobody checks the processor when it is loaded", l.level, l.lowest)
}

// verifyStart: loading runs nothing of Go, nor does unloading.
func (l *library) verifyStart() error {
	for _, section := range l.Sections {
		switch section.Type {
		case elf.SHT_PREINIT_ARRAY, elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY:
		default:
			continue
		}
		for slot := section.Addr; slot < section.Addr+section.Size; slot += 8 {
			r, err := l.pointer(slot)
			if err != nil {
				return err
			}
			target := l.section(r.addend)
			if target == nil || target.Flags&elf.SHF_EXECINSTR == 0 || l.isGo(r.addend) {
				return fmt.Errorf("%s calls %s, which is not a function of C", section.Name, l.describe(r.addend))
			}
		}
	}
	for _, tag := range []elf.DynTag{elf.DT_INIT, elf.DT_FINI} {
		if at, found := l.dynamic(tag); found && l.isGo(l.word(at)) {
			return fmt.Errorf("%v calls %s, which is not a function of C", tag, l.describe(l.word(at)))
		}
	}
	return nil
}

// verifyFunctions: the variables of C point to the functions of Go.
func (l *library) verifyFunctions() error {
	for _, name := range Functions {
		r, function, err := l.entry(name)
		if err != nil {
			return err
		}
		if r.addend != function.Value {
			return fmt.Errorf("the variable %s points to %s: the file is not finished", name, l.describe(r.addend))
		}
	}
	return nil
}

// verifyRelocations: there is no thread-local storage, and nothing else that a loader
// might not know.
func (l *library) verifyRelocations() error {
	for _, segment := range l.Progs {
		if segment.Type == elf.PT_TLS {
			return fmt.Errorf("there is thread-local storage: musl does not load it")
		}
	}
	for _, flag := range []elf.DynFlag{elf.DF_STATIC_TLS, elf.DF_TEXTREL} {
		if at, found := l.dynamic(elf.DT_FLAGS); found && l.word(at)&uint64(flag) != 0 {
			return fmt.Errorf("the flag %v is set", flag)
		}
	}
	if _, found := l.dynamic(elf.DT_TEXTREL); found {
		return fmt.Errorf("code would be changed when the library is loaded (DT_TEXTREL): it is not compiled with -fPIC")
	}
	if _, found := l.dynamic(dtRelr); found {
		return fmt.Errorf("relocations are packed (DT_RELR): musl 1.2.3 and glibc before 2.36 do not know that")
	}
	disabled := 0
	for _, r := range l.relocations {
		switch {
		case r.kind == l.relative, slices.Contains(l.symbolic, r.kind):
		case r.kind == noRelocation && r.symbol == 0 && disabled == 0:
			disabled++
		default:
			return fmt.Errorf("the relocation of %#x is of type %d, which is not known to be safe", r.offset, r.kind)
		}
	}
	return nil
}

// verifySegments: every kernel maps the file as it is, without an executable stack.
func (l *library) verifySegments() error {
	stackIsData := false
	for _, segment := range l.Progs {
		switch segment.Type {
		case elf.PT_GNU_STACK:
			stackIsData = segment.Flags&elf.PF_X == 0
		case elf.PT_LOAD:
			if segment.Align < l.largestPage {
				return fmt.Errorf("a segment is aligned to %d bytes, and kernels have pages of %d: link without -z max-page-size", segment.Align, l.largestPage)
			}
		}
	}
	if !stackIsData {
		return fmt.Errorf("it asks for an executable stack (PT_GNU_STACK), which glibc from 2.41 on refuses to libraries: link with -z noexecstack")
	}
	return nil
}

const dtRelr elf.DynTag = 36

// describe names the place of an address as well as it can.
func (l *library) describe(address uint64) string {
	if symbol, found := l.symbolAt(address); found {
		if symbol.Value == address {
			return symbol.Name
		}
		return fmt.Sprintf("%s+%#x", symbol.Name, address-symbol.Value)
	}
	if section := l.section(address); section != nil {
		return fmt.Sprintf("%s+%#x", section.Name, address-section.Addr)
	}
	return fmt.Sprintf("%#x", address)
}

// symbolAt is the symbol that an address lies in. Marks, which have no size, count
// where there is nothing else.
func (l *library) symbolAt(address uint64) (found elf.Symbol, ok bool) {
	for _, symbol := range l.symbols {
		if symbol.Value > address {
			break
		}
		if address-symbol.Value < symbol.Size || symbol.Value == address && !ok {
			found, ok = symbol, true
		}
	}
	return found, ok
}
