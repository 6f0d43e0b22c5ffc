package bench

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const committedExample = `
# a comment
redis 7.0.15 set 10000
redis 7.0.15 noop 5000
redis 7.0.15 throttle/allowed 14000
redis 7.0.15 throttle/limited 9000
valkey 9.1.2 set 1
`

func counted(set, noop, allowed, limited float64) map[string]Count {
	return map[string]Count{
		"set": {set, 0}, "noop": {noop, 0}, "floor/allowed": {13000, 0}, "floor/limited": {8500, 0},
		"throttle/allowed": {allowed, 0}, "throttle/limited": {limited, 0},
		"reserve/allowed": {1.1 * allowed, 0}, "reserve/limited": {1.1 * limited, 0},
		"take/allowed": {1.1 * allowed, 0}, "take/limited": {1.1 * limited, 0},
		"throttle3/allowed": {3 * allowed, 0}, "throttle3/limited": {3 * limited, 0},
		"reserve3/allowed": {2.7 * allowed, 0}, "reserve3/limited": {2.7 * limited, 0},
	}
}

func TestGuardFailsWhenCallsBecomeMoreExpensive(t *testing.T) {
	committed, err := parseCommitted(committedExample, "redis 7.0.15")
	require.NoError(t, err)
	for _, c := range []struct {
		name   string
		counts map[string]Count
		failed []bool
	}{
		{"the same", counted(10000, 5000, 14000, 9000), []bool{false, false, false, false}},
		{"within 3%", counted(10000, 5000, 14400, 9250), []bool{false, false, false, false}},
		{"allowed calls 4% more expensive", counted(10000, 5000, 14560, 9000), []bool{true, false, false, false}},
		{"limited calls 4% more expensive", counted(10000, 5000, 14000, 9360), []bool{false, true, false, false}},
		{"above the floor", counted(11000, 6000, 14700, 9800), []bool{false, false, true, true}},
		{"less expensive", counted(10000, 5000, 12000, 8000), []bool{false, false, false, false}},
	} {
		verdicts, err := judge(committed, c.counts)
		require.NoError(t, err, c.name)
		var failed []bool
		for _, v := range verdicts {
			failed = append(failed, v.failed())
		}
		require.Equal(t, append(c.failed, make([]bool, 6)...), failed, c.name)
	}

	expensive := counted(10000, 5000, 14000, 9000)
	for id := range expensive {
		if strings.HasPrefix(id, "reserve") {
			expensive[id] = Count{2 * expensive[id].PerCall, 0}
		}
	}
	verdicts, err := judge(committed, expensive)
	require.NoError(t, err)
	for _, v := range verdicts {
		require.Equal(t, strings.HasPrefix(v.id, "reserve"), v.failed(), v.id)
	}
}

func TestGuardNamesWhatIsMissing(t *testing.T) {
	verdicts, err := judge(nil, counted(1, 1, 13000, 8500))
	require.NoError(t, err)
	require.Len(t, verdicts, 8, "of an unknown server the floor, and others beside CL.THROTTLE")
	committed, err := parseCommitted(committedExample, "valkey 9.1.2")
	require.NoError(t, err)
	_, err = judge(committed, counted(1, 1, 1, 1))
	require.ErrorContains(t, err, "throttle/allowed")

	for _, line := range []string{"redis 7.0.15 set", "redis 7.0.15 set many", "redis 7.0.15 set -1", "redis 7.0.15 set 1 2"} {
		_, err := parseCommitted("\n"+line, "")
		require.ErrorContains(t, err, "line 2", line)
	}
}

func TestGuardReadsWhatItPrintsAndWhatIsCommitted(t *testing.T) {
	counts := counted(4, 3, 20, 10)
	committed, err := parseCommitted(committedLines("valkey 9.0.0", counts), "valkey 9.0.0")
	require.NoError(t, err)
	require.Len(t, committed, len(counts))
	for id, count := range counts {
		require.Equal(t, count.PerCall, committed[id], id)
	}
	_, err = parseCommitted(committedText, "redis 7.0.15")
	require.NoError(t, err)
}

func TestUpdateReplacesWhatStandsBetweenTheMarkers(t *testing.T) {
	table := Table{Name: "memory", Columns: []string{"a", "b"}, Note: "note"}
	table.set("1", 1, "old")
	table.set("1", 1, "2")
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n<!-- funnel-bench: memory -->\nold\n<!-- end of funnel-bench: memory -->\nafter\n"), 0o600))
	want := "before\n<!-- funnel-bench: memory -->\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n\nnote\n\n<!-- end of funnel-bench: memory -->\nafter\n"
	require.NoError(t, Update(path, []Table{table}))
	require.NoError(t, Update(path, []Table{table}), "what was put in is replaced the next time")
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	require.ErrorContains(t, Update(path, []Table{{Name: "other"}}), "has no place")
}

func TestChartIsSortedAndWellFormed(t *testing.T) {
	chart := Chart{Title: "Bytes <per> key", Note: "note"}
	for name, value := range map[string]float64{"window": 1_234_168, "throttle": 104, "peer": 90, "set": 72} {
		chart.add(Case{Alternative: Alternative{Name: name, Title: name + " & co"}}, value, thousands(value))
	}
	folder := t.TempDir()
	require.NoError(t, Draw(folder, []Table{{Name: "none"}, {Name: "memory", Chart: chart}}))
	content, err := os.ReadFile(filepath.Join(folder, "memory.svg"))
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(content, new(struct{})))
	require.Regexp(t, `(?s)set &amp; co</text>.*peer &amp; co</text>.*throttle &amp; co</text><rect class="ours" width="330.0".*note; left out: window &amp; co, 1,234,168`, string(content))
}

func TestCSVOfRedisBenchmarkIsRead(t *testing.T) {
	const names = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n"
	got, err := readCSV(names + `"SET a, b","194552.53","0.627","0.080","0.439","1.503","4.351","83.199"` + "\n")
	require.NoError(t, err)
	require.Equal(t, round{rate: 194552.53, p50: 439, p99: 4351}, got)
	for _, broken := range []string{"", names, names + `"SET","0","0","0","0","0","0","0"` + "\n"} {
		_, err := readCSV(broken)
		require.ErrorContains(t, err, "has printed")
	}
}
