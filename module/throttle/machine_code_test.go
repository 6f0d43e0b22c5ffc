package throttle_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestTheAnswerNeedsNoGoRuntime reads the machine code of funnel.so: whatever can be
// reached from the way in for C is part of this project, and calls no one else. Then nothing in it can panic, allocate, grow the stack or be preempted, for
// all of these are calls into the runtime, which the compiler leaves out where it
// has proved that they are not needed.
func TestTheAnswerNeedsNoGoRuntime(t *testing.T) {
	reached, foreign := follow(disassemble(t), "entry")
	require.Empty(t, foreign)
	for _, function := range []string{
		"funnel/module/throttle.answer",
		"funnel/module/throttle.parseSeconds",
		"funnel/module/throttle.(*Call).refuseTogether",
		"funnel/gcra.Rate.Decide",
	} {
		require.Contains(t, reached, function)
	}
}

// TestFollowSeesTheGoRuntime, where it is: on the ordinary way in.
func TestFollowSeesTheGoRuntime(t *testing.T) {
	_, foreign := follow(disassemble(t), "_cgoexp_[0-9a-f]+_funnelStart")
	text := strings.Join(foreign, "\n")
	require.Contains(t, text, "runtime.morestack")
	require.Contains(t, text, "funnel/module.funnelStart calls runtime.GOMAXPROCS")
}

// disassemble lists the machine code of funnel.so that stems from this project,
// and the ways into it.
func disassemble(t *testing.T) string {
	listing, err := exec.Command("go", "tool", "objdump",
		"-s", `^(funnel/|entry$|_cgoexp_)`, servertest.Module(t)).Output()
	require.NoError(t, err)
	return string(listing)
}

var (
	heading = regexp.MustCompile(`^TEXT (\S+?)\(SB\)`)
	// A call or a jump, conditional or not, on amd64 and arm64; and where it leads.
	branch = regexp.MustCompile(`\t(?:CALL|J[A-Z]+|B|BL|BR|BLR|B(?:EQ|NE|CS|CC|HS|LO|MI|PL|VS|VC|HI|LS|GE|LT|GT|LE)|CBN?ZW?|TBN?Z)\s+(?:\S+, )*(\S+)\s*$`)
	named  = regexp.MustCompile(`^(\S+?)(?:\+\d+)?\(SB\)$`)
	within = regexp.MustCompile(`^(?:0x[0-9a-f]+|-?\d+\(PC\))$`) // the same function
)

// follow walks through a listing from the function that matches a pattern. Calls
// that leave this project are foreign, and not followed.
func follow(listing, from string) (reached map[string]bool, foreign []string) {
	calls := map[string][]string{}
	first, current := "", ""
	for line := range strings.Lines(listing) {
		if match := heading.FindStringSubmatch(line); match != nil {
			current = match[1]
			if regexp.MustCompile("^" + from + "$").MatchString(current) {
				first = current
			}
		} else if match := branch.FindStringSubmatch(strings.TrimRight(line, "\n")); match != nil {
			target := match[1] // or else a register, which could lead anywhere
			if name := named.FindStringSubmatch(target); name != nil {
				target = name[1]
			}
			if !within.MatchString(target) {
				calls[current] = append(calls[current], target)
			}
		}
	}

	reached = map[string]bool{}
	waiting := []string{first}
	for len(waiting) > 0 {
		function := waiting[0]
		waiting = waiting[1:]
		if reached[function] {
			continue
		}
		reached[function] = true
		for _, callee := range calls[function] {
			if strings.HasPrefix(callee, "funnel/") {
				waiting = append(waiting, callee)
			} else {
				foreign = append(foreign, fmt.Sprintf("%s calls %s", function, callee))
			}
		}
	}
	return reached, foreign
}
