package finish

import (
	"encoding/binary"
	"fmt"
)

// decodeARM64 tells from the four bytes of each instruction where it leads and what
// memory it refers to. The disassembler prints them as a number, the highest first.
//
// Source of the encodings: Arm Architecture Reference Manual for A-profile
// architecture, chapter C4, A64 instruction set encoding.
func decodeARM64(lines []line) ([]instruction, error) {
	var code []instruction
	for n, line := range lines {
		if len(line.bytes) != 4 || line.text == unknown {
			return nil, fmt.Errorf("the disassembler does not know the instruction at %#x, %x", line.address, line.bytes)
		}
		word := binary.BigEndian.Uint32(line.bytes)
		i := instruction{address: line.address, length: 4, text: line.text}
		var offset int64
		if i.kind, offset = flowARM64(word); i.kind == branch {
			i.target = i.address + uint64(offset)
			i.ends = word&0xFC000000 == 0x14000000 // b
		}

		switch {
		case word&0x9F000000 == 0x10000000: // adr
			i.references = append(i.references, i.address+uint64(pageOffset(word)))
		case word&0x9F000000 == 0x90000000: // adrp: the address of a page, which the next instruction completes
			if n+1 == len(lines) || len(lines[n+1].bytes) != 4 {
				return nil, fmt.Errorf("%q at %#x is the last instruction", line.text, line.address)
			}
			low, complete := lowBits(binary.BigEndian.Uint32(lines[n+1].bytes), word&31)
			if !complete {
				return nil, fmt.Errorf("%q at %#x is not completed to an address by %q", line.text, line.address, lines[n+1].text)
			}
			page := i.address&^4095 + uint64(pageOffset(word)<<12)
			i.references = append(i.references, page+low)
		case word&0x3B000000 == 0x18000000: // load of a literal
			i.references = append(i.references, i.address+uint64(signed(word>>5, 19)<<2))
		}
		code = append(code, i)
	}
	return code, nil
}

// flowARM64 says where an instruction leads; offset counts from its beginning.
func flowARM64(word uint32) (kind kind, offset int64) {
	switch {
	case word == 0:
		return trap, 0 // udf
	case word>>26&7 != 5:
		return plain, 0 // not one of the branches, exceptions and system instructions
	case word&0x7C000000 == 0x14000000: // b, bl
		return branch, signed(word, 26) << 2
	case word&0xFE000000 == 0x54000000, word&0x7E000000 == 0x34000000: // b.cond, cbz, cbnz
		return branch, signed(word>>5, 19) << 2
	case word&0x7E000000 == 0x36000000: // tbz, tbnz
		return branch, signed(word>>5, 14) << 2
	case word == 0xD65F03C0: // ret
		return back, 0
	case word&0xFE000000 == 0xD6000000: // br, blr, ret to another register
		return indirect, 0
	case word&0xFFFFF01F == 0xD503201F: // nop and other hints
		return plain, 0
	}
	return trap, 0
}

// lowBits are the 12 bits that an instruction adds to the register of a page: an
// addition, or a load or store. Complete is false for any other.
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

// signed reads a number of so many bits.
func signed(value uint32, bits int) int64 { return int64(int32(value<<(32-bits)) >> (32 - bits)) }
