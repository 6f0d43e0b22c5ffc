// Limits hold by an observer's account, whatever becomes of processes, answers and servers: no more work runs at
// once than there are slots, and no more tokens are used in any stretch of time than the bound of leases.

package observed_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
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
	"funnel/limiter/lease"
)

// TestMain is the programs, too. They tell what they do, and end when their output is no longer read.
func TestMain(m *testing.M) {
	programs := map[string]func(addr string){"slots": holdSlots, "leases": useLeases}
	if program := programs[os.Args[1]]; program != nil {
		program(os.Args[2])
	}
	os.Exit(m.Run())
}

func start(t *testing.T, program, addr string) *exec.Cmd {
	process := exec.Command(os.Args[0], program, addr)
	process.Stdout = &bytes.Buffer{}
	require.NoError(t, process.Start())
	t.Cleanup(func() { process.Process.Kill() })
	return process
}

// kill returns what a process has told.
func kill(process *exec.Cmd) string {
	process.Process.Kill()
	process.Wait()
	return process.Stdout.(*bytes.Buffer).String()
}

var twenty = limiter.Slots{Max: 20, TTL: 2 * time.Second}

// holdSlots is the program of 50 workers.
func holdSlots(addr string) {
	for worker := range 50 { // every other one repeats a call without an answer
		l := limiter.New(redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 4*(worker%2) - 1}))
		go func() {
			for piece := 0; ; piece++ {
				work(l, fmt.Sprint(os.Getpid(), ":", worker, ":", piece))
			}
		}()
	}
	select {}
}

// work asks for a slot until it has one, works, and gives it back twice. It tells when it begins, until
// when the slot surely runs, and when it ends, unless it has lost the slot.
func work(l *limiter.Limiter, name string) {
	ctx, sent := context.Background(), time.Now()
	got, _ := l.TryAcquire(ctx, "slots", twenty)
	for pause := 25 * time.Millisecond; got.Limited(); pause = min(2*pause, time.Second/2) {
		time.Sleep(pause/2 + rand.N(pause))
		sent = time.Now()
		got, _ = l.TryAcquire(ctx, "slots", twenty)
	}
	slot, begun := got.Slot, time.Now()
	fmt.Println(name, begun.UnixMicro(), sent.Add(twenty.TTL).UnixMicro(), false)
	select {
	case <-time.After(time.Millisecond + rand.N(49*time.Millisecond)):
	case <-slot.Context().Done():
	}
	if now := time.Now(); slot.Context().Err() == nil {
		fmt.Println(name, begun.UnixMicro(), now.UnixMicro(), true)
	}
	for slot.Release(ctx) != nil {
	}
	_ = slot.Release(ctx)
}

// A span is the time in which a holder surely has a slot, in microseconds.
type span struct {
	from, until int64
	ended       bool // the holder has not crashed, nor lost its slot
}

