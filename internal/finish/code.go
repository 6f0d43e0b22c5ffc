package finish

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// A kind is what an instruction does to the flow of control.
type kind int

const (
	plain    kind = iota // goes on to the next instruction
	branch               // may go to target; a call comes back
	indirect             // goes wherever a register or the memory says
	trap                 // goes into the kernel, or to a signal handler
	back                 // returns
)

// An instruction holds as much of one as the proof needs.
type instruction struct {
	address, length uint64
	kind            kind
	target          uint64   // of a branch
	ends            bool     // a branch that is always taken and does not come back
	references      []uint64 // addresses that it computes, reads or writes relative to itself
	stack           int64    // bytes that it puts onto the stack
	doubt           string   // why Go code must not have it
	text            string
}

// Doubts about an instruction, worded to follow "which". The first two apply to C, too.
const (
	notEverywhere = "not every processor has"
	notKnown      = "the disassembler does not know, as those that not every processor has"
	changesState  = "changes what C relies on"
	changesStack  = "changes the stack pointer in a way that cannot be followed"
	ofTheKernel   = "only a kernel may execute"
)

// A function is a symbol and its code, up to the first unknown instruction.
type function struct {
	elf.Symbol
	code []instruction
}

// A line is an instruction as the disassembler prints it.
type line struct {
	address uint64
	bytes   []byte
	text    string // in the assembler's syntax that has numbers where Go's has names
}

// code reads the machine code of this project: the functions where it starts, all
// functions whose names are ours, and all of C. If it misses a function, the proof fails
// there, because it finds no code.
//
// Instructions differ in length on amd64, so a disassembler finds them: Go's own, which
// comes with each release. It prints numbers beside names, and only the numbers are read.
// A function is whole if its instructions fill it from end to end.
func (l *library) code(path string, starts []elf.Symbol) (ours map[uint64]*function, c []*function, err error) {
	var symbols []elf.Symbol
	for _, symbol := range l.symbols {
		if elf.ST_TYPE(symbol.Info) == elf.STT_FUNC && l.isGo(symbol.Value) && isOurs(symbol, starts) {
			if symbol.Size == 0 {
				return nil, nil, fmt.Errorf("the function %s has no size", symbol.Name)
			}
			symbols = append(symbols, symbol)
		}
	}
	functions, err := l.cFunctions()
	if err != nil {
		return nil, nil, err
	}
	if err := l.verifyNames(functions); err != nil {
		return nil, nil, err
	}
	symbols = append(symbols, functions...)
	lines, err := disassemble(path, symbols)
	if err != nil {
		return nil, nil, err
	}
	ours = map[uint64]*function{}
	for _, symbol := range symbols {
		f, err := l.read(symbol, lines)
		if err != nil {
			return nil, nil, err
		}
		if l.isGo(symbol.Value) {
			ours[symbol.Value] = f
		} else {
			c = append(c, f)
		}
	}
	return ours, c, nil
}

// read collects the instructions of a function.
func (l *library) read(symbol elf.Symbol, lines map[uint64]line) (*function, error) {
	var own []line
	var stranger *instruction
	for at, end := symbol.Value, symbol.Value+symbol.Size; at < end && stranger == nil; {
		line, found := lines[at]
		if !found || len(line.bytes) == 0 {
			return nil, fmt.Errorf("the disassembler shows no instruction at %s", l.describe(at))
		}
		place, err := l.place(at, end-at)
		if err != nil {
			return nil, err
		}
		switch {
		case !l.isUnknown(line):
		case len(line.bytes) == 1 && bytes.HasPrefix(l.content[place:place+end-at], endbr64):
			line.bytes, line.text = endbr64, "endbr64"
		default:
			stranger = &instruction{address: at, doubt: notKnown, text: hex.EncodeToString(line.bytes)}
			continue
		}
		own = append(own, line)
		if at += uint64(len(line.bytes)); at > end {
			return nil, fmt.Errorf("the last instruction of %s reaches beyond it", symbol.Name)
		}
	}
	for len(own) > 0 && own[len(own)-1].isPadding() {
		own = own[:len(own)-1]
	}
	code, err := l.decode(own)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", symbol.Name, err)
	}
	if stranger != nil {
		code = append(code, *stranger)
	}
	return &function{symbol, code}, nil
}

// endbr64 does nothing on any amd64, and the disassembler does not know it. Ubuntu's gcc
// begins functions with it.
var endbr64 = []byte{0xF3, 0x0F, 0x1E, 0xFA}

// isOurs reports whether a function belongs to this project.
func isOurs(symbol elf.Symbol, starts []elf.Symbol) bool {
	for _, start := range starts {
		if symbol.Value == start.Value {
			return true
		}
	}
	return strings.HasPrefix(symbol.Name, project)
}

// disassemble lists the instructions of functions by address.
func disassemble(path string, symbols []elf.Symbol) (map[uint64]line, error) {
	var names []string
	for _, symbol := range symbols {
		names = append(names, regexp.QuoteMeta(symbol.Name))
	}
	command := exec.Command("go", "tool", "objdump", "-gnu", "-s", "^("+strings.Join(names, "|")+")$", path)
	// The tool is built for this machine, even if the library is for another.
	command.Env = append(os.Environ(), "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH, "GOFLAGS=")
	var stderr strings.Builder
	command.Stderr = &stderr
	listing, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("the disassembler, go tool objdump: %w\n%s", err, stderr.String())
	}
	return readListing(string(listing))
}

// readListing reads the disassembler's output: for each function a line that begins with
// TEXT, its instructions, and an empty line. Any other line is an error.
func readListing(listing string) (map[uint64]line, error) {
	lines := map[uint64]line{}
	for text := range strings.Lines(listing) {
		text = strings.TrimSuffix(text, "\n")
		if text == "" || strings.HasPrefix(text, "TEXT ") {
			continue
		}
		fields := listed.FindStringSubmatch(text)
		if fields == nil {
			return nil, fmt.Errorf("the disassembler prints a line that cannot be read, %q", text)
		}
		address, err := strconv.ParseUint(fields[1], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("the disassembler prints an address that cannot be read, %q: %w", text, err)
		}
		content, _ := hex.DecodeString(fields[2]) // pairs of digits, as the pattern says
		lines[address] = line{address, content, fields[3] + fields[4]}
	}
	return lines, nil
}

// listed matches an instruction. Between functions, there are bytes that are none: unknown.
//
//	file.go:12<tab>0x1234<tabs>c3<tabs>RET // retq
//
// Names come first, and may hold the separator. Numbers do not.
var listed = regexp.MustCompile(`^[^\t]+\t+0x([0-9a-f]+)\t+((?:[0-9a-f]{2})+)\t+(?:(\?)|[^\t]* // ([^\t]*?)) *\t*$`)

// unknown is the disassembler's text for bytes that it does not know.
const unknown = "?"

// isPadding reports whether a line is one of the zeros that fill the end of a function on
// arm64. They are not instructions, so nothing is lost without them.
func (l line) isPadding() bool {
	return l.text == unknown && len(bytes.Trim(l.bytes, "\x00")) == 0
}
