package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/montanaflynn/stats"

	"funnel/limiter"
)

// warmUp is how long workers wait for tokens before anything is counted.
func (s *Setting) warmUp() time.Duration { return s.Window / 10 }

// A line is a number of workers that wait for one rate, all on one key.
type line struct {
	limit   limiter.Limit
	workers int
	path    limiter.Path
}

// A reservation is one Wait. Only the server knows the instant at which it begins: between
// the start and the end of the call, plus the wait in the reply.
type reservation struct {
	asked, answered  time.Time // of the first call
	earliest, latest time.Time // at which it can begin, by the last call
	ahead            time.Time // when Wait returned; zero if it did not
	givenUp          bool      // in the middle of a call
}

// A lineResult is the result of a line. Lateness is in microseconds.
type lineResult struct {
	perSecond, callsPerReservation float64
	outOfOrder                     int
	p50, p99                       float64
}

// waiting lets workers wait, and compares reservations with the instants at which the
// workers went ahead.
func (s *Setting) waiting() Table {
	table := Table{Title: "Waiting, by module / by script",
		Columns: []string{"tokens per second", "burst", "workers", "reservations per second", "calls per reservation", "out of order", "late µs, p50", "late µs, p99"}}
	before := loadAverage()
	p50, p99 := sleepAlone(s.Window)
	client := s.Start(s.Module, nil)
	defer client.Close()
	for _, perSecond := range []int{10, 100, 1000, 10_000} {
		for _, burst := range []int{10, 1} {
			for _, workers := range []int{1, 8, 64} {
				s.Progress("waiting: %d per second, burst %d, %d workers", perSecond, burst, workers)
				var both [2]lineResult
				for i, path := range []limiter.Path{limiter.PathModule, limiter.PathScript} {
					both[i] = client.wait(line{limiter.PerSecond(perSecond).Burst(burst), workers, path})
				}
				side := func(text func(lineResult) string) string { return text(both[0]) + " / " + text(both[1]) }
				table.Rows = append(table.Rows, []string{thousands(float64(perSecond)), fmt.Sprint(burst), fmt.Sprint(workers),
					side(func(r lineResult) string { return strconv.FormatFloat(r.perSecond, 'f', 1, 64) }),
					side(func(r lineResult) string { return fmt.Sprintf("%.3f", r.callsPerReservation) }),
					side(func(r lineResult) string { return fmt.Sprint(r.outOfOrder) }),
					side(func(r lineResult) string { return thousands(r.p50) }),
					side(func(r lineResult) string { return thousands(r.p99) })})
			}
		}
	}
	table.Note = fmt.Sprintf("%s, `Wait` of package limiter by go-redis with its default options, a key for each row. The funnel is full at the beginning, so no burst is counted; then %v to warm up and %v that count. Reservations per second: between the first and the last return of `Wait`. Calls per reservation: calls that the server counted, divided by the reservations that it made. Out of order: reservations that certainly came before one that had been answered before they were asked for. Late: how long after the earliest instant at which the reservation can begin `Wait` returned; the latest such instant is one round trip later. A sleep of %v without a server was late by %s µs (p50) and %s µs (p99). Client and server share the machine; its load was %s before and %s after.",
		s.server, s.warmUp(), s.Window, shortSleep, thousands(p50), thousands(p99), before, loadAverage())
	return table
}

// wait measures one line.
func (c *Client) wait(l line) (result lineResult) {
	if c.failed(nil) {
		return result
	}
	rdb := c.server.NewClient()
	defer rdb.Close()
	limit := limiter.New(rdb, limiter.WithPath(l.path), limiter.WithHook(noteReservation))
	key := fmt.Sprint("line:", l)
	if _, err := limit.Charge(c.Ctx, key, l.limit, l.limit.Capacity); c.failed(err) { // which also loads the script
		return result
	}
	before := c.limiterCalls()
	// No deadline: Wait would reserve nothing beyond it.
	ctx, stop := context.WithCancel(c.Ctx)
	var counted time.Time
	warm := time.AfterFunc(c.warmUp(), func() {
		counted = time.Now()
		time.AfterFunc(c.Window, stop)
	})
	defer warm.Stop()
	reservations, errs := make([][]*reservation, l.workers), make([]error, l.workers)
	var workers sync.WaitGroup
	for i := range l.workers {
		workers.Go(func() {
			for errs[i] == nil && ctx.Err() == nil {
				next := &reservation{}
				errs[i] = limit.Wait(context.WithValue(ctx, reservationKey{}, next), key, l.limit)
				if errs[i] == nil {
					next.ahead = time.Now()
				}
				reservations[i] = append(reservations[i], next)
			}
		})
	}
	<-ctx.Done()
	workers.Wait()
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) {
			c.failed(err)
		}
	}
	// Calls that were given up at the end are still answered, but nobody reads the reply.
	for stats := rdb.PoolStats(); stats.IdleConns < stats.TotalConns && !c.failed(nil); stats = rdb.PoolStats() {
		time.Sleep(time.Millisecond)
	}
	calls := c.limiterCalls() - before
	given := slices.DeleteFunc(slices.Concat(reservations...), func(t *reservation) bool {
		if t.givenUp {
			calls--
		}
		return t.earliest.IsZero()
	})
	result.callsPerReservation = calls / float64(len(given))
	result.outOfOrder = outOfOrder(given)
	result.perSecond, result.p50, result.p99 = wentAhead(given, counted)
	return result
}