// TestNoMoreThanTheLimitRun: each second, of ten processes one is killed and started again, and at
// times one is stopped for longer than the ttl. Answers are lost. In the end a replica takes over.
func TestNoMoreThanTheLimitRun(t *testing.T) {
	ctx, options := t.Context(), servertest.Options{Module: servertest.Module(t)}
	primary := servertest.Start(t, options)
	replica := servertest.StartReplica(t, primary, options)
	client, promoted := primary.Client(t), replica.Client(t)
	var current atomic.Pointer[servertest.Server]
	current.Store(primary)
	lose := func([]byte) bool { return rand.IntN(300) == 0 }
	addr := servertest.Proxy(t, func() string { return current.Load().Addr() }, lose)

	told, processes := "", [10]*exec.Cmd{}
	for i := range processes {
		processes[i] = start(t, "slots", addr)
	}
	count := func(field string) int64 { return servertest.InfoField(t, client, "funnel", field) }
	servertest.Eventually(t, "work", func() bool { return count("funnel_allowed") > 100 })
	begin, seconds := time.Now(), servertest.QuickOrLong(3, 60)
	lost, known := int64(0), begin.Add(twenty.TTL).UnixMilli()
	end := begin.Add(time.Duration(seconds+1) * time.Second).UnixMicro()
	for second := range seconds {
		time.Sleep(time.Until(begin.Add(time.Duration(second+1) * time.Second)))
		told += kill(processes[second%10])
		processes[second%10] = start(t, "slots", addr)
		if stopped := processes[(second+5)%10].Process; second%3 == 0 {
			stopped.Signal(syscall.SIGSTOP)
			time.AfterFunc(twenty.TTL+time.Second, func() { stopped.Signal(syscall.SIGCONT) })
		}
		// Work takes 50 ms at most, so slots that were taken before now and run on are of the dead, or
		// of the stopped. Their holders may not have told.
		now := time.Now()
		ends := now.Add(twenty.TTL).UnixMilli()
		time.Sleep(time.Second / 2)
		for _, held := range client.ZRangeByScoreWithScores(ctx, "slots", &redis.ZRangeBy{
			Min: fmt.Sprint("(", known), Max: fmt.Sprint(ends),
		}).Val() {
			lost += min(int64(held.Score)*1000, end) - now.UnixMicro()
		}
		known = ends
	}
	time.Sleep(time.Until(time.UnixMicro(end)))
	asked := count("funnel_limited") + count("funnel_allowed")

	var slot *limiter.Slot
	l := limiter.New(redis.NewClient(&redis.Options{Addr: addr}))
	servertest.Eventually(t, "the test has a slot, too", func() bool {
		got, _ := l.TryAcquire(ctx, "slots", limiter.Slots{Max: 20, TTL: 3 * twenty.TTL})
		slot = got.Slot
		return slot != nil
	})
	own := span{from: time.Now().UnixMicro()}
	servertest.Promote(t, client, promoted)
	current.Store(replica)
	primary.Kill()
	last := fmt.Sprintf("(%.0f", promoted.ZRevRangeWithScores(ctx, "slots", 0, 0).Val()[0].Score) // the test's
	servertest.Eventually(t, "it is renewed, or lost", func() bool {
		return promoted.ZCount(ctx, "slots", last, "inf").Val() > 0 || slot.Context().Err() != nil
	})
	own.until = time.Now().UnixMicro()
	err := slot.Context().Err()
	servertest.Eventually(t, "it is given back", func() bool { return slot.Release(ctx) == nil })
	for _, process := range processes {
		told += kill(process)
	}
	left := promoted.PTTL(ctx, "slots").Val()
	require.True(t, left != -1 && left <= twenty.TTL+time.Millisecond, "all slots are back in %v", left)

	spans := map[string]span{}
	for line := range strings.Lines(told) {
		var name string
		var held span
		fmt.Sscan(line, &name, &held.from, &held.until, &held.ended)
		spans[name] = held
	}
	changes := [][2]int64{{own.from, 1}, {own.until, -1}}
	var pieces, used, running, most int64
	for _, held := range spans {
		changes = append(changes, [2]int64{held.from, 1}, [2]int64{max(held.from, held.until), -1})
		if within := min(held.until, end) - held.from; within > 0 && held.ended {
			used += within
			pieces++
		}
	}
	slices.SortFunc(changes, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	for _, change := range changes {
		running += change[1]
		most = max(most, running)
	}
	use, calls := float64(used)/float64(20*(end-begin.UnixMicro())-lost), float64(asked)/float64(pieces)
	t.Logf("%d pieces of work, at most %d at once; %.3f in use; %.2f calls for each", pieces, most, use, calls)
	require.LessOrEqual(t, most, int64(20))
	require.NoError(t, err, "the replica has renewed the test's slot")
	if servertest.QuickOrLong(false, true) { // for a machine that is not busy
		require.GreaterOrEqual(t, use, 0.9)
		require.LessOrEqual(t, calls, 6.0)
	}
}

const capacity, interval, d = 400, time.Second / 2000, 50 * time.Millisecond

// In a cycle processes ask steadily for twice what there is. When the funnel is empty they take tokens ahead, and
// when these have lapsed they ask for all at once. In one cycle the answers to the former are late until then, in
// the next those to the latter are lost.
const cycle, steady, ahead, burst = 24 * d, 7 * d, 11 * d, 14 * d

func intoTwoCycles() time.Duration { return time.Since(time.Now().Truncate(2 * cycle)) }

// useLeases is the program of a process. It tells when each call began and ended, and what it got: the tokens are
// used anywhere in between, where a process may be stopped.
func useLeases(addr string) {
	late := limiter.WithHook(func(context.Context, limiter.Event) {
		if into := intoTwoCycles(); into > ahead {
			time.Sleep(burst - into)
		}
	})
	leases := lease.New(limiter.New(redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1}), late), d)
	ask := func(quantity int) {
		began := time.Now()
		ctx, cancel := context.WithDeadline(context.Background(), began.Add(2*d))
		defer cancel()
		result, _ := leases.AllowN(ctx, "key", limiter.Every(interval).WithCapacity(capacity), quantity)
		fmt.Println(began.UnixNano(), time.Now().UnixNano(), result.Allowed)
	}
	for at := time.Now().Truncate(d); ; at = at.Add(10 * interval) {
		time.Sleep(time.Until(at))
		switch into := at.Sub(at.Truncate(cycle)); {
		case into < steady:
			ask(1)
		case into == ahead:
			ask(16)
		case into == burst:
			for range 3 {
				go ask(16)
			}
		}
	}
}

