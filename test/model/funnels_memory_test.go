package model_test

import (
	"strings"
	"testing"

	"funnel/internal/servertest"
)

// TestNoCallOfSeveralFunnelsKeepsMemory, whatever becomes of it.
func TestNoCallOfSeveralFunnelsKeepsMemory(t *testing.T) {
	const fast, slow = " 1000000000 1 0.000000001 1 ", " 2 1 1000000 1 "
	cases := map[string][][]string{}
	for name, lines := range map[string][]string{
		"allowed":            {"cl.reserve a" + fast + "b" + fast + "c" + fast},
		"allowed later":      {"cl.reserve a 1 1 0.000000001 1 9"},
		"limited":            {"cl.reserve d" + slow + "e" + slow + "a" + fast},
		"peeked":             {"cl.peek a" + fast + "d" + slow + "absent" + fast},
		"charged":            {"cl.charge a" + fast + "b" + fast},
		"given back":         {"cl.charge f" + slow + "g" + slow, "cl.refund f" + slow + "g" + slow},
		"nothing to give":    {"cl.refund h" + slow + "i" + slow},
		"number of words":    {"cl.reserve a" + fast + "b c"},
		"wrong argument":     {"cl.charge a" + fast + "b 1 x 1 1"},
		"named twice":        {"cl.charge a" + fast + "b" + fast + "a" + fast},
		"another type":       {"cl.charge a" + fast + "list" + fast + "b" + fast},
		"no funnel":          {"cl.peek a" + fast + "text" + fast + "b" + fast},
		"too large together": {"cl.charge a" + fast + "b 1 1 9223372036 1"},
	} {
		for _, line := range lines {
			cases[name] = append(cases[name], strings.Fields(line))
		}
	}
	requireNoMemoryKept(t, 1_000, servertest.QuickOrLong(5_000, 500_000), cases)
}
