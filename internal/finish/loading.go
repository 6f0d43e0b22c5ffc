package finish

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
)

// checkStart: neither loading nor unloading runs Go code.
func (l *library) checkStart() error {
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

// checkFunctions: the C variables point to the Go functions.
func (l *library) checkFunctions() error {
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

// checkExports: the file has the functions that servers look for.
func (l *library) checkExports() error {
	symbols, err := l.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, name := range []string{"RedisModule_OnLoad", "RedisModule_OnUnload"} {
		if !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF }) {
			return fmt.Errorf("it does not export %s, which servers call: see module/load.c", name)
		}
	}
	return nil
}

// checkRelocations: every loader knows the relocations, and none changes code.
func (l *library) checkRelocations() error {
	_, found := l.dynamic(elf.DT_TEXTREL)
	if found || l.hasFlag(elf.DF_TEXTREL) {
		return errors.New("code would be changed when the library is loaded (TEXTREL): it is not compiled with -fPIC")
	}
	removed := 0
	for _, r := range l.relocations {
		switch {
		case r.kind == l.relative, slices.Contains(l.symbolic, r.kind):
		case r.kind == noRelocation && r.symbol == 0 && removed == 0:
			removed++ // by removeTLS
		default:
			return fmt.Errorf("the relocation of %#x is of type %d, which is not known to be safe", r.offset, r.kind)
		}
	}
	return nil
}

// checkThreadLocal: there is no thread-local storage. checkRelocations refuses pointers to it.
func (l *library) checkThreadLocal() error {
	if l.hasFlag(elf.DF_STATIC_TLS) ||
		slices.ContainsFunc(l.Progs, func(segment *elf.Prog) bool { return segment.Type == elf.PT_TLS }) {
		return errors.New("there is thread-local storage: musl does not load it")
	}
	return nil
}

func (l *library) hasFlag(flag elf.DynFlag) bool {
	at, found := l.dynamic(elf.DT_FLAGS)
	return found && l.word(at)&uint64(flag) != 0
}

// checkFlags: dlopen takes the file, and dlclose lets it go.
func (l *library) checkFlags() error {
	at, found := l.dynamic(elf.DT_FLAGS_1)
	if !found {
		return nil
	}
	flags := elf.DynFlag1(l.word(at))
	if flags&elf.DF_1_NODELETE != 0 {
		return errors.New("the flag NODELETE is set: a file that failed to load could not be replaced")
	}
	if other := flags &^ elf.DF_1_NOW; other != 0 {
		return fmt.Errorf("the flags %v are set, and modules load without: link without -z nodlopen and its like", other)
	}
	return nil
}

// checkSegments: every kernel maps the file unchanged, without an executable stack.
func (l *library) checkSegments() error {
	stackIsData := false
	for _, segment := range l.Progs {
		switch segment.Type {
		case elf.PT_GNU_STACK:
			stackIsData = segment.Flags&elf.PF_X == 0
		case elf.PT_LOAD:
			if segment.Flags&(elf.PF_W|elf.PF_X) == elf.PF_W|elf.PF_X {
				return fmt.Errorf("the segment at %#x is writable and executable, which systems that are hardened refuse: "+
					"link without -N and --omagic", segment.Vaddr)
			}
			if segment.Align < l.largestPage {
				return fmt.Errorf("a segment is aligned to %d bytes, and kernels have pages of %d: "+
					"link without -z max-page-size", segment.Align, l.largestPage)
			}
		}
	}
	if !stackIsData {
		return errors.New("it asks for an executable stack (PT_GNU_STACK), which glibc from 2.41 on refuses to libraries: " +
			"link with -z noexecstack")
	}
	return nil
}
