package bench

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const committedText = `
# a comment
redis 7.0.15 set 10000
redis 7.0.15 noop 5000
redis 7.0.15 throttle/allowed 14000
redis 7.0.15 throttle/limited 9000
`

func counted(set, noop, allowed, limited float64) []InstructionCount {
	return []InstructionCount{
		{Name: "set", PerCall: set}, {Name: "noop", PerCall: noop},
		{Name: "throttle", Case: "allowed", PerCall: allowed}, {Name: "throttle", Case: "limited", PerCall: limited},
	}
}

func TestGuardFailsWhenCallsBecomeDearer(t *testing.T) {
	committed, err := ParseCommitted(committedText)
	require.NoError(t, err)
	for _, c := range []struct {
		name             string
		counts           []InstructionCount
		allowed, limited bool // failed
	}{
		{"the same", counted(10000, 5000, 14000, 9000), false, false},
		{"within 3%", counted(10000, 5000, 14400, 9250), false, false},
		{"allowed calls 4% dearer", counted(10000, 5000, 14560, 9000), true, false},
		{"limited calls 4% dearer", counted(10000, 5000, 14000, 9360), false, true},
		{"cheaper", counted(10000, 5000, 12000, 8000), false, false},
		{"all of a server that was compiled otherwise 10% dearer", counted(11000, 5500, 15400, 9900), false, false},
	} {
		verdicts, err := committed.Judge("redis 7.0.15", c.counts)
		require.NoError(t, err, c.name)
		require.Len(t, verdicts, 2, c.name)
		require.Equal(t, c.allowed, verdicts[0].Failed(), c.name)
		require.Equal(t, c.limited, verdicts[1].Failed(), c.name)
	}
}

func TestGuardDoesNotJudgeUnknownServers(t *testing.T) {
	committed, err := ParseCommitted(committedText)
	require.NoError(t, err)
	verdicts, err := committed.Judge("redis 8.0.0", counted(1, 1, 1, 1))
	require.NoError(t, err)
	require.Empty(t, verdicts)
}

func TestGuardNamesWhatIsMissing(t *testing.T) {
	committed, err := ParseCommitted("redis 7.0.15 set 10000\n")
	require.NoError(t, err)
	_, err = committed.Judge("redis 7.0.15", counted(1, 1, 1, 1))
	require.ErrorContains(t, err, "throttle/allowed")

	for _, line := range []string{"redis 7.0.15 set", "redis 7.0.15 set many", "redis 7.0.15 set -1", "redis 7.0.15 set 1 2"} {
		_, err := ParseCommitted("\n" + line)
		require.ErrorContains(t, err, "line 2", line)
	}
}

func TestGuardReadsWhatItPrints(t *testing.T) {
	committed, err := ParseCommitted(Lines("valkey 9.0.0", counted(4, 3, 2, 1)))
	require.NoError(t, err)
	require.Equal(t, Committed{"valkey 9.0.0": {"set": 4, "noop": 3, "throttle/allowed": 2, "throttle/limited": 1}}, committed)
}

func TestCommittedCountsCanBeRead(t *testing.T) {
	text, err := os.ReadFile("instructions.txt")
	require.NoError(t, err)
	_, err = ParseCommitted(string(text))
	require.NoError(t, err)
}
