// Real processes share slots. At no instant more work runs than there are slots, even while
// processes are killed and stopped, replies are lost, and a replica takes over. Processes that wait
// use nearly all slots nearly all the time, ask seldom, and share the slots. Within a process, no
// caller overtakes another one.

package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// TestMain runs the tests, or a program, in a process that a test has started. A program prints
// what it does, and runs until it is killed.
func TestMain(m *testing.M) {
	programs := map[string]func(addr string){"slots": holdSlots, "lines": waitInLine, "leavers": leaveOften}
	if len(os.Args) == 3 && programs[os.Args[1]] != nil {
		programs[os.Args[1]](os.Args[2])
	}
	os.Exit(m.Run())
}

// start starts a process with a program, which uses the server at addr.
func start(t *testing.T, program, addr string) *exec.Cmd {
	process := exec.Command(os.Args[0], program, addr)
	process.Stdout = &bytes.Buffer{}
	require.NoError(t, process.Start())
	t.Cleanup(func() { process.Process.Kill() })
	return process
}

// kill kills a process, and returns what it has printed.
func kill(process *exec.Cmd) string {
	process.Process.Kill()
	process.Wait()
	return process.Stdout.(*bytes.Buffer).String()
}

// twenty are the slots that all processes share.
var twenty = limiter.Slots{Max: 20, TTL: 2 * time.Second}

// holdSlots is the program of 50 workers who wait in two lines. The client of one of the lines
// repeats calls without an answer.
func holdSlots(addr string) {
	for retries := range 2 {
		l := limiter.New(redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 4*retries - 1}))
		for worker := range 25 {
			go work(l, twenty, fmt.Sprint(os.Getpid(), ":", retries, ":", worker))
		}
	}
	select {}
}

// work repeats this: it waits for a slot, works, and gives the slot back twice. It prints when a
// piece of work begins, and until when the slot certainly runs. Unless it has lost the slot, it
// also prints when the work ended.
func work(l *limiter.Limiter, slots limiter.Slots, worker string) {
	ctx := context.Background()
	for piece := 0; ; piece++ {
		name := fmt.Sprint(worker, ":", piece)
		sent := time.Now()
		got, err := l.Acquire(ctx, slots.At("slots"))
		for err != nil {
			time.Sleep(10 * time.Millisecond)
			sent = time.Now()
			got, err = l.Acquire(ctx, slots.At("slots"))
		}
		begun := time.Now()
		fmt.Println(name, begun.UnixMicro(), sent.Add(slots.TTL).UnixMicro(), false)
		select {
		case <-time.After(5*time.Millisecond + rand.N(45*time.Millisecond)):
		case <-got.Context().Done():
		}
		now := time.Now()
		if got.Context().Err() == nil {
			fmt.Println(name, begun.UnixMicro(), now.UnixMicro(), true)
		}
		_ = got.Release(ctx) // goes on in the background until Redis decides
		_ = got.Release(ctx)
	}
}

// A stretch is a time during which a holder certainly had a slot, in microseconds since 1970.
type stretch struct {
	from, until int64
	ended       bool // the holder has not crashed, nor lost its slot
}

