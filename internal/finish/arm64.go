package finish

import (
	"encoding/binary"
	"fmt"
)

// decodeARM64 determines from the four bytes of each instruction where it leads and which
// memory it refers to. The disassembler prints them as a number, the highest byte first.
//
// Source of the encodings: Arm Architecture Reference Manual for A-profile
// architecture, chapter C4, A64 instruction set encoding.
func decodeARM64(lines []line) ([]instruction, error) {
	words := make([]uint32, len(lines))
	for n, line := range lines {
		if len(line.bytes) != 4 {
			return nil, fmt.Errorf("the instruction at %#x, %x, is not one of four bytes", line.address, line.bytes)
		}
		words[n] = binary.BigEndian.Uint32(line.bytes)
	}
	var code []instruction
	for n, line := range lines {
		i := instruction{address: line.address, text: line.text}
		i.flowARM64(words[n])
		i.referencesARM64(words[n], words[n+1:])
		code = append(code, i)
	}
	return code, nil
}

// flowARM64 sets the kind and the target.
func (i *instruction) flowARM64(word uint32) {
	lead := func(kind kind, offset int64) { i.kind, i.target = kind, i.address+uint64(offset) }
	switch {
	case word>>26&7 != 5:
		// Not one of the branches, exceptions and system instructions.
	case word&0xFC000000 == 0x14000000: // b
		lead(jump, signed(word, 26)<<2)
	case word&0xFC000000 == 0x94000000: // bl
		lead(branch, signed(word, 26)<<2)
	case word&0xFE000000 == 0x54000000, word&0x7E000000 == 0x34000000: // b.cond, cbz, cbnz
		lead(branch, signed(word>>5, 19)<<2)
	case word&0x7E000000 == 0x36000000: // tbz, tbnz
		lead(branch, signed(word>>5, 14)<<2)
	case word == 0xD65F03C0: // ret
		i.kind = back
	case word&0xFE000000 == 0xD6000000: // br, blr, ret to another register
		i.kind = indirect
	case word&0xFFFFF01F == 0xD503201F: // nop and other hints
	default:
		i.kind = trap
	}
}

// referencesARM64 sets the addresses that the instruction refers to; behind are those that
// follow it.
func (i *instruction) referencesARM64(word uint32, behind []uint32) {
	switch {
	case word&0x9F000000 == 0x10000000: // adr
		i.references = append(i.references, i.address+uint64(pageOffset(word)))
	case word&0x9F000000 == 0x90000000: // adrp: the address of a page, which the next instruction completes
		low, distance := completion(behind, word&31)
		if distance != 1 {
			i.problem = "is not completed to an address by the instruction behind it"
		}
		if distance > 0 {
			i.references = append(i.references, i.address&^4095+uint64(pageOffset(word)<<12)+low)
		}
	case word&0x3B000000 == 0x18000000: // load of a literal
		i.references = append(i.references, i.address+uint64(signed(word>>5, 19)<<2))
	}
}

// completion finds the instruction that completes a page in a register to an address. It
// returns how many instructions later it comes; 0 if none does. C compilers put others
// between.
func completion(behind []uint32, register uint32) (low uint64, distance int) {
	for n, word := range behind {
		if low, complete := lowBits(word, register); complete {
			return low, n + 1
		}
		if word&0x9F00001F == 0x90000000|register { // another page
			break
		}
	}
	return 0, 0
}

// lowBits returns the 12 bits that an addition, load or store adds to the register of a
// page. Complete is false for any other instruction.
func lowBits(word, register uint32) (low uint64, complete bool) {
	immediate := uint64(word >> 10 & 4095)
	switch {
	case word>>5&31 != register:
		return 0, false
	case word&0xFFC00000 == 0x91000000: // add
		return immediate, true
	case word&0x3B000000 == 0x39000000: // load or store, of size 1 to 16
		size := word >> 30
		if word&0x04800000 == 0x04800000 {
			size = 4
		}
		return immediate << size, true
	}
	return 0, false
}

// pageOffset is the number in adr and adrp.
func pageOffset(word uint32) int64 { return signed(word>>5&0x7FFFF<<2|word>>29&3, 21) }

// signed reads a number with this many bits.
func signed(value uint32, bits int) int64 { return int64(int32(value<<(32-bits)) >> (32 - bits)) }
