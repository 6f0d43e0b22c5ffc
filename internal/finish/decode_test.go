package finish

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lead is an instruction at address 0x1000: its kind, and where a branch leads, or another
// refers to, 0 for nowhere.
type lead struct {
	bytes, text string // as the disassembler prints it
	kind        kind
	to          uint64
}

func requireLeads(t *testing.T, decode func([]line) ([]instruction, error), leads []lead) {
	t.Helper()
	for _, c := range leads {
		code, err := decode([]line{{0x1000, decodeHex(t, c.bytes), c.text}})
		require.NoError(t, err, c.text)
		want := instruction{kind: c.kind, target: c.to}
		if c.to != 0 && c.kind != branch {
			want.target, want.references = 0, []uint64{c.to}
		}
		require.Equal(t, want, instruction{kind: code[0].kind, doubt: code[0].doubt, target: code[0].target, references: code[0].references}, c.text)
	}
}

// TestAMD64: where an instruction leads, and what it refers to, counts from the one
// behind it.
func TestAMD64(t *testing.T) {
	requireLeads(t, decodeAMD64, []lead{
		{"e8b6000000", "callq 0x10bb", branch, 0x10bb}, {"e8fbffffff", "callq 0x1000", branch, 0x1000},
		{"e9fbffffff", "jmpq 0x1000", branch, 0x1000}, {"ebfe", "jmp 0x1000", branch, 0x1000}, {"7eff", "jle 0x1001", branch, 0x1001},
		{"0f8500010000", "jne 0x1106", branch, 0x1106}, {"e302", "jrcxz 0x1004", branch, 0x1004}, {"e2fc", "loop 0xffe", branch, 0xffe},
		{"66e8b6000000", "callw 0x10bc", indirect, 0}, {"ffd0", "callq *%rax", indirect, 0}, {"41ffe3", "jmpq *%r11", indirect, 0},
		{"ff2500000000", "jmpq *0x0(%rip)", indirect, 0}, {"c20800", "retq $0x8", indirect, 0}, {"cb", "lret", indirect, 0},
		{"c3", "retq", back, 0}, {"f3c3", "repz retq", back, 0},
		{"0f05", "syscall", trap, 0}, {"0f34", "sysenter", trap, 0}, {"cd80", "int $0x80", trap, 0}, {"cc", "int3", trap, 0},
		{"0f0b", "ud2a", trap, 0}, {"f4", "hlt", trap, 0},
		{"48ffc0", "inc %rax", plain, 0}, {"ff33", "pushq (%rbx)", plain, 0}, {"4889e5", "mov %rsp,%rbp", plain, 0},
		{"f30f1efa", "nop %edx", plain, 0}, {"f3480fbcc0", "tzcnt %rax,%rax", plain, 0},
		{"488d3d66d40a00", "lea 0xad466(%rip),%rdi", plain, 0x1007 + 0xad466},
		{"488d05d9ffffff", "lea 0xffffffd9(%rip),%rax", plain, 0x1007 - 0x27},
		{"488b05d9ffffff", "mov -0x27(%rip),%rax", plain, 0x1007 - 0x27}, {"488b4008", "mov 0x8(%rax),%rax", plain, 0},
		{"488d04c500000000", "lea 0x0(,%rax,8),%rax", plain, 0}, {"48c7c078560000", "mov $0x5678,%rax", plain, 0},
	})
}

