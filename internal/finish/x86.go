package finish

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// decodeAMD64 tells from the bytes of each instruction where it leads, and from its
// text, in which there are only numbers, what memory it refers to.
//
// Source of the encodings: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2, appendix A, opcode maps.
func decodeAMD64(lines []line) ([]instruction, error) {
	var code []instruction
	for _, line := range lines {
		i := instruction{address: line.address, length: uint64(len(line.bytes)), text: line.text}
		next := i.address + i.length
		var displacement int64
		i.kind, displacement = flowAMD64(line.bytes)
		if i.kind == branch {
			i.target = next + uint64(displacement)
			i.ends = strings.HasPrefix(i.text, "jmp")
		}
		if err := agrees(i); err != nil {
			return nil, err
		}
		if stateful.MatchString(i.text) {
			return nil, fmt.Errorf("%q changes what C relies on", i.text)
		}
		if i.kind == plain {
			for _, match := range relativeToIP.FindAllStringSubmatch(line.text, -1) {
				// Numbers below 0 are printed as if they had no sign.
				offset, err := strconv.ParseInt(match[1], 0, 64)
				if err != nil || offset != int64(int32(offset)) && offset != int64(uint32(offset)) {
					return nil, fmt.Errorf("%q refers to something that cannot be read", line.text)
				}
				i.references = append(i.references, next+uint64(int64(int32(offset))))
			}
			if addressesAlone.MatchString(line.text) && !strings.HasPrefix(line.text, "lea") { // lea only computes
				return nil, fmt.Errorf("%q refers to an address that is relative to nothing", line.text)
			}
		}
		code = append(code, i)
	}
	return code, nil
}

var (
	relativeToIP = regexp.MustCompile(`(-?0x[0-9a-f]+|\b0)?\(%[re]ip\)`)
	// Memory that no register points to: 0x12(,%rax,8), or a number without $.
	addressesAlone = regexp.MustCompile(`\(,|[ ,:]-?0x[0-9a-f]+(,|$)`)
	// What changes flags of the processor, or the thread's segments, for the caller, too.
	stateful = regexp.MustCompile(`^(?:std|popf|sti|cli|wr[fg]sbase|swapgs|ldmxcsr|fldcw|mov[a-z]* .*,%[defgs]s$)|%gs:`)
	// The names of all instructions that do not go on behind themselves.
	controls = regexp.MustCompile(`^(?:(?:rep|repn|repne|repz|repnz|bnd|notrack|data16|addr32|cs|ds) )*(?:j|l?call|l?jmp|loop|xbegin|xabort|l?ret|iret|int|syscall|sysenter|sysexit|sysret|ud|hlt|bad|\?|\.byte)`)
)

// agrees compares what the bytes say with what the disassembler has made of them.
func agrees(i instruction) error {
	if controls.MatchString(i.text) != (i.kind != plain) {
		return fmt.Errorf("the instruction %q at %#x cannot be told to be harmless", i.text, i.address)
	}
	return nil
}

// flowAMD64 says where an instruction leads; displacement counts from its end.
func flowAMD64(bytes []byte) (kind kind, displacement int64) {
	rest := bytes
	short16 := false
	for len(rest) > 0 && isPrefix(rest[0]) {
		short16 = short16 || rest[0] == 0x66
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return trap, 0
	}
	defer func() {
		// Processors do not agree on how far that leads.
		if kind == branch && short16 {
			kind = indirect
		}
	}()
	switch opcode := rest[0]; {
	case opcode == 0xE8, opcode == 0xE9: // call, jmp
		return near(rest[1:])
	case opcode == 0xEB, 0x70 <= opcode && opcode <= 0x7F, 0xE0 <= opcode && opcode <= 0xE3: // jmp, jcc, loop, jrcxz
		return short(rest[1:])
	case opcode == 0xC3: // ret
		return back, 0
	case opcode == 0xFF:
		// The middle three bits of the next byte: 2 and 3 call, 4 and 5 jump.
		if len(rest) > 1 {
			if middle := rest[1] >> 3 & 7; 2 <= middle && middle <= 5 {
				return indirect, 0
			}
		}
	case opcode == 0x0F && len(rest) > 1:
		switch second := rest[1]; {
		case 0x80 <= second && second <= 0x8F: // jcc
			return near(rest[2:])
		case second == 0x05, second == 0x07, second == 0x34, second == 0x35: // syscall, sysret, sysenter, sysexit
			return trap, 0
		case second == 0x0B, second == 0xB9, second == 0xFF: // ud2, ud1, ud0
			return trap, 0
		}
	case opcode == 0xCC, opcode == 0xCD, opcode == 0xF1, opcode == 0xF4, opcode == 0xCF: // int3, int, int1, hlt, iret
		return trap, 0
	case opcode == 0xC2, opcode == 0xCA, opcode == 0xCB: // ret that drops arguments, far ret
		return indirect, 0
	case (opcode == 0xC7 || opcode == 0xC6) && len(rest) > 1 && rest[1] == 0xF8: // xbegin, xabort
		return indirect, 0
	}
	return plain, 0
}

func isPrefix(b byte) bool {
	switch b {
	case 0x66, 0x67, 0xF0, 0xF2, 0xF3, 0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65:
		return true
	}
	return 0x40 <= b && b <= 0x4F // REX
}

func near(bytes []byte) (kind, int64) {
	if len(bytes) != 4 {
		return trap, 0
	}
	return branch, int64(int32(binary.LittleEndian.Uint32(bytes)))
}

func short(bytes []byte) (kind, int64) {
	if len(bytes) != 1 {
		return trap, 0
	}
	return branch, int64(int8(bytes[0]))
}
