// Several processes have callers who wait for the same slots. Each process has a line of its own,
// and knows about the others only what the server's answers tell.

package line

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// hop is how long a call takes each way.
const hop = 250 * time.Microsecond

// A server has slots that any number of processes take.
type server struct {
	slots int

	mutex   sync.Mutex
	running int
	last    time.Time // when a slot was taken the last time
	asked   int
	held    time.Duration // by all holders, together
	granted []int         // by process
}

// ask takes a slot for a process, and tells what the answer tells.
func (s *server) ask(process int) (granted, full bool, age time.Duration) {
	time.Sleep(hop)
	defer time.Sleep(hop)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.asked++
	granted = s.running < s.slots
	if granted {
		s.running++
		s.granted[process]++
		s.last = time.Now()
	}
	return granted, s.running == s.slots, time.Since(s.last)
}

// release gives a slot back.
func (s *server) release(held time.Duration) {
	time.Sleep(hop)
	defer time.Sleep(hop)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.running--
	s.held += held
}

// work has a caller of a process wait for a slot and hold it, again and again, until ctx is done.
func (s *server) work(ctx context.Context, l *lines, process int, hold func() time.Duration) {
	for ctx.Err() == nil {
		p := l.Join("key", 1000, 0)
		for granted := false; !granted; {
			_, err := p.Await(ctx)
			if err != nil {
				p.Leave()
				return
			}
			var full bool
			var age time.Duration
			granted, full, age = s.ask(process)
			if granted {
				p.Served(full, true)
			} else {
				p.Limited(age)
			}
		}
		p.Leave()
		took := time.Now()
		time.Sleep(hold())
		s.release(time.Since(took))
		l.Released("key", time.Since(took)/time.Duration(s.slots))
	}
}

// Processes in which callers always wait get about the same number of slots, whether slots are held
// for much shorter or much longer than a pause, and although a process that gives a slot back is
// the first to know. With -v the test tells how many calls each slot took, and how much of the time
// slots were held.
func TestProcessesShare(t *testing.T) {
	constant := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	random := func(d time.Duration) func() time.Duration {
		return func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(d)) }
	}
	for _, c := range []struct {
		name    string
		slots   int
		callers []int // by process
		apart   time.Duration
		hold    func() time.Duration
	}{
		{name: "1 slot for 2 ms", slots: 1, callers: []int{10, 10, 10, 10}, apart: 2 * ms, hold: random(2 * ms)},
		{name: "1 slot for 20 ms", slots: 1, callers: []int{10, 10, 10, 10}, apart: 20 * ms, hold: random(20 * ms)},
		{name: "1 slot for 5 s, each time", slots: 1, callers: []int{10, 10, 10, 10}, apart: 5 * time.Second,
			hold: constant(5 * time.Second)},
		{name: "10 slots for 30 s", slots: 10, callers: []int{10, 10, 10, 10}, apart: 3 * time.Second,
			hold: random(30 * time.Second)},
		{name: "4 slots for 100 ms, and one process has most callers", slots: 4, callers: []int{80, 10, 10, 10},
			apart: 25 * ms, hold: random(100 * ms)},
	} {
		t.Run(c.name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				during := 3000 * c.apart
				ctx, cancel := context.WithTimeout(t.Context(), during)
				defer cancel()
				s := &server{slots: c.slots, granted: make([]int, len(c.callers))}
				var all sync.WaitGroup
				for process, callers := range c.callers {
					l := newLines()
					for range callers {
						all.Go(func() { s.work(ctx, l, process, c.hold) })
					}
				}
				<-ctx.Done()
				s.mutex.Lock()
				total := 0
				for _, granted := range s.granted {
					total += granted
				}
				t.Logf("slots by process %v, %.1f calls for each, held for %.0f %% of the time", s.granted,
					float64(s.asked)/float64(total), 100*float64(s.held)/float64(during)/float64(s.slots))
				fair := total / len(c.callers)
				require.GreaterOrEqual(t, slices.Min(s.granted), fair*3/4, "slots by process: %v", s.granted)
				require.LessOrEqual(t, slices.Max(s.granted), fair*4/3, "slots by process: %v", s.granted)
				s.mutex.Unlock()
				all.Wait()
			})
		})
	}
}