// TestNoMoreThanTheLimitRun runs ten processes. Each second it kills one of them and starts it
// again. Every third second it stops one for longer than the ttl. Replies are lost. In the end a
// replica takes over.
func TestNoMoreThanTheLimitRun(t *testing.T) {
	options := servertest.Options{Module: servertest.Module(t)}
	primary := servertest.Start(t, options)
	replica := servertest.StartReplica(t, primary, options)
	client, promoted := primary.Client(t), replica.Client(t)
	var current atomic.Pointer[servertest.Server]
	current.Store(primary)
	lose := func([]byte) bool { return rand.IntN(300) == 0 }
	c := startCrowd(t, servertest.Proxy(t, func() string { return current.Load().Addr() }, lose))
	count := func(field string) int64 { return servertest.InfoField(t, client, "funnel", field) }
	servertest.Eventually(t, "work", func() bool { return count("funnel_allowed") > 100 })

	begin := time.Now()
	seconds := servertest.QuickOrLong(3, 60)
	end := begin.Add(time.Duration(seconds+1) * time.Second)
	c.known = begin.Add(twenty.TTL).UnixMilli()
	for second := range seconds {
		time.Sleep(time.Until(begin.Add(time.Duration(second+1) * time.Second)))
		c.disturb(t, second)
		c.noteUnused(t, client, end)
	}
	time.Sleep(time.Until(end))
	asked := count("funnel_limited") + count("funnel_allowed")

	own, err := holdThroughFailover(t, c.addr, promoted, func() {
		servertest.Promote(t, client, promoted)
		current.Store(replica)
		primary.Kill()
	})
	c.kill()
	left := promoted.PTTL(t.Context(), "slots").Val()
	require.True(t, left != -1 && left <= twenty.TTL+time.Millisecond, "all slots are back in %v", left)

	stretches := c.stretches()
	most := mostAtOnce(changesOf(append(stretches, own)))
	pieces, used := finished(stretches, begin.UnixMicro(), end.UnixMicro())
	possible := 20*end.Sub(begin).Microseconds() - c.unused
	use, calls := float64(used)/float64(possible), float64(asked)/float64(pieces)
	t.Logf("%d pieces of work, at most %d at once; %.3f in use; %.2f calls for each", pieces, most, use, calls)
	require.LessOrEqual(t, most, int64(20), "slots held at once")
	require.NoError(t, err, "the replica has renewed the test's slot")
	// The second figures are for a machine that is not busy.
	require.GreaterOrEqual(t, use, servertest.QuickOrLong(0.5, 0.9), "share of the slots' time in use")
	require.LessOrEqual(t, calls, servertest.QuickOrLong(20.0, 6.0), "calls for each piece of work")
}

// A crowd is ten processes that share twenty slots, and what they have printed.
type crowd struct {
	addr      string
	processes [10]*exec.Cmd
	output    string

	// unused is how long slots were held by processes that had been killed or stopped, in
	// microseconds: nobody could use them.
	unused int64
	known  int64 // the latest end of a slot that noteUnused has counted, in milliseconds
}

func startCrowd(t *testing.T, addr string) *crowd {
	c := &crowd{addr: addr}
	for i := range c.processes {
		c.processes[i] = start(t, "slots", addr)
	}
	return c
}

// disturb kills a process and starts it again. Every third time it also stops another process for
// longer than the ttl.
func (c *crowd) disturb(t *testing.T, turn int) {
	killed := &c.processes[turn%10]
	c.output += kill(*killed)
	*killed = start(t, "slots", c.addr)
	if turn%3 == 0 {
		stopped := c.processes[(turn+5)%10].Process
		stopped.Signal(syscall.SIGSTOP)
		time.AfterFunc(twenty.TTL+time.Second, func() { stopped.Signal(syscall.SIGCONT) })
	}
}

// noteUnused adds up how long the slots that are held now remain without use. Work takes 50 ms at
// most. If a slot was taken before now and is still held half a second later, its process was
// killed or stopped, and may not have printed it.
func (c *crowd) noteUnused(t *testing.T, client *redis.Client, end time.Time) {
	now := time.Now()
	ends := now.Add(twenty.TTL).UnixMilli()
	time.Sleep(time.Second / 2)
	for _, held := range client.ZRangeByScoreWithScores(t.Context(), "slots", &redis.ZRangeBy{
		Min: fmt.Sprint("(", c.known), Max: fmt.Sprint(ends),
	}).Val() {
		c.unused += min(int64(held.Score)*1000, end.UnixMicro()) - now.UnixMicro()
	}
	c.known = ends
}

// kill kills all processes.
func (c *crowd) kill() {
	for _, process := range c.processes {
		c.output += kill(process)
	}
}

// stretches returns what the processes have printed: of each piece of work the last line, which
// says whether it has ended.
func (c *crowd) stretches() []stretch {
	byName := map[string]stretch{}
	for line := range strings.Lines(c.output) {
		name, held := readStretch(line)
		byName[name] = held
	}
	return slices.Collect(maps.Values(byName))
}

