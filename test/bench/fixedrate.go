package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/montanaflynn/stats"

	"funnel/internal/servertest"
)

// fixedRates are the calls a second at which a service that does other things, too, asks a limiter:
// few enough that each call finds Redis idle, and many enough that calls meet.
var fixedRates = []int{2_000, 10_000}

// fixedRounds is how many times as long as other rounds these are: at 2,000 calls a second one per
// cent of 300 ms would be six calls.
const fixedRounds = 5

// fixed is a client at a fixed rate.
type fixed struct {
	contestant
	calls int // a second
}

// atFixedRates measures how long calls take that come at a fixed rate, whether earlier ones are
// answered or not, on many keys in Zipf's proportion. A closed loop, in which a caller waits for
// its answer before it calls again, would make no calls while Redis is slow, and hide what they
// wait.
func (s *Setting) atFixedRates() Table {
	table := Table{Title: "Calls from Go at a fixed rate",
		Columns: []string{"client", "calls per second", "p50 µs", "p99 µs", "p99, ratio to redis_rate"}}
	drawn, server := keys("", zipfKeys), s.Start(s.Module, nil)
	defer server.Close()
	var all []*fixed
	var turns []*contestant
	clients := slices.DeleteFunc(server.goClients(), func(c goClient) bool { return !c.decidesAlone })
	for _, calls := range fixedRates {
		for _, c := range clients {
			f := &fixed{contestant{title: c.title, round: func() round { return server.fixedRound(c, drawn, calls) }}, calls}
			all, turns = append(all, f), append(turns, &f.contestant)
		}
	}
	s.takeTurns("rates", turns)
	if s.failed(nil) {
		return table
	}
	for i, f := range all {
		last := len(clients)*(i/len(clients)+1) - 1 // redis_rate, at the same rate
		table.Rows = append(table.Rows, []string{f.title, thousands(float64(f.calls)), fmt.Sprintf("%.0f", f.median(p50)),
			fmt.Sprintf("%.0f", f.median(p99)), f.ratio(&all[last].contestant, p99)})
	}
	table.Note = fmt.Sprintf("%s, %d goroutines. A call takes from the instant that it is due, even if its goroutine "+
		"is still busy then. Medians of %d rounds of %v, the clients in turn; in brackets the quartiles of the rounds. "+
		"Client and server share the machine.", s.server, goroutines, s.Rounds, fixedRounds*s.Round)
	return table
}

// fixedRound makes calls for one round, at a rate in calls a second. Goroutines take turns.
func (c *Client) fixedRound(client goClient, keys []string, rate int) (result round) {
	latencies, errs := make([][]float64, goroutines), make([]error, goroutines)
	drawn := make([][drawnKeys]string, goroutines)
	for i := range drawn {
		drawn[i] = draw(keys, i)
	}
	servertest.Pace(goroutines, rate, fixedRounds*c.Round, func(caller int, due time.Time) bool {
		key := drawn[caller][len(latencies[caller])%drawnKeys]
		errs[caller] = client.call(c.Ctx, key)
		latencies[caller] = append(latencies[caller], float64(time.Since(due).Nanoseconds())/1000)
		return errs[caller] == nil
	})
	err := errors.Join(errs...)
	if err != nil {
		c.failed(fmt.Errorf("%s: %w", client.title, err))
	}
	all := slices.Concat(latencies...)
	result[p50], _ = stats.Percentile(all, 50) // an error is for no values
	result[p99], _ = stats.Percentile(all, 99)
	return result
}
