// Figures are put into pages and charts as they were measured.

package bench

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUpdateReplacesWhatStandsBetweenTheMarkers(t *testing.T) {
	table := Table{Name: "memory", Columns: []string{"a", "b"}, Note: "note"}
	table.set("1", 1, "old")
	table.set("1", 1, "2")
	path := filepath.Join(t.TempDir(), "page.md")
	const begin, end = "before\n<!-- funnel-bench: memory -->\n", "<!-- end of funnel-bench: memory -->\nafter\n"
	require.NoError(t, os.WriteFile(path, []byte(begin+"old\n"+end), 0o600))
	require.NoError(t, Update(path, []Table{table}))
	require.NoError(t, Update(path, []Table{table}), "what was put in is replaced the next time")
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, begin+"\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n\nnote\n\n"+end, string(got))
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
	require.Regexp(t, `(?s)set &amp; co</text>.*peer &amp; co</text>.*throttle &amp; co</text>`+
		`<rect class="ours" width="330.0".*note; left out: window &amp; co, 1,234,168`, string(content))
}
