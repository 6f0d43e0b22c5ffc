// Each kind of instruction is read as what it is, and what is not understood is an error.

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
	code string
	kind kind
	to   uint64
}

func requireLeads(t *testing.T, decode func(code string) instruction, leads []lead) {
	for _, c := range leads {
		got := decode(c.code)
		want := instruction{address: 0x1000, text: got.text, kind: c.kind}
		if c.kind == branch || c.kind == jump {
			want.target = c.to
		} else if c.to != 0 {
			want.references = []uint64{c.to}
		}
		require.Equal(t, want, got, c.code)
	}
}

// TestAMD64: addresses relative to the instruction count from the one behind it.
func TestAMD64(t *testing.T) {
	decode := func(text string) instruction {
		code, err := decodeAMD64([]line{{0x1000, make([]byte, 7), text}})
		require.NoError(t, err, text)
		return code[0]
	}
	requireLeads(t, decode, []lead{
		{"callq 0x10bb", branch, 0x10bb}, {"call 0x1000", branch, 0x1000}, {"loop 0xffe", branch, 0xffe},
		{"jmpq 0x1000", jump, 0x1000}, {"jmp 0x1000", jump, 0x1000}, {"jmpq *0x0(%rip)", indirect, 0},
		{"notrack jmp *%rax", indirect, 0}, {"retq", back, 0}, {"repz retq", back, 0},
		{"retq $0x8", trap, 0}, {"lret", trap, 0}, {"syscall", trap, 0}, {"sysenter", trap, 0}, {"int $0x80", trap, 0},
		{"int3", trap, 0}, {"icebp", trap, 0}, {"ud2a", trap, 0}, {"hlt", trap, 0},
		// With prefixes, which nothing but data has.
		{"bnd callq 0x10bc", trap, 0}, {"rex.W jmp 0xfd3", trap, 0},
		{"inc %rax", plain, 0}, {"pushq (%rbx)", plain, 0}, {"endbr64", plain, 0}, {"mov 0x8(%rax),%rax", plain, 0},
		{"lea 0xad466(%rip),%rdi", plain, 0x1007 + 0xad466}, {"lea 0xffffffd9(%rip),%rax", plain, 0x1007 - 0x27},
		{"mov -0x27(%rip),%rax", plain, 0x1007 - 0x27}, {"lea 0x0(,%rax,8),%rax", plain, 0}, {"mov $0x5678,%rax", plain, 0},
	})
	for _, text := range []string{"mov 0x0,%eax", "mov 0x0(,%rax,8),%eax", "mov %fs:0xfffffffffffffff8,%rcx"} {
		require.NotEmpty(t, decode(text).problem, text)
	}
	for _, text := range []string{"mov (%rip),%rax", "mov 0x1ffffffff(%rip),%rax"} {
		_, err := decodeAMD64([]line{{0x1000, nil, text}})
		require.ErrorContains(t, err, "refers to something that cannot be read", text)
	}
}

func TestARM64(t *testing.T) {
	decode := func(words string) instruction {
		var lines []line
		for word := range strings.FieldsSeq(words) {
			content, err := hex.DecodeString(word)
			require.NoError(t, err)
			lines = append(lines, line{0x1000 + 4*uint64(len(lines)), content, ""})
		}
		code, err := decodeARM64(lines)
		require.NoError(t, err)
		return code[0]
	}
	requireLeads(t, decode, []lead{
		{"94000001", branch, 0x1004}, {"97fffe08", branch, 0x820}, {"14000002", jump, 0x1008}, // bl, bl back, b
		{"54000040", branch, 0x1008}, {"b4000040", branch, 0x1008}, {"35ffffe0", branch, 0xffc}, // b.eq, cbz, cbnz
		{"36000040", branch, 0x1008}, {"b7ffffe3", branch, 0xffc}, // tbz, tbnz
		{"d63f0060", indirect, 0}, {"d61f0220", indirect, 0}, {"d65f0060", indirect, 0}, // blr x3, br x17, ret x3
		{"d65f03c0", back, 0},                                               // ret
		{"d4000001", trap, 0}, {"d4200000", trap, 0}, {"d53bd040", trap, 0}, // svc, brk, mrs of the thread's pointer
		{"d503201f", plain, 0}, {"f94017e0", plain, 0}, {"4e080c00", plain, 0}, // nop, ldr, dup
		{"10000041", plain, 0x1008}, {"58000041", plain, 0x1008}, // adr, ldr of a literal
		{"b0000001 91000421", plain, 0x2001}, // adrp x1; add x1, x1, #1
		{"b000001b f940077b", plain, 0x2008}, // adrp x27; ldr x27, [x27, #8]
		{"b000001b 3dc0077b", plain, 0x2010}, // adrp x27; ldr q27, [x27, #16]
		{"b000001b b900077b", plain, 0x2004}, // adrp x27; str w27, [x27, #4]
	})
	// adrp that nothing completes, that another register's addition follows, that is completed later
	for _, words := range []string{"b0000001", "b0000001 91000442", "b0000001 d503201f 91000421"} {
		require.NotEmpty(t, decode(words).problem, words)
	}
}

// TestReadListing: whatever is not understood is an error. TestBreaches has a name that holds anything.
func TestReadListing(t *testing.T) {
	for _, garbage := range []string{"9\tc3\tRET // retq", "0xz\tc3\tRET // retq", "0x1\tc\tRET // retq", "0x1\tc3\tRET"} {
		_, err := readListing("  f.go:1\t" + garbage + "\n")
		require.ErrorContains(t, err, "a line that cannot be read", garbage)
	}
}