// TestLeasesKeepTheirBound: in each cycle, of twenty processes one is killed and started again, and one is stopped
// for longer than d. While they ask steadily, they get most of what is possible.
func TestLeasesKeepTheirBound(t *testing.T) {
	addr := servertest.Proxy(t, servertest.StartModule(t).Addr, func([]byte) (lose bool) {
		return intoTwoCycles() > cycle+burst && intoTwoCycles() < cycle+burst+d/5
	})
	told, processes := "", [20]*exec.Cmd{}
	for i := range processes {
		processes[i] = start(t, "leases", addr)
	}
	begin, cycles := time.Now().Add(4*d).Truncate(cycle).Add(cycle), servertest.QuickOrLong(2, 50)
	for i := range cycles {
		time.Sleep(time.Until(begin.Add(time.Duration(i)*cycle + ahead + time.Duration(i%4)*d)))
		told += kill(processes[i%20])
		processes[i%20] = start(t, "leases", addr)
		stopped := processes[(i+10)%20].Process
		stopped.Signal(syscall.SIGSTOP)
		time.AfterFunc(2*d, func() { stopped.Signal(syscall.SIGCONT) })
	}
	time.Sleep(4 * d)
	for _, process := range processes {
		told += kill(process)
	}

	var changes [][2]int64
	calls, granted := 0, 0
	for line := range strings.Lines(told) {
		var began, ended, tokens int64
		fmt.Sscan(line, &began, &ended, &tokens)
		for range tokens {
			changes = append(changes, [2]int64{began, 0}, [2]int64{ended, 1})
		}
		if since := time.Duration(began - begin.UnixNano()); since >= 0 && since%cycle < steady {
			calls, granted = calls+1, granted+int(tokens)
		}
	}
	slices.SortFunc(changes, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	began, ended, least, worst := 0.0, 0.0, math.Inf(1), 0.0
	for _, change := range changes { // in a stretch are what ended by its end, less what began before it
		leaked := float64(change[0]-begin.UnixNano()) / float64(interval)
		if change[1] == 0 {
			least, began = min(least, began-leaked), began+1
		} else {
			worst, ended = max(worst, ended+1-leaked-least), ended+1
		}
	}
	share := float64(granted) / float64(min(calls, cycles*int(capacity+steady/interval)))
	t.Logf("%.0f tokens; %.1f in the worst stretch; %.3f of what is possible", ended, worst, share)
	require.LessOrEqual(t, worst, float64(capacity+d/interval))
	require.GreaterOrEqual(t, share, servertest.QuickOrLong(0.2, 0.8)) // 0.8 is for a machine that is not busy
}
