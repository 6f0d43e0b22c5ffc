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
	"slices"
	"strconv"
	"strings"
)

// A kind is what an instruction does to the flow of control.
type kind int

const (
	plain    kind = iota // goes on to the next instruction
	branch               // may go to target, or calls it
	jump                 // goes to target
	indirect             // goes wherever a register or the memory says
	trap                 // goes into the kernel, or to a signal handler
	back                 // returns
)

// An instruction holds as much of one as the checks need.
type instruction struct {
	address    uint64
	kind       kind
	target     uint64   // of a branch or a jump
	references []uint64 // addresses that it computes, reads or writes relative to itself
	problem    string   // why it cannot be checked, worded to follow "which"
	text       string
}

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

// disassemble reads the machine code of this project's Go functions, by address, and of
// C functions, which are those of the Go runtime's C part, too.
//
// Instructions differ in length on amd64, so a disassembler finds them: Go's own, which
// comes with each release. It prints numbers beside names, and only the numbers are read.
func (l *library) disassemble(path string) (goCode map[uint64]*function, cCode []*function, err error) {
	var symbols []elf.Symbol
	for _, symbol := range l.symbols {
		section := l.section(symbol.Value)
		isCode := section != nil && section.Flags&elf.SHF_EXECINSTR != 0 && symbol.Size > 0
		if isCode && (!l.isGo(symbol.Value) || isOurs(symbol)) {
			symbols = append(symbols, symbol)
		}
	}
	lines, err := list(path, symbols)
	if err != nil {
		return nil, nil, err
	}
	goCode = map[uint64]*function{}
	for _, symbol := range symbols {
		f, err := l.read(symbol, lines)
		if err != nil {
			return nil, nil, err
		}
		if l.isGo(symbol.Value) {
			goCode[symbol.Value] = f
		} else {
			cCode = append(cCode, f)
		}
	}
	return goCode, cCode, nil
}

// isOurs reports whether a function belongs to this project.
func isOurs(symbol elf.Symbol) bool {
	return strings.HasPrefix(symbol.Name, project) || slices.Contains(Functions, symbol.Name)
}

// read collects the instructions of a function: they fill it from end to end, except for
// zeros behind the last.
func (l *library) read(symbol elf.Symbol, lines map[uint64]line) (*function, error) {
	place, err := l.place(symbol.Value, symbol.Size)
	if err != nil {
		return nil, err
	}
	var own []line
	var unknown []instruction // none or one
	for rest := l.content[place : place+symbol.Size]; len(rest) > 0; {
		at := symbol.Value + symbol.Size - uint64(len(rest))
		line, found := lines[at]
		if !found || len(line.bytes) > len(rest) {
			return nil, fmt.Errorf("the disassembler shows no instruction at %s", l.describe(at))
		}
		if line.text == notKnown && len(line.bytes) == 1 && bytes.HasPrefix(rest, endbr64) {
			line.bytes, line.text = endbr64, "endbr64"
		}
		if line.text == notKnown || slices.Contains(l.mistaken, line.bytes[0]) {
			if len(bytes.Trim(rest, "\x00")) > 0 {
				unknown = []instruction{{address: at, text: hex.EncodeToString(line.bytes), problem: cannotBeRead}}
			}
			break
		}
		own = append(own, line)
		rest = rest[len(line.bytes):]
	}
	code, err := l.decode(own)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", symbol.Name, err)
	}
	return &function{symbol, append(code, unknown...)}, nil
}

const (
	notKnown     = "?" // the disassembler's text for bytes that it does not know
	cannotBeRead = "the disassembler does not know, so what follows cannot be checked"
)

// endbr64 does nothing on any amd64, and the disassembler does not know it. Ubuntu's gcc
// begins functions with it.
var endbr64 = []byte{0xF3, 0x0F, 0x1E, 0xFA}

// list has the disassembler list the instructions of functions, and returns them by address.
func list(path string, symbols []elf.Symbol) (map[uint64]line, error) {
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
