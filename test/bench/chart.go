package bench

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
)

// A Chart is a drawing of horizontal bars, for documents. Its colours follow the
// reader's choice of light or dark, which those of plotting libraries for Go cannot,
// and its numbers stand beside the bars, so that nobody has to tell colours apart.
type Chart struct {
	Title, Note string
	Bars        []Bar
	Height      int
}

// A Bar is one row of a chart. Class is "ours" to set it off from the others.
type Bar struct {
	Title, Label, Class string
	Value               float64
	Width               string
	Top                 int
}

// add adds the bar of a case. Of calls that are limited, only those of modules have
// one; peeks and the floor, which nobody can choose, have none.
func (c *Chart) add(of Case, value float64, label string) {
	module := of.Name == "throttle" || of.Name == "peer"
	if of.Name == "floor" || of.Case == "peek" || of.Case == "limited" && !module {
		return
	}
	bar := Bar{Title: of.Title, Label: label, Class: "bar", Value: value}
	if of.Case == "limited" {
		bar.Title += ", limited"
	}
	if of.Name == "throttle" {
		bar.Class = "ours"
	}
	c.Bars = append(c.Bars, bar)
}

// tooLong is how many times longer than the next a bar may be.
const tooLong = 5

//go:embed chart.svg
var chartSource string

var chartTemplate = template.Must(template.New("chart").Parse(chartSource))

// Draw draws the charts of tables into a folder, the shortest bar first. A bar that
// would make the others too short to be compared is left out, and named in the note.
func Draw(folder string, tables []Table) error {
	for _, table := range tables {
		c := table.Chart
		slices.SortStableFunc(c.Bars, func(a, b Bar) int { return cmp.Compare(a.Value, b.Value) })
		last := len(c.Bars) - 1
		for ; last > 0 && c.Bars[last].Value > tooLong*c.Bars[last-1].Value; last-- {
			c.Note += fmt.Sprintf("; left out: %s, %s", c.Bars[last].Title, c.Bars[last].Label)
		}
		c.Bars, c.Height = c.Bars[:last+1], 82+26*(last+1)
		for row := range c.Bars {
			c.Bars[row].Top = 51 + 26*row
			c.Bars[row].Width = fmt.Sprintf("%.1f", c.Bars[row].Value/c.Bars[last].Value*330)
		}
		var svg bytes.Buffer
		err := chartTemplate.Execute(&svg, c)
		if err == nil && last >= 0 {
			err = os.WriteFile(filepath.Join(folder, table.Name+".svg"), svg.Bytes(), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