// TestDoubtsAMD64: what cannot be told to be harmless is not.
func TestDoubtsAMD64(t *testing.T) {
	for _, c := range []struct{ bytes, text string }{
		{"90", "callq 0x1234"},                         // the text says more than the bytes
		{"e800000000", "nop"},                          // the bytes say more than the text
		{"48", "rex.W"},                                // nothing but a prefix
		{"e80000", "callq 0x1234"},                     // too short
		{"8b042500000000", "mov 0x0,%eax"},             // an absolute address
		{"8b04c500000000", "mov 0x0(,%rax,8),%eax"},    // a table at an absolute address
		{"488b05d9ffffff", "mov (%rip),%rax"},          // no number
		{"488b05d9ffffff", "mov 0x1ffffffff(%rip),%r"}, // too large a number
		{"fd", "std"},                                  // strings would run backwards in C
		{"9d", "popfq"},                                // the flags, from the stack
		{"65488b00", "mov %gs:(%rax),%rax"},            // another thread's memory, perhaps
		{"0f01d5", "?"},                                // not known to the disassembler
		{"660fae3f", "data16 clflush (%rdi)"},          // clflushopt
		{"660f3800c1", "pshufb %xmm1,%xmm0"}, {"f30fb8c0", "popcnt %eax,%eax"}, {"f30fbdc0", "lzcnt %eax,%eax"},
		{"f20f12c1", "movddup %xmm1,%xmm0"}, {"480fc70e", "cmpxchg16b (%rsi)"}, {"0fc7f0", "rdrand %eax"}, {"9e", "sahf"},
		{"f3480faee8", "incsspq %rax"}, {"0f01f9", "rdtscp"}, {"c7f800000000", "xbegin 0x1006"}, {"ec", "in (%dx),%al"},
		{"0f0110", "lgdt (%rax)"}, {"0f32", "rdmsr"}, {"0fae10", "ldmxcsr (%rax)"}, {"8ed8", "mov %eax,%ds"}, {"c9", "leaveq"},
		{"488d6424f8", "lea -0x8(%rsp),%rsp"}, {"4894", "xchg %rax,%rsp"}, {"4887e0", "xchg %rsp,%rax"},
	} {
		code, err := decodeAMD64([]line{{0x1000, decodeHex(t, c.bytes), c.text}})
		require.True(t, err != nil || code[0].kind == trap || code[0].doubt != "", c.text)
	}
}

func TestFlowARM64(t *testing.T) {
	requireLeads(t, decodeARM64, []lead{
		{"94000001", "bl", branch, 0x1004}, {"97fffe08", "bl back", branch, 0x820}, {"14000002", "b", branch, 0x1008},
		{"54000040", "b.eq", branch, 0x1008}, {"b4000040", "cbz", branch, 0x1008}, {"35ffffe0", "cbnz", branch, 0xffc},
		{"36000040", "tbz", branch, 0x1008}, {"b7ffffe3", "tbnz", branch, 0xffc},
		{"d63f0060", "blr x3", indirect, 0}, {"d61f0220", "br x17", indirect, 0}, {"d65f0060", "ret x3", indirect, 0},
		{"d65f03c0", "ret", back, 0},
		{"d4000001", "svc", trap, 0}, {"d4200000", "brk", trap, 0}, {"d53bd040", "mrs of the thread's pointer", trap, 0},
		{"00000000", "udf", trap, 0},
		{"d503201f", "nop", plain, 0}, {"f94017e0", "ldr", plain, 0}, {"d10023fd", "sub", plain, 0}, {"4e080c00", "dup", plain, 0},
	})
}

func TestReferencesARM64(t *testing.T) {
	for _, c := range []struct {
		first, second string
		reference     uint64 // 0: a doubt
	}{
		{"b0000001", "91000421", 0x2001}, // adrp x1; add x1, x1, #1
		{"b000001b", "f940077b", 0x2008}, // adrp x27; ldr x27, [x27, #8]
		{"b000001b", "3dc0077b", 0x2010}, // adrp x27; ldr q27, [x27, #16]
		{"b000001b", "b900077b", 0x2004}, // adrp x27; str w27, [x27, #4]
		{"10000041", "d503201f", 0x1008}, // adr
		{"58000041", "d503201f", 0x1008}, // ldr of a literal
		{"b0000001", "91000442", 0},      // completed from another register
		{"b0000001", "d503201f", 0},      // not completed
	} {
		code, err := decodeARM64([]line{{0x1000, decodeHex(t, c.first), ""}, {0x1004, decodeHex(t, c.second), ""}})
		require.NoError(t, err, c.first)
		if require.Equal(t, c.reference == 0, code[0].doubt != "", c.first); c.reference == 0 {
			continue
		}
		require.Equal(t, []uint64{c.reference}, code[0].references, c.first)
	}
	for _, alone := range []string{"b0000001", "f8610002", "c8a17c02", "9ac14c00", "4e284820", "91000c1f", "8b20601f"} { // adrp, ldadd, cas, crc32x, aese; mov and add to sp
		code, err := decodeARM64([]line{{0x1000, decodeHex(t, alone), ""}})
		require.NoError(t, err, alone)
		require.NotEmpty(t, code[0].doubt, alone)
	}
	_, err := decodeARM64([]line{{0x1000, decodeHex(t, "d503"), ""}})
	require.ErrorContains(t, err, "is not one of four bytes")
}

