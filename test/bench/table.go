package bench

import (
	"fmt"
	"os"
	"strings"
)

// A Table is what has been measured, in rows and columns.
type Table struct {
	Name    string // marks the place of the table in documents
	Title   string
	Note    string // says against what the figures were measured
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
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := splice(string(document), tables)
	if text == string(document) {
		return fmt.Errorf("%s has no place for these tables, such as <!-- funnel-bench: instructions -->", path)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func splice(document string, tables []Table) string {
	for _, table := range tables {
		start := fmt.Sprintf("<!-- funnel-bench: %s -->\n", table.Name)
		end := fmt.Sprintf("<!-- end of funnel-bench: %s -->", table.Name)
		before, rest, found := strings.Cut(document, start)
		if _, after, closed := strings.Cut(rest, end); found && closed {
			document = before + start + "\n" + table.Markdown() + "\n" + end + after
		}
	}
	return document
}

// thousands groups the digits of a number that is not negative.
func thousands(number float64) string {
	digits := fmt.Sprintf("%.0f", number)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
