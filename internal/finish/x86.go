package finish

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// decodeAMD64 determines from the bytes of each instruction where it leads, and from its
// text, which has only numbers, which memory it refers to.
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
		// The text must say the same as the bytes.
		if controls.MatchString(i.text) != (i.kind != plain) {
			return nil, fmt.Errorf("the instruction %q at %#x cannot be told to be harmless", i.text, i.address)
		}
		i.judgeAMD64(line.bytes)
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
				i.doubt = "refers to an address that is relative to nothing"
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
	// The stack pointer as the operand that is written, first or last.
	stackPointer = regexp.MustCompile(`[ ,]%(?:[re]?sp|spl)$|^(?:xchg|xadd|cmpxchg).*%[re]?spl?,`)
	// The names of all instructions that do not simply go on to the next.
	controls = regexp.MustCompile(`^(?:(?:rep|repn|repne|repz|repnz|bnd|notrack|data16|addr32|cs|ds) )*(?:j|l?call|l?jmp|loop|xbegin|xabort|l?ret|iret|int|syscall|sysenter|sysexit|sysret|ud|hlt|bad|\?|\.byte)`)
)

// judgeAMD64 judges the side effects of an instruction: on the stack, and anything that
// only some processors, only a kernel, or no C function may do.
func (i *instruction) judgeAMD64(bytes []byte) {
	rest, prefix := withoutPrefixes(bytes)
	if len(rest) == 0 {
		return
	}
	rest = append(rest[:len(rest):len(rest)], 0, 0, 0)
	i.judgeStackAMD64(rest, prefix[0x48], prefix[0x66])
	if prefix[0x65] {
		i.doubt = changesState // a segment register of the thread's
	}
	if rest[0] == 0x0F {
		i.judgeTwoBytes(rest[1], rest[2], prefix)
		return
	}
	register, inMemory := rest[1]>>3&7, rest[1] < 0xC0
	switch opcode := rest[0]; {
	case opcode == 0x9E, opcode == 0x9F, (opcode == 0xDB || opcode == 0xDD || opcode == 0xDF) && inMemory && register == 1, // sahf, lahf, fisttp
		(opcode == 0xC6 || opcode == 0xC7) && rest[1] == 0xF8: // xabort, xbegin
		i.doubt = notEverywhere
	case opcode == 0x9D, opcode == 0xFA, opcode == 0xFB, opcode == 0xFD, opcode == 0x8E: // popf, cli, sti, std, mov to a segment
		i.doubt = changesState
	case opcode == 0xD9 && inMemory && (register == 4 || register == 5), opcode == 0xDD && inMemory && register == 4, // fldenv, fldcw, frstor
		opcode == 0xDB && (rest[1] == 0xE2 || rest[1] == 0xE3): // fclex, finit
		i.doubt = changesState
	case 0x6C <= opcode && opcode <= 0x6F, 0xE4 <= opcode && opcode <= 0xE7, 0xEC <= opcode && opcode <= 0xEF: // in, out
		i.doubt = ofTheKernel
	}
}

// isUnknownAMD64 reports whether the disassembler does not know an instruction, or may take
// it for another: it mistakes most of AVX (C4, C5) and AVX-512 (62) for older ones.
func isUnknownAMD64(l line) bool {
	return l.text == unknown || slices.Contains([]byte{0xC4, 0xC5, 0x62}, l.bytes[0])
}

