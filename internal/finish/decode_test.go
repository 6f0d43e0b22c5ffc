package finish

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lead is an instruction at address 0x1000: its kind, and where a branch leads, or another
// refers to, 0 for nowhere.
type lead struct {
	bytes, text string // as the disassembler prints it; bytes of further instructions stand behind a space
	kind        kind
	to          uint64
}

func decode(t *testing.T, decode func([]line) ([]instruction, error), c lead) instruction {
	t.Helper()
	var lines []line
	for n, text := range strings.Split(c.bytes, " ") {
		content, err := hex.DecodeString(text)
		require.NoError(t, err)
		lines = append(lines, line{0x1000 + 4*uint64(n), content, c.text})
	}
	code, err := decode(lines)
	require.NoError(t, err, c.text)
	return code[0]
}

func requireLeads(t *testing.T, decoder func([]line) ([]instruction, error), leads []lead) {
	t.Helper()
	for _, c := range leads {
		want := instruction{address: 0x1000, text: c.text, kind: c.kind}
		if c.kind == branch || c.kind == jump {
			want.target = c.to
		} else if c.to != 0 {
			want.references = []uint64{c.to}
		}
		require.Equal(t, want, decode(t, decoder, c))
	}
}

// TestAMD64: where an instruction leads, and what it refers to, which counts from the one
// behind it.
func TestAMD64(t *testing.T) {
	requireLeads(t, decodeAMD64, []lead{
		{"e8b6000000", "callq 0x10bb", branch, 0x10bb}, {"e8fbffffff", "call 0x1000", branch, 0x1000},
		{"e9fbffffff", "jmpq 0x1000", jump, 0x1000}, {"ebfe", "jmp 0x1000", jump, 0x1000},
		{"0f8500010000", "jne 0x1106", branch, 0x1106}, {"e2fc", "loop 0xffe", branch, 0xffe},
		{"ffd0", "callq *%rax", indirect, 0}, {"ffe0", "jmp *%rax", indirect, 0},
		{"ff2500000000", "jmpq *0x0(%rip)", indirect, 0}, {"3effe0", "notrack jmp *%rax", indirect, 0},
		{"c3", "retq", back, 0}, {"f3c3", "repz retq", back, 0}, {"c20800", "retq $0x8", trap, 0}, {"cb", "lret", trap, 0},
		{"0f05", "syscall", trap, 0}, {"0f34", "sysenter", trap, 0}, {"cd80", "int $0x80", trap, 0}, {"cc", "int3", trap, 0},
		{"f1", "icebp", trap, 0}, {"0f0b", "ud2a", trap, 0}, {"f4", "hlt", trap, 0},
		// With prefixes, which nothing but data has.
		{"f2e8b6000000", "bnd callq 0x10bc", trap, 0}, {"48ebd0", "rex.W jmp 0xfd3", trap, 0},
		{"48ffc0", "inc %rax", plain, 0}, {"ff33", "pushq (%rbx)", plain, 0}, {"f30f1efa", "endbr64", plain, 0},
		{"488d3d66d40a00", "lea 0xad466(%rip),%rdi", plain, 0x1007 + 0xad466},
		{"488d05d9ffffff", "lea 0xffffffd9(%rip),%rax", plain, 0x1007 - 0x27},
		{"488b05d9ffffff", "mov -0x27(%rip),%rax", plain, 0x1007 - 0x27}, {"488b4008", "mov 0x8(%rax),%rax", plain, 0},
		{"488d04c500000000", "lea 0x0(,%rax,8),%rax", plain, 0}, {"48c7c078560000", "mov $0x5678,%rax", plain, 0},
	})
	for _, text := range []string{"mov 0x0,%eax", "mov 0x0(,%rax,8),%eax", "mov %fs:0xfffffffffffffff8,%rcx"} {
		require.NotEmpty(t, decode(t, decodeAMD64, lead{text: text}).problem, text)
	}
	for _, text := range []string{"mov (%rip),%rax", "mov 0x1ffffffff(%rip),%rax"} {
		_, err := decodeAMD64([]line{{0x1000, nil, text}})
		require.ErrorContains(t, err, "refers to something that cannot be read", text)
	}
}

func TestARM64(t *testing.T) {
	requireLeads(t, decodeARM64, []lead{
		{"94000001", "bl", branch, 0x1004}, {"97fffe08", "bl back", branch, 0x820}, {"14000002", "b", jump, 0x1008},
		{"54000040", "b.eq", branch, 0x1008}, {"b4000040", "cbz", branch, 0x1008}, {"35ffffe0", "cbnz", branch, 0xffc},
		{"36000040", "tbz", branch, 0x1008}, {"b7ffffe3", "tbnz", branch, 0xffc},
		{"d63f0060", "blr x3", indirect, 0}, {"d61f0220", "br x17", indirect, 0}, {"d65f0060", "ret x3", indirect, 0},
		{"d65f03c0", "ret", back, 0},
		{"d4000001", "svc", trap, 0}, {"d4200000", "brk", trap, 0}, {"d53bd040", "mrs of the thread's pointer", trap, 0},
		{"d503201f", "nop", plain, 0}, {"f94017e0", "ldr", plain, 0}, {"4e080c00", "dup", plain, 0},
		{"10000041", "adr", plain, 0x1008}, {"58000041", "ldr of a literal", plain, 0x1008},
		{"b0000001 91000421", "adrp x1; add x1, x1, #1", plain, 0x2001},
		{"b000001b f940077b", "adrp x27; ldr x27, [x27, #8]", plain, 0x2008},
		{"b000001b 3dc0077b", "adrp x27; ldr q27, [x27, #16]", plain, 0x2010},
		{"b000001b b900077b", "adrp x27; str w27, [x27, #4]", plain, 0x2004},
	})
	for _, c := range []lead{
		{bytes: "b0000001", text: "adrp alone"},
		{bytes: "b0000001 91000442", text: "completed from another register"},
		{bytes: "b0000001 d503201f 91000421", text: "completed later"},
	} {
		require.NotEmpty(t, decode(t, decodeARM64, c).problem, c.text)
	}
}

// TestReadListing: a name may hold anything, and whatever is not understood is an error.
func TestReadListing(t *testing.T) {
	listing := "TEXT funnel/x.f[go.shape.struct { A int \"// \" }](SB) f.go\n" +
		"  f.go:1\t0x99a60\t\t\te8b6000000\t\tCALL funnel/x.f[go.shape.struct { A int \" // \" }](SB) // callq 0x99b1b\t\n" +
		"  f.go:2\t0x99a65\t\t\t00000000\t\t?\t\n\n"
	lines, err := readListing(listing)
	require.NoError(t, err)
	require.Equal(t, map[uint64]line{
		0x99a60: {0x99a60, []byte{0xe8, 0xb6, 0, 0, 0}, "callq 0x99b1b"}, 0x99a65: {0x99a65, make([]byte, 4), "?"},
	}, lines)
	for _, garbage := range []string{"9\tc3\tRET // retq", "0xz\tc3\tRET // retq", "0x1\tc\tRET // retq", "0x1\tc3\tRET"} {
		_, err := readListing("  f.go:1\t" + garbage + "\n")
		require.ErrorContains(t, err, "a line that cannot be read", garbage)
	}
}
