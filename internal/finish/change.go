package finish

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// change makes all changes, in the content.
func (l *library) change() error {
	if err := l.disableStart(); err != nil {
		return err
	}
	for _, name := range Functions {
		if err := l.connect(name); err != nil {
			return err
		}
	}
	if err := l.removeTLS(); err != nil {
		return err
	}
	return l.clearNoDelete()
}

// disableStart replaces the function in .init_array that starts the Go runtime by a C
// function that does nothing.
func (l *library) disableStart() error {
	start, err := l.named(l.start, "the start of the Go runtime", l.isGoSymbol)
	if err != nil {
		return err
	}
	nothing, err := l.cFunction(startNothing)
	if err != nil {
		return err
	}
	section := l.SectionByType(elf.SHT_INIT_ARRAY)
	if section == nil {
		return errors.New("there is no .init_array in which the Go runtime starts: " +
			"was this file built with -buildmode=c-shared?")
	}
	slots := 0
	for slot := section.Addr; slot < section.Addr+section.Size; slot += 8 {
		r, err := l.pointer(slot)
		if err != nil {
			return err
		}
		if r.addend == start.Value {
			slots++
			if err := l.point(r, nothing.Value); err != nil {
				return err
			}
		}
	}
	if slots != 1 {
		return fmt.Errorf("%d slots of .init_array hold %s, not one: was this file finished before?", slots, l.start)
	}
	return nil
}

// connect points a C variable, whose initial value does nothing, to the Go function of the
// same name.
func (l *library) connect(name string) error {
	r, function, err := l.entry(name)
	if err != nil {
		return err
	}
	initial, err := l.cFunction(notFinished)
	if err != nil {
		return err
	}
	if r.addend != initial.Value {
		return fmt.Errorf("the variable %s does not point to %s", name, notFinished)
	}
	return l.point(r, function.Value)
}

// point changes the address that a relative relocation stores. Some linkers also write the
// address into its place.
func (l *library) point(r relocation, target uint64) error {
	place, err := l.place(r.offset, 8)
	if err != nil {
		return err
	}
	switch l.word(place) {
	case 0:
	case r.addend:
		l.setWord(place, target)
	default:
		return fmt.Errorf("the bytes at %#x are neither 0 nor what their relocation says", r.offset)
	}
	l.setWord(r.at+16, target)
	return nil
}

// removeTLS removes thread-local storage, which is one or two pointers of the Go runtime,
// and the relocation that tells code where it is. On amd64, the code between assembler
// and Go reads it. That code then loads a pointer from offset 0, where every thread has
// something to read, and nothing uses the pointer.
func (l *library) removeTLS() error {
	var known uint64
	for _, variable := range l.threadLocal {
		if variable.Size > 0 && !strings.HasPrefix(variable.Name, "runtime.") {
			return fmt.Errorf("the thread-local variable %s is not the Go runtime's, and would be lost", variable.Name)
		}
		known += variable.Size
	}
	segments := 0
	for i, segment := range l.Progs {
		if segment.Type != elf.PT_TLS {
			continue
		}
		segments++
		if segment.Memsz != known || segment.Filesz != 0 {
			return fmt.Errorf("thread-local storage is %d bytes, and %d of them the Go runtime's: the rest would be lost",
				segment.Memsz, known)
		}
		header := l.word(programHeaders) + uint64(i)*programHeaderSize
		binary.LittleEndian.PutUint32(l.content[header:], uint32(elf.PT_NULL))
	}
	if segments != 1 {
		return fmt.Errorf("there are %d segments of thread-local storage, not one", segments)
	}

	relocations := 0
	for _, r := range l.relocations {
		if r.kind != l.tls {
			continue
		}
		relocations++
		if r.symbol != 0 || r.addend != 0 {
			return fmt.Errorf("the thread-local variable at %#x is not known to be the Go runtime's: "+
				"was this linked by another linker than GNU ld or lld?", r.offset)
		}
		slot, err := l.place(r.offset, 8)
		if err != nil {
			return err
		}
		l.setWord(slot, 0)
		l.setWord(r.at+8, noRelocation)
	}
	if relocations != 1 {
		return fmt.Errorf("there are %d relocations of type %d for thread-local storage, not one", relocations, l.tls)
	}
	// Not every linker sets it.
	if at, found := l.dynamic(elf.DT_FLAGS); found {
		l.setWord(at, l.word(at)&^uint64(elf.DF_STATIC_TLS))
	}
	return nil
}

// The place in a file's header that points to the program headers, and their size.
const (
	programHeaders    = 32
	programHeaderSize = 56
)

// clearNoDelete lets the library leave the process. With the Go runtime, it could not.
func (l *library) clearNoDelete() error {
	at, found := l.dynamic(elf.DT_FLAGS_1)
	if !found || l.word(at)&uint64(elf.DF_1_NODELETE) == 0 {
		return errors.New("the flag NODELETE is not set: was this file built with -buildmode=c-shared?")
	}
	l.setWord(at, l.word(at)&^uint64(elf.DF_1_NODELETE))
	return nil
}