// fillers are what assemblers and linkers put between functions: zeros, traps, and
// instructions that do nothing, behind any number of the prefixes 66 and 2E.
var fillers = [][]byte{
	{0x00}, {0xCC}, {0x90}, {0x0F, 0x1F, 0x00}, {0x0F, 0x1F, 0x40, 0x00}, {0x0F, 0x1F, 0x44, 0x00, 0x00},
	{0x0F, 0x1F, 0x80, 0x00, 0x00, 0x00, 0x00}, {0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
}

func fillingAMD64(code []byte) (length int) {
	for length < len(code) {
		rest := bytes.TrimLeft(code[length:], "\x66\x2e")
		n := slices.IndexFunc(fillers, func(filler []byte) bool { return bytes.HasPrefix(rest, filler) })
		if n < 0 {
			break
		}
		length = len(code) - len(rest) + len(fillers[n])
	}
	return length
}

// judgeTwoBytes judges an opcode that begins with 0F.
func (i *instruction) judgeTwoBytes(opcode, operands byte, prefix [256]bool) {
	f2, f3, wide := prefix[0xF2], prefix[0xF3], prefix[0x48]
	register, inMemory := operands>>3&7, operands < 0xC0
	switch {
	case opcode == 0x38, opcode == 0x3A, 0x0D <= opcode && opcode <= 0x0F: // SSSE3, SSE4 and what came after, 3DNow
		i.doubt = notEverywhere
	case opcode == 0x7C, opcode == 0x7D, opcode == 0xD0, opcode == 0xF0, opcode == 0x12 && (f2 || f3), opcode == 0x16 && f3: // SSE3
		i.doubt = notEverywhere
	case opcode == 0xB8 && f3, opcode == 0xBD && f3: // popcnt, lzcnt; tzcnt is compiled for all, where it equals bsf
		i.doubt = notEverywhere
	case opcode == 0xC7 && (register != 1 || wide): // rdrand, rdseed, cmpxchg16b
		i.doubt = notEverywhere
	case opcode == 0xAE && (f2 || f3 || prefix[0x66]), opcode == 0xAE && inMemory && 4 <= register && register < 7: // fsgsbase, incssp, clflushopt; xsave
		i.doubt = notEverywhere
	case opcode == 0x01 && !inMemory: // rdtscp, xgetbv, xend
		i.doubt = notEverywhere
	case opcode == 0xAE && inMemory && (register == 1 || register == 2): // fxrstor, ldmxcsr
		i.doubt = changesState
	case opcode == 0xA1, opcode == 0xA9, opcode == 0xB2, opcode == 0xB4, opcode == 0xB5: // loads of a segment
		i.doubt = changesState
	case opcode <= 0x01, opcode == 0x06, opcode == 0x08, opcode == 0x09, 0x20 <= opcode && opcode <= 0x23, opcode == 0x30,
		opcode == 0x32, opcode == 0x33, opcode == 0x37, opcode == 0x78, opcode == 0x79, opcode == 0xAA: // lgdt, mov to cr0, rdmsr and so on
		i.doubt = ofTheKernel
	}
}

// judgeStackAMD64 counts the bytes that an instruction puts onto the stack.
func (i *instruction) judgeStackAMD64(rest []byte, wide, short bool) {
	size := int64(int8(rest[2]))
	if rest[0] == 0x81 {
		size = int64(int32(binary.LittleEndian.Uint32(append(rest[2:len(rest):len(rest)], 0, 0))))
	}
	switch opcode := rest[0]; {
	case !short && (0x50 <= opcode && opcode <= 0x57 || opcode == 0x68 || opcode == 0x6A || opcode == 0xFF && rest[1]>>3&7 == 6): // push
		i.stack = 8
	case 0x58 <= opcode && opcode <= 0x5F && !short && !strings.HasSuffix(i.text, "%rsp"): // pop
		i.stack = -8
	case (opcode == 0x83 || opcode == 0x81) && wide && rest[1] == 0xEC: // sub
		i.stack = size
	case (opcode == 0x83 || opcode == 0x81) && wide && rest[1] == 0xC4: // add
		i.stack = -size
	case strings.HasPrefix(i.text, "push"), strings.HasPrefix(i.text, "pop") && !strings.HasPrefix(i.text, "popcnt"),
		opcode == 0xC8, opcode == 0xC9, // enter, leave
		stackPointer.MatchString(i.text) && !strings.HasPrefix(i.text, "cmp") && !strings.HasPrefix(i.text, "test"):
		i.doubt = changesStack
	}
}

// flowAMD64 says where an instruction leads; displacement counts from its end.
func flowAMD64(bytes []byte) (kind kind, displacement int64) {
	rest, prefix := withoutPrefixes(bytes)
	if len(rest) == 0 {
		return trap, 0
	}
	defer func() {
		// Processors disagree on how far that leads.
		if kind == branch && prefix[0x66] {
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
		case slices.Contains([]byte{0x05, 0x07, 0x34, 0x35, 0x0B, 0xB9, 0xFF}, second): // syscall, sysret, sysenter, sysexit; ud2, ud1, ud0
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

// withoutPrefixes returns the opcode and what follows, and which prefixes stand before it;
// 0x48 is any that has REX.W.
func withoutPrefixes(bytes []byte) (rest []byte, prefix [256]bool) {
	for rest = bytes; len(rest) > 0 && isPrefix(rest[0]); rest = rest[1:] {
		prefix[rest[0]] = true
		prefix[0x48] = prefix[0x48] || rest[0]&0xF8 == 0x48
	}
	return rest, prefix
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