// TestStack: what instructions put onto the stack, and take from it.
func TestStack(t *testing.T) {
	for _, c := range []struct {
		decode      func([]line) ([]instruction, error)
		bytes, text string
		grows       int64
	}{
		{decodeAMD64, "4154", "push %r12", 8}, {decodeAMD64, "5d", "pop %rbp", -8},
		{decodeAMD64, "4883ec28", "sub $0x28,%rsp", 0x28}, {decodeAMD64, "4883c480", "add $-0x80,%rsp", 0x80},
		{decodeAMD64, "4881ec80010000", "sub $0x180,%rsp", 0x180},
		{decodeARM64, "f81b0ffe", "str x30, [sp,#-80]!", 80}, {decodeARM64, "f84507fe", "ldr x30, [sp],#80", -80},
		{decodeARM64, "a9be7bfd", "stp x29, x30, [sp,#-32]!", 32}, {decodeARM64, "6cc227e8", "ldp d8, d9, [sp],#32", -32},
		{decodeARM64, "d10103ff", "sub sp, sp, #0x40", 0x40}, {decodeARM64, "914007ff", "add sp, sp, #0x1000", -0x1000},
	} {
		code, err := c.decode([]line{{0x1000, decodeHex(t, c.bytes), c.text}})
		require.NoError(t, err, c.text)
		require.Empty(t, code[0].doubt, c.text)
		require.Equal(t, c.grows, code[0].stack, c.text)
	}
	// sub x20, sp, #0x140; stp x29, x30, [x20,#-8]; mov sp, x20
	code, err := decodeARM64([]line{{0x1000, decodeHex(t, "d10503f4"), ""}, {0x1004, decodeHex(t, "a93ffa9d"), ""}, {0x1008, decodeHex(t, "9100029f"), ""}})
	require.NoError(t, err)
	require.Equal(t, int64(0x140), code[2].stack)
	require.Empty(t, code[2].doubt)
}

func decodeHex(t *testing.T, text string) []byte {
	t.Helper()
	content, err := hex.DecodeString(text)
	require.NoError(t, err)
	return content
}

// TestReadListing: a name may hold anything, and whatever is not understood is an
// error.
func TestReadListing(t *testing.T) {
	listing := "TEXT funnel/x.f[go.shape.struct { A int \"// \" }](SB) f.go\n" +
		"  f.go:1\t0x99a60\t\t\te8b6000000\t\tCALL funnel/x.f[go.shape.struct { A int \" // \" }](SB) // callq 0x99b1b\t\n" +
		"  f.go:2\t0x99a65\t\t\tc3\t\t\tRET // retq\t\t\t\n" +
		"  f.go:2\t0x99a66\t\t\t00000000\t\t?\t\n\n"
	lines, err := readListing(listing)
	require.NoError(t, err)
	require.Equal(t, map[uint64]line{
		0x99a60: {0x99a60, []byte{0xe8, 0xb6, 0, 0, 0}, "callq 0x99b1b"},
		0x99a65: {0x99a65, []byte{0xc3}, "retq"},
		0x99a66: {0x99a66, []byte{0, 0, 0, 0}, "?"},
	}, lines)

	for _, garbage := range []string{
		"  f.go:1\t99a60\tc3\tRET // retq\n",
		"  f.go:1\t0xzz\tc3\tRET // retq\n",
		"  f.go:1\t0x1\tc\tRET // retq\n",
		"  f.go:1\t0x1\tc3\tRET\n",
	} {
		_, err := readListing(garbage)
		require.ErrorContains(t, err, "a line that cannot be read", garbage)
	}
}

func TestPackageOf(t *testing.T) {
	for name, want := range map[string]string{
		"funnel/gcra.Rate.Decide":                      "funnel/gcra",
		"funnel/module/answer.(*Call).fail":            "funnel/module/answer",
		"funnel/x.f[go.shape.struct { A funnel/y.B }]": "funnel/x",
		"funnel/x.(*T[funnel/y.B]).f":                  "funnel/x",
		"funnel/module/answer..stmp_0":                 "funnel/module/answer",
		"funnel/module/answer.parse.abi0":              "funnel/module/answer",
		"go_parse":                                     "",
	} {
		require.Equal(t, want, packageOf(name), name)
	}
}
