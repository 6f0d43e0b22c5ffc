package main

import (
	"debug/elf"
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"
)

// A machine knows the instructions and the relocations of an architecture.
type machine struct {
	// instructions lists the calls and jumps of a function that have no relocation, and the
	// instructions that no function may have. If hasTable is true, the function has a table of
	// addresses of its own code, as for a large switch.
	instructions func(code []byte, isRelocated func(from, to int) bool, hasTable bool) []instruction
	name         func(kind uint32) string // of a relocation
	calls        []uint32                 // the kinds of relocations of calls and jumps
	bias         int64                    // a relocation in code has this plus the offset from the symbol as its addend
}

const plt, call, jump = uint32(elf.R_X86_64_PLT32), uint32(elf.R_AARCH64_CALL26), uint32(elf.R_AARCH64_JUMP26)

var machines = map[elf.Machine]machine{
	elf.EM_X86_64:  {amd64, func(kind uint32) string { return elf.R_X86_64(kind).String() }, []uint32{plt}, -4},
	elf.EM_AARCH64: {arm64, func(kind uint32) string { return elf.R_AARCH64(kind).String() }, []uint32{call, jump}, 0},
}

// An instruction calls or jumps to target, unless wrong says why no function may have it.
type instruction struct {
	at     int // the field that the linker changes
	wrong  string
	target int
	kind   uint32 // of the relocation that it needs, or 0 if none reaches all functions
}

const (
	isUnknown      = "is not known to the decoder"
	throughPointer = "calls or jumps through a pointer, as for a closure or a method of an interface: " +
		"its target is unknown"
	takesAddress = "takes the address of code, as for a goroutine, a defer or the value of a function"
	entersKernel = "calls the kernel"
)

func amd64(code []byte, isRelocated func(from, to int) bool, hasTable bool) (found []instruction) {
	for at, next := 0, 0; at < len(code); at = next {
		decoded, err := x86asm.Decode(code[at:], 64)
		if err != nil {
			return append(found, instruction{at: at, wrong: isUnknown})
		}
		next = at + decoded.Len
		distance, isDirect := decoded.Args[0].(x86asm.Rel)
		i := instruction{at: at}
		relocated := isRelocated(at, next)
		switch {
		case isDirect && !relocated:
			i.at, i.target = at+decoded.PCRelOff, next+int(distance)
			if decoded.PCRel == 4 {
				i.kind = plt
			}
		case isDirect, decoded.Op == x86asm.JMP && hasTable:
			continue
		case decoded.Op == x86asm.CALL || decoded.Op == x86asm.JMP:
			i.wrong = throughPointer
		case decoded.Op == x86asm.SYSCALL || decoded.Op == x86asm.SYSENTER || code[at] == 0xcd: // INT, not INT3
			i.wrong = entersKernel
		case decoded.PCRel != 0 && !relocated:
			i.wrong = takesAddress
		default:
			continue
		}
		found = append(found, i)
	}
	return found
}

// arm64 compares words with the patterns of the Arm Architecture Reference Manual, "A64 instruction
// set encoding". Every instruction is one word, so arm64 sees every instruction.
func arm64(code []byte, isRelocated func(from, to int) bool, hasTable bool) (found []instruction) {
	for at := 0; at+4 <= len(code); at += 4 {
		word := binary.LittleEndian.Uint32(code[at:])
		i := instruction{at: at}
		is := func(mask, pattern uint32) bool { return word&mask == pattern }
		// target adds the signed distance, in words of code, that is in the size bits from bit low on.
		target := func(low, size int) int { return at + int(int32(word<<(32-low-size))>>(32-size))*4 }
		switch {
		case isRelocated(at, at+4), is(0xffffffff, 0xd65f03c0), is(0xfffffc1f, 0xd61f0000) && hasTable: // RET, BR
		case is(0xfc000000, 0x94000000): // BL
			i.target = target(0, 26)
			i.kind = call
		case is(0xfc000000, 0x14000000): // B
			i.target = target(0, 26)
			i.kind = jump
		case is(0xff000000, 0x54000000), is(0x7e000000, 0x34000000): // B.cond, CBZ, CBNZ
			i.target = target(5, 19)
		case is(0x7e000000, 0x36000000): // TBZ, TBNZ
			i.target = target(5, 14)
		case is(0x1f000000, 0x10000000), is(0x3b000000, 0x18000000): // ADR, ADRP, LDR of a constant among the code
			i.wrong = takesAddress
		case is(0xfe000000, 0xd6000000): // BR, BLR, and their forms that authenticate pointers
			i.wrong = throughPointer
		case is(0xff00001f, 0xd4000001), is(0xff00001e, 0xd4000002): // SVC, HVC, SMC
			i.wrong = entersKernel
		}
		if i != (instruction{at: at}) {
			found = append(found, i)
		}
	}
	return found
}
