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
	plain    kind = iota // goes on behind itself
	branch               // goes to target, perhaps; a call comes back
	indirect             // goes wherever a register or the memory says
	trap                 // goes into the kernel, or to a signal handler
	back                 // returns
)

// An instruction is as much of one as the proof asks about.
type instruction struct {
	address, length uint64
	kind            kind
	target          uint64   // of a branch
	ends            bool     // a branch that is always taken, and does not come back
	references      []uint64 // addresses that it computes, reads or writes, relative to itself
	text            string
}

// A function is its symbol and its code.
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

// code reads the machine code of this project, from the functions where it starts to
// the last that a name tells to be ours. A function that is missing is not reached by
// mistake: the proof fails where there is no code.
//
// Instructions differ in length on amd64, so a disassembler finds them: that of Go,
// which comes with each of its releases. It prints numbers beside names, so that no
// name has to be read, and a function is whole when its instructions fill it from end
// to end.
func (l *library) code(path string, starts []elf.Symbol) (map[uint64]*function, error) {
	lines, err := l.disassemble(path, starts)
	if err != nil {
		return nil, err
	}
	code := map[uint64]*function{}
	for _, symbol := range l.symbols {
		if elf.ST_TYPE(symbol.Info) != elf.STT_FUNC || !l.isGo(symbol.Value) || !isOurs(symbol, starts) {
			continue
		}
		if symbol.Size == 0 {
			return nil, fmt.Errorf("the function %s has no size", symbol.Name)
		}
		var own []line
		for at := symbol.Value; at < symbol.Value+symbol.Size; {
			line, found := lines[at]
			if !found || len(line.bytes) == 0 {
				return nil, fmt.Errorf("the disassembler shows no instruction at %s", l.describe(at))
			}
			own = append(own, line)
			at += uint64(len(line.bytes))
			if at > symbol.Value+symbol.Size {
				return nil, fmt.Errorf("the last instruction of %s reaches beyond it", symbol.Name)
			}
		}
		for len(own) > 0 && own[len(own)-1].isPadding() {
			own = own[:len(own)-1]
		}
		instructions, err := l.decode(own)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", symbol.Name, err)
		}
		code[symbol.Value] = &function{symbol, instructions}
	}
	return code, nil
}

// isOurs reports whether a function belongs to this project.
func isOurs(symbol elf.Symbol, starts []elf.Symbol) bool {
	for _, start := range starts {
		if symbol.Value == start.Value {
			return true
		}
	}
	return strings.HasPrefix(symbol.Name, project)
}

// disassemble lists the instructions of this project by address.
func (l *library) disassemble(path string, starts []elf.Symbol) (map[uint64]line, error) {
	names := []string{regexp.QuoteMeta(project)}
	for _, start := range starts {
		names = append(names, regexp.QuoteMeta(start.Name)+"$")
	}
	command := exec.Command("go", "tool", "objdump", "-gnu", "-s", "^("+strings.Join(names, "|")+")", path)
	// The tool is built for this machine, whichever one the library is for.
	command.Env = append(os.Environ(), "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH, "GOFLAGS=")
	var stderr strings.Builder
	command.Stderr = &stderr
	listing, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("the disassembler, go tool objdump: %w\n%s", err, stderr.String())
	}
	return readListing(string(listing))
}

// readListing reads what the disassembler prints: for each function a line that begins
// with TEXT, its instructions, and an empty line. Any other line is an error.
//
//	file.go:12<tab>0x1234<tabs>c3<tabs>RET // retq
func readListing(listing string) (map[uint64]line, error) {
	lines := map[uint64]line{}
	for text := range strings.Lines(listing) {
		text = strings.TrimSuffix(text, "\n")
		if text == "" || strings.HasPrefix(text, "TEXT ") {
			continue
		}
		line, err := readLine(text)
		if err != nil {
			return nil, fmt.Errorf("the disassembler prints a line that cannot be read, %q: %w", text, err)
		}
		lines[line.address] = line
	}
	return lines, nil
}

func readLine(text string) (line, error) {
	fields := strings.FieldsFunc(text, func(c rune) bool { return c == '\t' })
	if len(fields) != 4 {
		return line{}, fmt.Errorf("it has %d fields, not 4", len(fields))
	}
	hexadecimal, found := strings.CutPrefix(fields[1], "0x")
	if !found {
		return line{}, fmt.Errorf("%q is no address", fields[1])
	}
	address, err := strconv.ParseUint(hexadecimal, 16, 64)
	if err != nil {
		return line{}, err
	}
	content, err := hex.DecodeString(fields[2])
	if err != nil {
		return line{}, err
	}
	// Between functions, there are bytes that are no instruction.
	if fields[3] == unknown {
		return line{address, content, unknown}, nil
	}
	// Names come first, and may hold the separator. Numbers do not.
	at := strings.LastIndex(fields[3], separator)
	if at < 0 {
		return line{}, fmt.Errorf("%q is no instruction", fields[3])
	}
	return line{address, content, strings.TrimSpace(fields[3][at+len(separator):])}, nil
}

// unknown is what the disassembler prints for bytes that it does not know.
const unknown = "?"

// isPadding says whether a line is one of the zeros that fill the end of a function on
// arm64. They are no instruction, so that nothing gets lost by leaving them out.
func (l line) isPadding() bool {
	return l.text == unknown && len(bytes.Trim(l.bytes, "\x00")) == 0
}

const separator = " // "