// holdThroughFailover holds a slot while failOver lets a replica take over, until the replica has
// renewed the slot or the slot is lost. It returns when the slot was held, and an error if it was
// lost.
func holdThroughFailover(t *testing.T, addr string, promoted *redis.Client, failOver func()) (stretch, error) {
	ctx := t.Context()
	var slot *limiter.Acquisition
	l := limiter.New(redis.NewClient(&redis.Options{Addr: addr}))
	servertest.Eventually(t, "the test has a slot, too", func() bool {
		slot, _ = l.TryAcquire(ctx, limiter.Slots{Max: 20, TTL: 3 * twenty.TTL}.At("slots"))
		return !slot.Limited()
	})
	own := stretch{from: time.Now().UnixMicro()}
	failOver()
	// The test's slot ends last, because its ttl is the longest.
	last := fmt.Sprintf("(%.0f", promoted.ZRevRangeWithScores(ctx, "slots", 0, 0).Val()[0].Score)
	servertest.Eventually(t, "it is renewed, or lost", func() bool {
		return promoted.ZCount(ctx, "slots", last, "inf").Val() > 0 || slot.Context().Err() != nil
	})
	own.until = time.Now().UnixMicro()
	lost := slot.Context().Err()
	_ = slot.Release(ctx)
	uncertain, err := l.Drain(ctx)
	require.NoError(t, err)
	require.Zero(t, uncertain, "it is given back")
	return own, lost
}

// finished returns how many pieces of work ended between two instants, and how long they held their
// slots within that time, in microseconds.
func finished(stretches []stretch, begin, end int64) (pieces, used int64) {
	for _, held := range stretches {
		within := min(held.until, end) - max(held.from, begin)
		if within > 0 && held.ended {
			used += within
			pieces++
		}
	}
	return pieces, used
}

// readStretch reads a line that work has printed.
func readStretch(line string) (name string, held stretch) {
	fmt.Sscan(line, &name, &held.from, &held.until, &held.ended)
	return name, held
}

// changesOf returns the instants at which slots were taken, each with 1, and given back, each with
// -1.
func changesOf(stretches []stretch) (changes [][2]int64) {
	for _, held := range stretches {
		changes = append(changes, [2]int64{held.from, 1}, [2]int64{max(held.from, held.until), -1})
	}
	return changes
}

// mostAtOnce returns the largest number of slots that were held at one instant. A change is an
// instant, and 1 or -1.
func mostAtOnce(changes [][2]int64) (most int64) {
	slices.SortFunc(changes, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	held := int64(0)
	for _, change := range changes {
		held += change[1]
		most = max(most, held)
	}
	return most
}

// ten are the slots that all processes wait for.
var ten = limiter.Slots{Max: 10, TTL: 2 * time.Second}

// waitInLine is the program of 64 workers who wait in one line.
func waitInLine(addr string) {
	l := limiter.New(redis.NewClient(&redis.Options{Addr: addr}))
	for worker := range 64 {
		go work(l, ten, fmt.Sprint(os.Getpid(), ":", worker))
	}
	select {}
}

func TestLinesShareSlots(t *testing.T) {
	server := servertest.StartModule(t)
	client := server.Client(t)
	count := func(field string) int64 { return servertest.InfoField(t, client, "funnel", field) }
	asked := func() int64 { return count("funnel_limited") + count("funnel_allowed") }
	var processes [4]*exec.Cmd
	for i := range processes {
		processes[i] = start(t, "lines", server.Addr())
	}
	servertest.Eventually(t, "work", func() bool { return count("funnel_allowed") > 300 })
	calls := -asked()
	from := time.Now().UnixMicro()
	time.Sleep(servertest.QuickOrLong(3*time.Second, 20*time.Second))
	calls, until := calls+asked(), time.Now().UnixMicro()

	var pieces, used, overtaken int64
	var shares [4]float64
	for i, process := range processes {
		var newest int64 // the latest begin of a wait that got a slot
		for line := range strings.Lines(kill(process)) {
			_, held := readStretch(line)
			began := held.until - ten.TTL.Microseconds()
			switch {
			case held.from < from || held.from >= until:
			case held.ended:
				used += min(held.until, until) - held.from
			default:
				overtaken, newest = max(overtaken, newest-began), max(newest, began)
				shares[i]++
				pieces++
			}
		}
	}
	use, each := float64(used)/float64(10*(until-from)), float64(calls)/float64(pieces)
	t.Logf("%.3f in use; %.2f calls for each of %d slots, of which the processes got %v; overtaken by %d µs",
		use, each, pieces, shares, overtaken)
	require.Less(t, overtaken, int64(250_000),
		"microseconds by which a caller began to wait later than another one, and was served earlier")
	// The second figures are for a machine that is not busy.
	require.LessOrEqual(t, each, servertest.QuickOrLong(6.0, 3.0))
	require.GreaterOrEqual(t, use, servertest.QuickOrLong(0.5, 0.95))
	for _, share := range shares {
		require.GreaterOrEqual(t, share/float64(pieces), servertest.QuickOrLong(0.05, 0.15))
	}
}
