package finish

import "debug/elf"

// An architecture is what differs between processors.
type architecture struct {
	goName string // GOARCH

	// The setting of the Go command that says which processors the code is for, and
	// its value for all of them. The runtime would check when it starts.
	level, lowest string

	largestPage uint64 // of memory, that a kernel may have

	// start is the function that starts the Go runtime when a library is loaded, and
	// a slot of .init_array holds.
	start string

	relative uint32   // the relocation that puts an address of the library somewhere
	tls      uint32   // the one that puts the place of a thread-local variable there
	symbolic []uint32 // those that put the address of an imported name there

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
		decode:   decodeARM64,
	},
}

// noRelocation is the type of a relocation that does nothing, on each of them.
const noRelocation = 0
