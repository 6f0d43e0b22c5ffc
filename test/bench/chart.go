package bench

import (
	"fmt"
	"html"
	"strings"
)

// A Chart is a drawing of horizontal bars, for documents. Its colours follow the
// reader's choice of light or dark, and its numbers stand beside the bars, so that
// nobody has to tell colours apart to read it.
type Chart struct {
	Name  string // of the file, without .svg
	Title string
	Note  string
	Bars  []Bar
}

// A Bar is one row of a chart.
type Bar struct {
	Title string
	Value float64
	Label string

	// Ours sets the bar off from the others.
	Ours bool
}

const (
	chartWidth  = 760
	chartLeft   = 270 // where bars begin
	chartRight  = 110 // kept free for labels
	chartRow    = 26
	chartTop    = 48
	chartBottom = 34
)

const chartStyle = `<style>
text { font: 13px system-ui, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.note { font-size: 11px; fill: #57606a }
.bar { fill: #8c959f }
.ours { fill: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.note { fill: #9198a1 }
.bar { fill: #656c76 }
.ours { fill: #4493f8 }
}
</style>
`

// SVG draws the chart.
func (c Chart) SVG() string {
	most := 0.0
	for _, bar := range c.Bars {
		most = max(most, bar.Value)
	}
	height := chartTop + chartRow*len(c.Bars) + chartBottom
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		chartWidth, height, chartWidth, height, html.EscapeString(c.description()))
	svg.WriteString(chartStyle)
	fmt.Fprintf(&svg, `<text class="title" x="8" y="24">%s</text>`+"\n", html.EscapeString(c.Title))
	for i, bar := range c.Bars {
		y := chartTop + chartRow*i
		width := 0.0
		if most > 0 {
			width = bar.Value / most * (chartWidth - chartLeft - chartRight)
		}
		class := "bar"
		if bar.Ours {
			class = "ours"
		}
		fmt.Fprintf(&svg, `<text x="%d" y="%d" text-anchor="end">%s</text>`, chartLeft-8, y+16, html.EscapeString(bar.Title))
		fmt.Fprintf(&svg, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, class, chartLeft, y+3, max(width, 1), chartRow-8)
		fmt.Fprintf(&svg, `<text x="%.1f" y="%d">%s</text>`+"\n", chartLeft+width+6, y+16, html.EscapeString(bar.Label))
	}
	fmt.Fprintf(&svg, `<text class="note" x="8" y="%d">%s</text>`+"\n</svg>\n", height-12, html.EscapeString(c.Note))
	return svg.String()
}

// description is for those who cannot see the drawing.
func (c Chart) description() string {
	var parts []string
	for _, bar := range c.Bars {
		parts = append(parts, bar.Title+" "+bar.Label)
	}
	return c.Title + ": " + strings.Join(parts, "; ")
}

// Charts are the drawings of what has been measured.
func (r Report) Charts() []Chart {
	var charts []Chart
	e := r.Environment
	if len(r.Instructions) > 0 {
		chart := Chart{
			Name: "instructions", Title: "Instructions per call (less is better)",
			Note: fmt.Sprintf("%s, %s under %s, %s", e.Module, e.Server, e.Valgrind, e.Time.Format("2006-01-02")),
		}
		for _, c := range r.Instructions {
			title := c.Title
			if c.Case == "limited" || c.Case == "peek" {
				if c.Name != "throttle" {
					continue
				}
				title += ", " + c.Case
			}
			chart.Bars = append(chart.Bars, Bar{title, c.PerCall, thousands(c.PerCall), c.Name == "throttle"})
		}
		charts = append(charts, chart)
	}
	if len(r.Memory) > 0 {
		chart := Chart{
			Name: "memory", Title: "Bytes per key after 100 calls (less is better)",
			Note: fmt.Sprintf("MEMORY USAGE, %s, %s", e.Server, e.Time.Format("2006-01-02")),
		}
		for _, m := range r.Memory {
			chart.Bars = append(chart.Bars, Bar{m.Title, float64(m.Busy), thousands(float64(m.Busy)), m.Name == "throttle"})
		}
		charts = append(charts, chart)
	}
	if len(r.Throughput) > 0 {
		chart := Chart{
			Name: "throughput", Title: "Calls per second, in proportion to SET PX (more is better)",
			Note: fmt.Sprintf("%s, %d clients, %d calls at once, %.0f%% limited, %d cores, %s", e.Server, r.Load.Clients, r.Load.Pipeline, r.Load.Limited*100, e.Cores, e.Time.Format("2006-01-02")),
		}
		for _, w := range r.Throughput {
			if w.ThroughputRatio.Median > 0 {
				chart.Bars = append(chart.Bars, Bar{w.Title, w.ThroughputRatio.Median, fmt.Sprintf("%.2f", w.ThroughputRatio.Median), w.Name == "throttle"})
			}
		}
		charts = append(charts, chart)
	}
	return charts
}
