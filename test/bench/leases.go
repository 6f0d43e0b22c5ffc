package bench

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// processes is how many programs share one key. Goroutines would share leases.
const processes = 20

// leases measures processes that share a key, by leases and by counting locally.
func (s *Setting) leases() Table {
	table := Table{Title: "Twenty processes on one key",
		Columns: []string{"decisions by", "demand", "granted of possible", "calls in 50 ms for each process", "worst stretch", "bound", "fullest second"},
		Chart: Chart{Title: "Tokens of the fullest second", InOrder: true,
			Note: fmt.Sprintf("%s, %d processes on one key, %s tokens a second, burst %d; local counts are reconciled every %v", s.server, processes, thousands(sharedRate), sharedBurst, span)}}
	bound := float64(sharedRate + sharedBurst + perSpan)
	table.Chart.Bars = []Bar{{Title: "bound of leases", Label: thousands(bound), Class: "bar", Value: bound}}
	load, late := loadAverage(), time.Duration(0)
	for i, w := range ways {
		for _, demand := range w.demands {
			f := s.fleet(i, demand)
			late = max(late, f.late)
			table.Rows = append(table.Rows, []string{w.name, fmt.Sprint(demand), fmt.Sprintf("%.3f", f.granted),
				fmt.Sprintf("%.2f", f.calls), thousands(f.worst), w.bound, thousands(f.second)})
			if w.class != "" {
				table.Chart.Bars = append(table.Chart.Bars, Bar{Title: fmt.Sprintf("%s, demand %v", w.name, demand), Label: thousands(f.second), Class: w.class, Value: f.second})
			}
		}
	}
	table.Note = fmt.Sprintf("%s, %d processes, %s tokens a second, burst %d, %v for each row. Demand: calls in proportion to the rate, in an open loop, made at most %v after they were due; limited calls are not made again. Possible: the demand, or rate × time and one capacity, the lesser. Worst stretch: the most tokens of any stretch of time, less those that leak in it. Callers read the clock after a decision, and delays there add to a stretch, also to that of Allow. Local counts: a sliding window of 400 or 2,000 tokens that each process reconciles with Redis every %v, as [Kong](https://docs.konghq.com/gateway/latest/reference/rate-limiting/) and [Limitador](https://github.com/Kuadrant/limitador/blob/main/doc/server/configuration.md) document it. Processes and server share the machine; its load was %s before and %s after.",
		s.server, processes, thousands(sharedRate), sharedBurst, s.fleetLength(), late.Round(time.Millisecond), span, load, loadAverage())
	return table
}

func (s *Setting) fleetLength() time.Duration { return 2 * s.Window }

// A fleetResult is what all processes got: the share of what was possible, the calls that each
// made in span, and the tokens of the worst stretch and of the fullest second.
type fleetResult struct {
	granted, calls, worst, second float64
	late                          time.Duration // of the call that was made the longest after it was due
}

// fleet runs processes on a server of their own.
func (s *Setting) fleet(way int, demand float64) (result fleetResult) {
	client := s.Start(s.Module, nil)
	defer client.Close()
	ctx, end := context.WithCancel(s.Ctx)
	defer end()
	var members []*member
	for i := range processes {
		if s.failed(nil) {
			return result
		}
		gap := time.Duration(float64(processes*time.Second) / (demand * sharedRate))
		m, err := startMember(ctx, task{client.server.Addr(), way, gap, s.fleetLength(), uint64(i)})
		s.failed(err)
		members = append(members, m)
	}
	for _, m := range members {
		if s.failed(m.answer(new(bool))) { // it is connected
			return result
		}
	}
	before := client.limiterCalls()
	begin := monotonic() + int64(10*time.Millisecond)
	for _, m := range members {
		s.failed(m.orders.Encode(begin))
	}
	var all account
	for _, m := range members {
		var own account
		if s.failed(m.answer(&own)) || s.failed(m.process.Wait()) {
			return result
		}
		all.Asked, all.Late = all.Asked+own.Asked, max(all.Late, own.Late)
		all.Allowed = append(all.Allowed, own.Allowed...)
	}
	s.Progress("%s, demand %v; a call was made %v after it was due", ways[way].name, demand, all.Late.Round(time.Millisecond))
	if len(all.Allowed) == 0 {
		return result
	}
	slices.Sort(all.Allowed)
	took := max(s.fleetLength(), time.Duration(all.Allowed[len(all.Allowed)-1]-begin))
	possible := min(float64(all.Asked), sharedRate*took.Seconds()+ways[way].capacity)
	calls := (client.limiterCalls() - before) / processes / (float64(took) / float64(span))
	return fleetResult{float64(len(all.Allowed)) / possible, calls, worstStretch(all.Allowed, time.Second/sharedRate), fullest(all.Allowed, time.Second), all.Late}
}

// worstStretch returns how many tokens at most a stretch of time had beyond those that leak in
// it. The stretch begins and ends with a token.
func worstStretch(sorted []int64, interval time.Duration) float64 {
	least, most := int64(math.MaxInt64), int64(0)
	for i, at := range sorted {
		at -= sorted[0]
		least = min(least, int64(i)*int64(interval)-at)
		most = max(most, int64(i+1)*int64(interval)-at-least)
	}
	return float64(most) / float64(interval)
}

// fullest returns how many tokens at most a stretch of that length had, its ends included.
func fullest(sorted []int64, length time.Duration) float64 {
	first, most := 0, 0
	for i, at := range sorted {
		for at-sorted[first] > int64(length) {
			first++
		}
		most = max(most, i+1-first)
	}
	return float64(most)
}

// A member is a process of a fleet.
type member struct {
	process *exec.Cmd
	orders  *gob.Encoder
	answers *gob.Decoder
	log     strings.Builder
}

// startMember starts this program again.
func startMember(ctx context.Context, t task) (*member, error) {
	program, err := os.Executable()
	m := &member{process: exec.CommandContext(ctx, program, processArgument)}
	m.process.Stderr = &m.log
	in, inErr := m.process.StdinPipe()
	out, outErr := m.process.StdoutPipe()
	if err = errors.Join(err, inErr, outErr); err != nil {
		return m, err
	}
	m.orders, m.answers = gob.NewEncoder(in), gob.NewDecoder(out)
	return m, errors.Join(m.process.Start(), m.orders.Encode(t))
}

// answer reads what a process has to say.
func (m *member) answer(of any) error {
	if err := m.answers.Decode(of); err != nil {
		return fmt.Errorf("a process of the fleet: %w\n%s", errors.Join(err, m.process.Wait()), m.log.String())
	}
	return nil
}
