package finish

import "debug/elf"

// An architecture holds the differences between processors.
type architecture struct {
	goName string // GOARCH

	// The Go command's setting for the oldest processor, and its lowest value. The runtime
	// would check the processor when it starts.
	level, lowest string

	largestPage uint64 // of memory, that a kernel may have

	// start is the function that starts the Go runtime when a library is loaded. A slot of
	// .init_array holds it.
	start string

	relative uint32   // the relocation that puts an address of the library somewhere
	tls      uint32   // the one that puts the place of a thread-local variable there
	symbolic []uint32 // those that put the address of an imported name there

	// mistaken are first bytes of instructions that the disassembler takes for others.
	mistaken []byte

	decode func(lines []line) ([]instruction, error)
}

var architectures = map[elf.Machine]architecture{
	elf.EM_X86_64: {
		goName: "amd64",
		level:  "GOAMD64",
		lowest: "v1",

		largestPage: 4 << 10,

		start:    "_rt0_amd64_linux_lib",
		relative: uint32(elf.R_X86_64_RELATIVE),
		tls:      uint32(elf.R_X86_64_TPOFF64),
		symbolic: []uint32{uint32(elf.R_X86_64_64), uint32(elf.R_X86_64_GLOB_DAT), uint32(elf.R_X86_64_JMP_SLOT)},

		mistaken: []byte{0xC4, 0xC5, 0x62}, // AVX and AVX-512
		decode:   decodeAMD64,
	},
	elf.EM_AARCH64: {
		goName: "arm64",
		level:  "GOARM64",
		lowest: "v8.0",

		largestPage: 64 << 10,

		start:    "_rt0_arm64_linux_lib",
		relative: uint32(elf.R_AARCH64_RELATIVE),
		tls:      uint32(elf.R_AARCH64_TLS_TPREL64),
		symbolic: []uint32{uint32(elf.R_AARCH64_ABS64), uint32(elf.R_AARCH64_GLOB_DAT), uint32(elf.R_AARCH64_JUMP_SLOT)},

		decode: decodeARM64,
	},
}

// noRelocation is the type of a relocation that does nothing, on every architecture.
const noRelocation = 0
