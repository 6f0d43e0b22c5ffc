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
		word := words[n]
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
			low, behind := completion(words[n+1:], word&31)
			if behind != 1 {
				i.doubt = "is not completed to an address by the instruction behind it"
			}
			if behind > 0 {
				i.references = append(i.references, i.address&^4095+uint64(pageOffset(word)<<12)+low)
			}
		case word&0x3B000000 == 0x18000000: // load of a literal
			i.references = append(i.references, i.address+uint64(signed(word>>5, 19)<<2))
		}
		if i.judgeStackARM64(word, words[:n]); beyondARM64(word) {
			i.doubt = notEverywhere
		}
		code = append(code, i)
	}
	return code, nil
}

func isUnknownARM64(l line) bool { return l.text == unknown && !l.isPadding() }

// completion finds the instruction that completes a page in a register to an address. It
// returns how many instructions later it comes; 0 if none does. C compilers put others
// between.
func completion(words []uint32, register uint32) (low uint64, behind int) {
	for n, word := range words {
		if low, complete := lowBits(word, register); complete {
			return low, n + 1
		}
		if word&0x9F00001F == 0x90000000|register { // another page
			break
		}
	}
	return 0, 0
}

// beyondARM64 reports whether only some processors have an instruction. It covers those
// that the disassembler knows; others are refused anyway.
func beyondARM64(word uint32) bool {
	switch {
	case word>>25&15 == 2: // SVE
	case word&0x7FE0E000 == 0x1AC04000: // crc32
	case word&0xFFFE0C00 == 0x4E280800, word&0xFF208C00 == 0x5E000000, word&0xFFFE0C00 == 0x5E280800, word&0xBFE0FC00 == 0x0EE0E000: // AES, SHA, pmull
	case word&0x3F200C00 == 0x38200000, word&0x3FA07C00 == 0x08A07C00, word&0xBFA07C00 == 0x08207C00: // ldadd, swp, ldapr; cas; casp
	default:
		return false
	}
	return true
}

// judgeStackARM64 counts the bytes that an instruction puts onto the stack.
func (i *instruction) judgeStackARM64(word uint32, before []uint32) {
	onStack := word>>5&31 == 31
	switch {
	case onStack && word&0x3B200400 == 0x38000400: // a load or store that moves the pointer
		i.stack = -signed(word>>12, 9)
	case onStack && word&0x3A800000 == 0x28800000: // of two registers
		size := 2 + word>>31
		if word&0x04000000 != 0 {
			size = 2 + word>>30
		}
		i.stack = -signed(word>>15, 7) << size
	case onStack && word&0xFF80001F == 0xD100001F: // sub
		i.stack = shifted(word)
	case onStack && word&0xFF80001F == 0x9100001F: // add
		i.stack = -shifted(word)
	case word&0xFFFFFC1F == 0x9100001F: // mov: the Go compiler calculates large frames elsewhere, two instructions before
		if n := len(before) - 2; n >= 0 && before[n]&0xFF8003FF == 0xD10003E0|word>>5&31 {
			i.stack = shifted(before[n])
			return
		}
		i.doubt = changesStack
	case word&0x3F80001F == 0x1100001F, word&0x3FE0001F == 0x0B20001F, word&0x1F80001F == 0x1200001F && word>>29&3 != 3: // the result of another calculation
		i.doubt = changesStack
	}
}

// shifted is the number in an addition or subtraction.
func shifted(word uint32) int64 { return int64(word>>10&4095) << (12 * (word >> 22 & 1)) }

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

// fillingARM64 counts zeros, and instructions that do nothing.
func fillingARM64(code []byte) (length int) {
	for ; len(code)-length >= 4; length += 4 {
		if word := binary.LittleEndian.Uint32(code[length:]); word != 0 && word != 0xD503201F {
			break
		}
	}
	return length
}

// movedARM64 knows how GNU ld works around errata 843419 and 835769 of Cortex-A53: it puts a
// branch in the place of a load or store at an address with an offset, or of a multiplication
// that adds. The branch leads to that instruction, behind which a branch leads back. Where
// another change is enough, the instruction stays in its place, and nothing leads to this
// one. A branch over all of these stands in front.
func movedARM64(l *library, code []byte, address, end uint64) (length uint64) {
	target := func(code []byte, address uint64) (target uint64, ok bool) {
		if len(code) < 4 || binary.LittleEndian.Uint32(code)&0xFC000000 != 0x14000000 { // b
			return 0, false
		}
		_, offset := flowARM64(binary.LittleEndian.Uint32(code))
		return address + uint64(offset), true
	}
	if over, ok := target(code, address); ok && over == end {
		return 4
	}
	if len(code) < 8 {
		return 0
	}
	word := binary.LittleEndian.Uint32(code)
	if word&0x3B000000 != 0x39000000 && word&0x7F000000 != 0x1B000000 {
		return 0
	}
	back, ok := target(code[4:], address+4)
	if !ok || l.isGo(back) {
		return 0
	}
	place, err := l.place(back-4, 4)
	if err != nil {
		return 0
	}
	here, isBranch := target(l.content[place:place+4], back-4)
	if isBranch && here == address || binary.LittleEndian.Uint32(l.content[place:]) == word {
		return 8
	}
	return 0
}
