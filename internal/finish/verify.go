package finish

import (
	"bytes"
	"debug/buildinfo"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// verify returns what is wrong with a finished file.
func (l *library) verify(options Options) error {
	for _, verify := range []func() error{
		l.verifyStart, l.verifyExports, l.verifyFunctions, l.verifyRelocations, l.verifyFlags, l.verifySegments, l.verifyBuild, l.verifyEntries,
	} {
		if err := verify(); err != nil {
			return err
		}
	}
	return l.verifyImports(options)
}

// verifyExports: the file has the functions that servers look for.
func (l *library) verifyExports() error {
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

// verifyFlags: dlopen takes the file, and dlclose lets it go.
func (l *library) verifyFlags() error {
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

// verifyBuild: the code runs on every processor, and the Go compiler left out no check.
func (l *library) verifyBuild() error {
	info, err := buildinfo.Read(bytes.NewReader(l.content))
	if err != nil {
		return err
	}
	level := ""
	for _, setting := range info.Settings {
		switch setting.Key {
		case l.level:
			level = setting.Value
		case "-gcflags", "-asmflags":
			if !harmless.MatchString(setting.Value) {
				return fmt.Errorf("it was built with %s=%s, and flags may take away the checks that are relied on: only -l is known to be harmless, see GOFLAGS, too", setting.Key, setting.Value)
			}
		}
	}
	if level != l.lowest {
		return fmt.Errorf("it was not built with %s=%s: nobody checks the processor when it is loaded", l.level, l.lowest)
	}
	return l.verifyCompiler()
}

// harmless matches the compiler's flags against inlining, with an optional pattern of
// packages before them.
var harmless = regexp.MustCompile(`^([^ =-][^ =]*=)?( *-l *)?$`)

// verifyCompiler: of several -gcflags, the file names only the last. But the compiler
// records its flags in the debugging information.
func (l *library) verifyCompiler() error {
	data, err := l.DWARF()
	if err != nil {
		return fmt.Errorf("the flags of the compiler, in debugging information, cannot be read: build without -ldflags=-w: %w", err)
	}
	for units := data.Reader(); ; units.SkipChildren() {
		unit, err := units.Next()
		if unit == nil || err != nil {
			return err
		}
		name, _ := unit.Val(dwarf.AttrName).(string)
		producer, _ := unit.Val(dwarf.AttrProducer).(string)
		if strings.HasPrefix(name, project) && slices.Contains(strings.Fields(producer), "-B") {
			return fmt.Errorf("package %s was compiled with -B, without checks of bounds: see -gcflags and GOFLAGS", name)
		}
	}
}

// verifyStart: neither loading nor unloading runs Go code.
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

// verifyFunctions: the C variables point to the Go functions.
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

// verifyRelocations: there is no thread-local storage, and nothing else that some loaders
// do not know.
func (l *library) verifyRelocations() error {
	for _, segment := range l.Progs {
		if segment.Type == elf.PT_TLS {
			return errors.New("there is thread-local storage: musl does not load it")
		}
	}
	for _, flag := range []elf.DynFlag{elf.DF_STATIC_TLS, elf.DF_TEXTREL} {
		if at, found := l.dynamic(elf.DT_FLAGS); found && l.word(at)&uint64(flag) != 0 {
			return fmt.Errorf("the flag %v is set", flag)
		}
	}
	if _, found := l.dynamic(elf.DT_TEXTREL); found {
		return errors.New("code would be changed when the library is loaded (DT_TEXTREL): it is not compiled with -fPIC")
	}
	if _, found := l.dynamic(dtRelr); found {
		return errors.New("relocations are packed (DT_RELR): musl 1.2.3 and glibc before 2.36 do not know that")
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

// verifySegments: every kernel maps the file unchanged, without an executable stack.
func (l *library) verifySegments() error {
	stackIsData := false
	for _, segment := range l.Progs {
		switch segment.Type {
		case elf.PT_GNU_STACK:
			stackIsData = segment.Flags&elf.PF_X == 0
		case elf.PT_LOAD:
			if segment.Flags&(elf.PF_W|elf.PF_X) == elf.PF_W|elf.PF_X {
				return fmt.Errorf("the segment at %#x is writable and executable, which systems that are hardened refuse: link without -N and --omagic", segment.Vaddr)
			}
			if segment.Align < l.largestPage {
				return fmt.Errorf("a segment is aligned to %d bytes, and kernels have pages of %d: link without -z max-page-size", segment.Align, l.largestPage)
			}
		}
	}
	if !stackIsData {
		return errors.New("it asks for an executable stack (PT_GNU_STACK), which glibc from 2.41 on refuses to libraries: link with -z noexecstack")
	}
	return nil
}

const dtRelr elf.DynTag = 36

// describe names the place of an address as precisely as possible.
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

// symbolAt returns the symbol at an address. Marks, which have no size, count only if
// there is nothing else.
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
