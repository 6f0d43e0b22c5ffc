package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"funnel/limiter/httplimit"
)

const (
	// reportEstimate is what a report takes before it begins. It is low, because tokens of the minute
	// that leak while the report runs cannot be given back. A report that costs more is charged for
	// the rest, even above the limit: then the customer waits until enough has leaked.
	reportEstimate = 5

	rowsPerToken = 100
	longestDays  = 366
)

// report is the expensive endpoint: how many rows there are is known only when all are read.
func (s *service) report(w http.ResponseWriter, r *http.Request) {
	days, err := strconv.Atoi(r.URL.Query().Get("days"))
	if err != nil || days < 1 || days > longestDays {
		s.settleReport(w, r, 0)
		http.Error(w, fmt.Sprintf("days must be from 1 to %d", longestDays), http.StatusBadRequest)
		return
	}
	rows, err := s.archive.read(r.Context(), days)
	cost := s.settleReport(w, r, rows) // even of a report that ended early: its rows have been read
	if err != nil {
		http.Error(w, fmt.Sprintf("the report has ended early: %v", err), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintf(w, "rows: %d\ncost: %d\n", rows, cost)
}

// settleReport gives back what a report has taken and not used, or charges what is missing, and
// returns the cost. The headers then tell what remains.
func (s *service) settleReport(w http.ResponseWriter, r *http.Request, rows int) (cost int) {
	cost = max(1, (rows+rowsPerToken-1)/rowsPerToken)
	results := httplimit.ResultsFrom(r.Context()) // of the minute and of the quota
	// The client may have left, and the report is settled all the same.
	settled, err := s.limiters.reports.SettleAll(context.WithoutCancel(r.Context()), results, []int{cost, cost})
	if err != nil {
		slog.Warn("a report is not settled", "customer", customerOf(r).name, "cost", cost, "error", err)
		return cost
	}
	httplimit.SetHeaders(w.Header(), settled, customerOf(r).plan.name, customerOf(r).plan.period)
	return cost
}

// An archive stands for a database that is slow.
type archive struct {
	rowsOf func(day int) int
	perRow time.Duration
}

// read reads the rows of some days, until ctx is done, and returns how many it has read.
func (a archive) read(ctx context.Context, days int) (rows int, err error) {
	for day := range days {
		next := a.rowsOf(day)
		select {
		case <-time.After(time.Duration(next) * a.perRow):
			rows += next
		case <-ctx.Done(): // the client has left, the slot is lost, or the program ends
			return rows, context.Cause(ctx)
		}
	}
	return rows, nil
}
