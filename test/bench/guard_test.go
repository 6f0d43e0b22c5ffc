// The guard fails when calls become more expensive, and says what is missing.

package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counted are counts that pass, or others of what begins with a name, in proportion.
func counted(name string, proportion float64) map[string]Count {
	counts := map[string]Count{
		"set": {10000, 0}, "noop": {5000, 0}, "floor/allowed": {13000, 0}, "floor/limited": {8500, 0},
	}
	for id, share := range map[string]float64{"throttle": 1, "reserve": 1.1, "take": 1.1, "quota": 1.1, "reserve3": 2.7} {
		counts[id+"/allowed"], counts[id+"/limited"] = Count{14000 * share, 0}, Count{9000 * share, 0}
	}
	for id, count := range counts {
		if strings.HasPrefix(id, name) {
			counts[id] = Count{count.PerCall * proportion, 0}
		}
	}
	return counts
}

func TestGuardFailsWhenCallsBecomeMoreExpensive(t *testing.T) {
	committed, err := parseCommitted(committedText+committedLines("server 1.0", counted("", 1)), "server 1.0")
	require.NoError(t, err)
	for _, c := range []struct {
		name       string
		proportion float64
		failed     string
	}{
		{"throttle", 1.028, ""},
		{"throttle/allowed", 1.04, "throttle/allowed set"},
		{"throttle/limited", 1.04, "throttle/limited noop"},
		{"floor", 0.90, "throttle/allowed floor/allowed, throttle/limited floor/limited"},
		{"reserve/", 1.2, "reserve/allowed throttle/allowed, reserve/limited throttle/limited"},
		{"take", 1.12, "take/allowed throttle/allowed, take/limited throttle/limited"},
		{"quota/limited", 1.06, "quota/limited reserve/limited"},
		{"reserve3", 1.1, "reserve3/allowed throttle/allowed, reserve3/limited throttle/limited"},
	} {
		verdicts, err := judge(committed, counted(c.name, c.proportion))
		require.NoError(t, err, c.name)
		var failed []string
		for _, v := range verdicts {
			if v.failed() {
				failed = append(failed, v.id+" "+v.yardstick)
			}
		}
		require.Equal(t, c.failed, strings.Join(failed, ", "), "%s times %v", c.name, c.proportion)
	}
}

func TestGuardNamesWhatIsMissing(t *testing.T) {
	verdicts, err := judge(nil, counted("", 1))
	require.NoError(t, err)
	require.Len(t, verdicts, 8, "of an unknown server the floor, and others beside CL.THROTTLE")
	_, err = judge(map[string]float64{"set": 1}, counted("", 1))
	require.ErrorContains(t, err, "throttle/allowed")
	for _, words := range []string{"set", "set many", "set -1", "set 1 2"} {
		_, err := parseCommitted("\nredis 7.0.15 "+words, "")
		require.ErrorContains(t, err, "line 2", words)
	}
}
