package bench

import (
	"fmt"
	"os"
	"strings"
)

// A Table holds measurements, in rows and columns.
type Table struct {
	Name    string // marks the place of the table in documents
	Title   string
	Note    string // how the figures were measured
	Columns []string
	Rows    [][]string
}

// set fills a cell of a row, and appends the row if it is new.
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
		_, after, closed := strings.Cut(rest, end)
		if found && closed {
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
