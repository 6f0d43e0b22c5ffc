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
	"strings"
)

// A Table holds measurements, in rows and columns.
type Table struct {
	Name    string // marks the place of the table in documents
	Title   string
	Note    string // how the figures were measured
	Columns []string
	Rows    [][]string
	Chart   Chart // of one column; it may have no bars
}

// set fills a cell of a row, which is appended if it is new.
func (t *Table) set(row string, column int, text string) {
	for _, cells := range t.Rows {
		if cells[0] == row {
			cells[column] = text
			return
		}
	}
	cells := make([]string, len(t.Columns))
	cells[0], cells[column] = row, text
	t.Rows = append(t.Rows, cells)
}

// Markdown is the table for documents, without its title.
func (t Table) Markdown() string {
	var text strings.Builder
	rule := append([]string{"---"}, strings.Fields(strings.Repeat("---: ", len(t.Columns)-1))...)
	for _, cells := range append([][]string{t.Columns, rule}, t.Rows...) {
		text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return strings.TrimRight(text.String()+"\n"+t.Note, "\n") + "\n"
}

// Update puts tables into a document, for each between these lines:
//
//	<!-- funnel-bench: NAME -->
//	<!-- end of funnel-bench: NAME -->
func Update(path string, tables []Table) error {
	content, err := os.ReadFile(path)
	document, places := string(content), 0
	for _, table := range tables {
		start := fmt.Sprintf("<!-- funnel-bench: %s -->\n", table.Name)
		end := fmt.Sprintf("<!-- end of funnel-bench: %s -->", table.Name)
		before, rest, found := strings.Cut(document, start)
		if _, after, closed := strings.Cut(rest, end); found && closed {
			document = before + start + "\n" + table.Markdown() + "\n" + end + after
			places++
		}
	}
	if err == nil && places == 0 {
		err = fmt.Errorf("%s has no place for these tables, such as <!-- funnel-bench: instructions -->", path)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(document), 0o644)
}

// thousands groups the digits of a number that is not negative.
func thousands(number float64) string {
	digits := fmt.Sprintf("%.0f", number)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// A Chart is a drawing of horizontal bars, for documents, the best first. Its colours follow the
// reader's choice of light or dark, which plotting libraries for Go cannot do. Its numbers
// are next to the bars, so nobody has to tell colours apart.
type Chart struct {
	Title, Note  string
	MoreIsBetter bool
	Bars         []Bar
	Height       int
}

// A Bar is one row of a chart. Class is "ours" to set it off from the others.
type Bar struct {
	Title, Label, Class string
	Value               float64
	Width               string
	Top                 int
}

// add adds the bar of a case. Limited calls have a bar only if a module decides them. Some cases have
// none: peeks; the floor, which nobody can choose; calls of several funnels, which do more; and
// slots and quotas, which limit no rate.
func (c *Chart) add(of Case, value float64, label string) {
	module := of.Name == "throttle" || of.Name == "peer"
	left := of.OnlyCounted || of.Name == "floor" || strings.HasSuffix(of.Name, "3")
	if left || of.Case == "peek" || of.Case == "limited" && !module {
		return
	}
	bar := Bar{Title: of.Title, Label: label, Class: "bar", Value: value}
	if of.Case == "limited" {
		bar.Title += ", limited"
	}
	if slices.Contains([]string{"throttle", "reserve", "take", "script", "complete-script"}, of.Name) {
		bar.Class = "ours"
	}
	c.Bars = append(c.Bars, bar)
}

//go:embed chart.svg
var chartSource string

var chartTemplate = template.Must(template.New("chart").Parse(chartSource))

// Draw draws the charts of tables into a folder. It leaves out a bar
// more than five times as long as the next, because the others would be too short to compare,
// and names it in the note.
func Draw(folder string, tables []Table) error {
	for _, table := range tables {
		c := table.Chart
		if len(c.Bars) == 0 {
			continue
		}
		slices.SortStableFunc(c.Bars, func(a, b Bar) int { return cmp.Compare(a.Value, b.Value) })
		last := len(c.Bars) - 1
		for ; last > 0 && c.Bars[last].Value > 5*c.Bars[last-1].Value; last-- {
			c.Note += fmt.Sprintf("; left out: %s, %s", c.Bars[last].Title, c.Bars[last].Label)
		}
		longest := c.Bars[last].Value
		c.Bars, c.Height = c.Bars[:last+1], 108+26*(last+1)
		if c.MoreIsBetter {
			slices.Reverse(c.Bars)
		}
		for row := range c.Bars {
			c.Bars[row].Top = 77 + 26*row
			c.Bars[row].Width = fmt.Sprintf("%.1f", c.Bars[row].Value/longest*330)
		}
		var svg bytes.Buffer
		err := chartTemplate.Execute(&svg, c)
		if err = cmp.Or(err, os.WriteFile(filepath.Join(folder, table.Name+".svg"), svg.Bytes(), 0o644)); err != nil {
			return err
		}
	}
	return nil
}
