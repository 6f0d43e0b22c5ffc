package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var exampleReport = Report{
	Environment:  Environment{Server: "redis 7.0.15", Module: "funnel <1>"},
	Instructions: append(counted(10000, 5000, 14000, 9000), InstructionCount{Name: "get", Title: "GET", PerCall: 3000}),
	Memory:       []Memory{{Name: "set", Title: "SET PX", First: 72, Busy: 72, Whole: 133}},
	Throughput:   []WallClock{{Name: "set", Title: "SET PX", ThroughputRatio: Spread{1, 1, 1}}},
	Latency:      []WallClock{{Name: "set", Title: "SET PX"}},
	Tail:         &Tail{Rate: 2000},
	Footprint:    &Footprint{},
	Scale:        []Scale{{Keys: 1_000_000, Clients: 10}},
}

func TestTablesAreRectangular(t *testing.T) {
	tables := exampleReport.Tables()
	require.Len(t, tables, 8)
	for _, table := range tables {
		for _, row := range table.Rows {
			require.Len(t, row, len(table.Columns), table.Name)
		}
		require.Contains(t, table.Text(), table.Title)
		require.Contains(t, table.Markdown(), "| --- |")
	}
	require.Len(t, Report{}.Tables(), 1, "nothing measured: the environment only")
}

func TestSpliceReplacesWhatStandsBetweenTheMarkers(t *testing.T) {
	table := Table{Name: "memory", Columns: []string{"a", "b"}, Rows: [][]string{{"1", "2"}}}
	document := "before\n<!-- funnel-bench: memory -->\nold\n<!-- end of funnel-bench: memory -->\nafter\n"
	want := "before\n<!-- funnel-bench: memory -->\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n\n<!-- end of funnel-bench: memory -->\nafter\n"
	for range 2 { // what was put in is replaced the next time
		var placed []string
		document, placed = Splice(document, []Table{table})
		require.Equal(t, want, document)
		require.Equal(t, []string{"memory"}, placed)
	}
	_, placed := Splice("no marker", []Table{table})
	require.Empty(t, placed)
}

func TestChartsAreWellFormed(t *testing.T) {
	charts := exampleReport.Charts()
	require.Len(t, charts, 3)
	for _, chart := range charts {
		svg := chart.SVG()
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, chart.Name)
		}
		require.NotContains(t, svg, "NaN")
		require.Contains(t, svg, "prefers-color-scheme: dark")
	}
}

func TestQuantiles(t *testing.T) {
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 1.5, median([]float64{2, 1}))
	require.True(t, math.IsNaN(median(nil)))
	require.Equal(t, Spread{3, 2, 4}, spreadOf([]float64{5, 4, 3, 2, 1}))
}

func TestThousands(t *testing.T) {
	for number, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 13630.4: "13,630", 1e6: "1,000,000"} {
		require.Equal(t, want, thousands(number))
	}
}