type reservationKey struct{}

// noteReservation is a hook.
func noteReservation(ctx context.Context, event limiter.Event) {
	t, ok := ctx.Value(reservationKey{}).(*reservation)
	if !ok {
		return
	}
	if t.givenUp = event.Err != nil; t.givenUp {
		return
	}
	answered := time.Now()
	asked := answered.Add(-event.Duration)
	if t.answered.IsZero() {
		t.asked, t.answered = asked, answered
	}
	if !event.Result.Limited() {
		t.earliest, t.latest = asked.Add(event.Result.Wait), answered.Add(event.Result.Wait)
	}
}

// outOfOrder counts the reservations that came before an earlier one: at their latest before
// its earliest instant, although it was answered before they were asked for.
func outOfOrder(reservations []*reservation) (count int) {
	asked := slices.SortedFunc(slices.Values(reservations), func(a, b *reservation) int { return a.asked.Compare(b.asked) })
	answered := slices.SortedFunc(slices.Values(reservations), func(a, b *reservation) int { return a.answered.Compare(b.answered) })
	var last time.Time // of the reservations that have been answered
	for _, t := range asked {
		for ; answered[0].answered.Before(t.asked); answered = answered[1:] {
			if answered[0].earliest.After(last) {
				last = answered[0].earliest
			}
		}
		if t.latest.Before(last) {
			count++
		}
	}
	return count
}

// wentAhead returns how often, and how late, Wait returned after an instant.
func wentAhead(reservations []*reservation, counted time.Time) (perSecond, p50, p99 float64) {
	reservations = slices.DeleteFunc(reservations, func(t *reservation) bool { return t.ahead.Before(counted) })
	if len(reservations) < 2 {
		return 0, 0, 0
	}
	slices.SortFunc(reservations, func(a, b *reservation) int { return a.ahead.Compare(b.ahead) })
	var late []float64
	for _, t := range reservations {
		late = append(late, t.ahead.Sub(t.earliest).Seconds()*1e6)
	}
	span := reservations[len(reservations)-1].ahead.Sub(reservations[0].ahead)
	return float64(len(reservations)-1) / span.Seconds(), percentile(late, 50), percentile(late, 99)
}

// shortSleep is not a whole millisecond, the unit in which Go waits on Linux while nothing
// runs.
const shortSleep = 500 * time.Microsecond

// sleepAlone returns how late a sleep without a server is, in microseconds.
func sleepAlone(window time.Duration) (p50, p99 float64) {
	var late []float64
	for begin := time.Now(); time.Since(begin) < window; {
		slept := time.Now()
		time.Sleep(shortSleep)
		late = append(late, (time.Since(slept)-shortSleep).Seconds()*1e6)
	}
	return percentile(late, 50), percentile(late, 99)
}

func percentile(values []float64, percent float64) float64 {
	value, _ := stats.Percentile(values, percent) // an error is for no values
	return value
}

// limiterCalls returns how many calls of the commands and of scripts the server counted.
func (c *Client) limiterCalls() (sum float64) {
	text, _ := c.Do("INFO", "commandstats").(string)
	for _, found := range limiterCommand.FindAllStringSubmatch(text, -1) {
		calls, _ := strconv.ParseFloat(found[1], 64)
		sum += calls
	}
	return sum
}

var limiterCommand = regexp.MustCompile(`cmdstat_(?:cl\.\w+|eval\w*):calls=(\d+)`)

// loadAverage returns how many processes wanted a processor, on average over a minute.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(text), " ")
	return average
}
