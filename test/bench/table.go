package bench

import (
	"fmt"
	"strings"
)

// A Table is one part of the report in rows and columns, for people.
type Table struct {
	// Name marks the place of the table in documents.
	Name string

	Title string

	// Notes say against what the figures were measured.
	Notes []string

	// Columns: the first is aligned to the left, the others to the right.
	Columns []string
	Rows    [][]string
}

// Text lays the table out for a terminal.
func (t Table) Text() string {
	widths := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", t.Title)
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i == 0 {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	for _, note := range t.Notes {
		fmt.Fprintf(&text, "\n  %s\n", note)
	}
	return text.String()
}

// Markdown is the table for documents, without its title.
func (t Table) Markdown() string {
	var text strings.Builder
	row := func(cells []string) { text.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	row(t.Columns)
	rule := []string{"---"}
	for range t.Columns[1:] {
		rule = append(rule, "---:")
	}
	row(rule)
	for _, cells := range t.Rows {
		row(cells)
	}
	for _, note := range t.Notes {
		text.WriteString("\n" + note + "\n")
	}
	return text.String()
}

// Splice replaces what a document holds between these lines, for each table that
// it has a place for:
//
//	<!-- funnel-bench: NAME -->
//	<!-- end of funnel-bench: NAME -->
//
// and returns the document and the names of the tables that were put in.
func Splice(document string, tables []Table) (string, []string) {
	var placed []string
	for _, table := range tables {
		start := fmt.Sprintf("<!-- funnel-bench: %s -->\n", table.Name)
		end := fmt.Sprintf("<!-- end of funnel-bench: %s -->", table.Name)
		before, rest, found := strings.Cut(document, start)
		_, after, closed := strings.Cut(rest, end)
		if found && closed {
			document = before + start + "\n" + table.Markdown() + "\n" + end + after
			placed = append(placed, table.Name)
		}
	}
	return document, placed
}

// Tables are the parts of the report that have been measured.
func (r Report) Tables() []Table {
	var tables []Table
	add := func(measured bool, table func() Table) {
		if measured {
			tables = append(tables, table())
		}
	}
	add(true, r.environmentTable)
	add(len(r.Instructions) > 0, r.instructionTable)
	add(len(r.Memory) > 0, r.memoryTable)
	add(len(r.Throughput) > 0, r.throughputTable)
	add(len(r.Latency) > 0, r.latencyTable)
	add(r.Tail != nil, r.tailTable)
	add(r.Footprint != nil, r.footprintTable)
	add(len(r.Scale) > 0, r.scaleTable)
	return tables
}

func (r Report) environmentTable() Table {
	e := r.Environment
	rows := [][]string{
		{"measured", e.Time.Format("2006-01-02 15:04 UTC")},
		{"server", e.Server},
		{"module", e.Module},
	}
	if e.Peer != "" {
		rows = append(rows, []string{"other module", e.Peer})
	}
	if e.Valgrind != "" {
		rows = append(rows, []string{"counted by", e.Valgrind + " (callgrind)"})
	}
	rows = append(rows,
		[]string{"Go", e.Go},
		[]string{"machine", fmt.Sprintf("%s, %d cores, %s", e.System, e.Cores, e.Processor)})
	return Table{Name: "environment", Title: "Measured with", Columns: []string{"what", "which"}, Rows: rows}
}

// instructionTable has a row per alternative and a column per case.
func (r Report) instructionTable() Table {
	reference := 0.0
	for _, c := range r.Instructions {
		if c.Name == Reference {
			reference = c.PerCall
		}
	}
	worst := 0.0
	var rows [][]string
	at := map[string]int{}
	for _, c := range r.Instructions {
		if _, known := at[c.Name]; !known {
			at[c.Name] = len(rows)
			rows = append(rows, []string{c.Title, "", "", "", ""})
		}
		row := rows[at[c.Name]]
		column := map[string]int{"": 1, "allowed": 1, "limited": 2, "peek": 3}[c.Case]
		row[column] = thousands(c.PerCall)
		if column == 1 && reference > 0 {
			row[4] = fmt.Sprintf("%.2f", c.PerCall/reference)
		}
		// The sorted set grows with each call, so its blocks lie apart for a reason.
		if c.Name != "window" {
			worst = max(worst, c.Spread)
		}
	}
	return Table{
		Name: "instructions", Title: "Instructions per call",
		Columns: []string{"call", "allowed", "limited", "peek", "allowed / SET PX"},
		Rows:    rows,
		Notes: []string{fmt.Sprintf("Counted by callgrind in %s, %d calls sent at once on random keys out of %s. The middle one of three blocks of calls, which lie at most %.1f%% apart, but for the sorted set, which grows with each call.",
			r.Environment.Server, instructionPipeline, thousands(instructionKeys), worst*100)},
	}
}

func (r Report) memoryTable() Table {
	var reference Memory
	for _, m := range r.Memory {
		if m.Name == Reference {
			reference = m
		}
	}
	var rows [][]string
	for _, m := range r.Memory {
		title, ratio := m.Title, ""
		if m.Name == Reference {
			title = "SET PX of 19 digits"
		}
		if reference.Whole > 0 {
			ratio = fmt.Sprintf("%.2f", m.Whole/reference.Whole)
		}
		rows = append(rows, []string{title, thousands(float64(m.First)), thousands(float64(m.Busy)), thousands(m.Whole), ratio})
	}
	return Table{
		Name: "memory", Title: "Bytes per key",
		Columns: []string{"key of", "MEMORY USAGE, 1 call", "MEMORY USAGE, 100 calls", "growth of the server", "growth / SET PX"},
		Rows:    rows,
		Notes:   []string{fmt.Sprintf("%s, keys of 16 bytes. Growth: used_memory over %s keys of one call, with the tables that hold keys and expiries.", r.Environment.Server, thousands(memoryKeys))},
	}
}

func (r Report) throughputTable() Table {
	var rows [][]string
	for _, w := range r.Throughput {
		rows = append(rows, []string{w.Title, thousands(w.Throughput.Median), ratio(w.ThroughputRatio),
			fmt.Sprintf("%.2f", w.Processor.Median), ratio(w.ProcessorRatio)})
	}
	return Table{
		Name: "throughput", Title: "Throughput",
		Columns: []string{"call", "calls per second", "ratio to SET PX", "server µs per call", "ratio to SET PX"},
		Rows:    rows,
		Notes:   []string{r.loadNote(r.Load.Clients, r.Load.Pipeline)},
	}
}

func (r Report) latencyTable() Table {
	var rows [][]string
	for _, w := range r.Latency {
		rows = append(rows, []string{w.Title, fmt.Sprintf("%.0f", w.P50.Median), fmt.Sprintf("%.0f", w.P99.Median),
			fmt.Sprintf("%.0f", w.P999.Median), ratio(w.P99Ratio)})
	}
	return Table{
		Name: "latency", Title: "Latency in microseconds",
		Columns: []string{"call", "p50", "p99", "p99.9", "p99 / SET PX"},
		Rows:    rows,
		Notes:   []string{r.loadNote(r.Load.Clients, 1)},
	}
}

func (r Report) loadNote(clients, pipeline int) string {
	return fmt.Sprintf("%s, %s clients, %s calls at once each, %s keys, %.0f%% of the calls limited. Medians of %d rounds of %s, the alternatives in turn; in brackets the quartiles of the rounds. Client and server share the machine.",
		r.Environment.Server, thousands(float64(clients)), thousands(float64(pipeline)), thousands(float64(r.Load.Keys)), r.Load.Limited*100, r.Load.Rounds, r.Load.Round)
}

func (r Report) tailTable() Table {
	row := func(name string, t TailTimes) []string {
		return []string{name, fmt.Sprintf("%.0f", t.P50.Median), fmt.Sprintf("%.0f", t.P99.Median), fmt.Sprintf("%.0f", t.P999.Median), fmt.Sprintf("%.0f", t.Max)}
	}
	return Table{
		Name: "tail", Title: "Latency at a fixed rate, in microseconds",
		Columns: []string{"call", "p50", "p99", "p99.9", "maximum"},
		Rows: [][]string{
			row("SET PX", r.Tail.Set),
			row("CL.THROTTLE", r.Tail.Throttle),
			row("SET PX, server without the module", r.Tail.SetWithout),
		},
		Notes: []string{fmt.Sprintf("%s calls per second of each of SET PX and CL.THROTTLE, side by side on one server; twice as many of SET PX alone on the server without the module. Medians of %d rounds. At p99.9, CL.THROTTLE takes %s times as long as SET PX.",
			thousands(float64(r.Tail.Rate)), r.Tail.Rounds, ratio(r.Tail.Ratio))},
	}
}

func (r Report) footprintTable() Table {
	f := r.Footprint
	row := func(name, format string, without, with Spread) []string {
		return []string{name, fmt.Sprintf(format, without.Median), fmt.Sprintf(format, with.Median), fmt.Sprintf(format, with.Median-without.Median)}
	}
	mebibytes := func(s Spread) Spread { return Spread{s.Median / 1024, s.Low / 1024, s.High / 1024} }
	rows := [][]string{
		row("start to first answer, ms", "%.1f", f.Without.Milliseconds, f.With.Milliseconds),
		row("resident memory (VmRSS), MiB", "%.2f", mebibytes(f.Without.RSS), mebibytes(f.With.RSS)),
		row("of that private (RssAnon), MiB", "%.2f", mebibytes(f.Without.Private), mebibytes(f.With.Private)),
		{"threads", fmt.Sprint(len(f.ThreadsWithout)), fmt.Sprint(len(f.ThreadsWith)), fmt.Sprint(len(f.ThreadsWith) - len(f.ThreadsWithout))},
	}
	return Table{
		Name: "footprint", Title: "What the module adds to an idle server",
		Columns: []string{"what", "without", "with", "added"}, Rows: rows,
		Notes: []string{fmt.Sprintf("Medians of %d starts of each, in turn. Threads were counted after a hundred thousand calls.", footprintStarts)},
	}
}

func (r Report) scaleTable() Table {
	var rows [][]string
	yes := map[bool]string{true: "yes", false: "no"}
	for _, s := range r.Scale {
		rows = append(rows, []string{thousands(float64(s.Keys)), thousands(float64(s.Clients)), yes[s.AOF], yes[s.Replica],
			fmt.Sprintf("%.2f", s.Throttle.Median), fmt.Sprintf("%.2f", s.Set.Median), ratio(s.Ratio), thousands(s.ThrottleThroughput.Median)})
	}
	return Table{
		Name: "scale", Title: "CL.THROTTLE as keys, clients and listeners grow",
		Columns: []string{"keys", "clients", "AOF", "replica", "server µs per call", "of SET PX", "ratio", "calls per second"},
		Rows:    rows,
		Notes:   []string{fmt.Sprintf("%s, %d calls at once per client. Medians; in brackets the quartiles of the rounds.", r.Environment.Server, r.Load.Pipeline)},
	}
}

// ratio words the ratio and its quartiles.
func ratio(s Spread) string {
	if s.Median == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", s.Median, s.Low, s.High)
}

// thousands groups the digits of a number that is not negative.
func thousands(number float64) string {
	digits := fmt.Sprintf("%.0f", number)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
