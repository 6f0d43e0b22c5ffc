// No more work runs at once than there are slots, by an observer's account, whatever becomes of
// processes, answers and servers.

package slots_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

var twenty = limiter.Slots{Limit: 20, TTL: 2 * time.Second}

// TestMain is the program of the workers, too. It ends when its output is no longer read.
func TestMain(m *testing.M) {
	addr := os.Getenv("FUNNEL_TEST_WORKERS")
	if addr == "" {
		os.Exit(m.Run())
	}
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
	slot, _, _ := l.Acquire(ctx, "slots", twenty)
	for pause := 25 * time.Millisecond; slot == nil; pause = min(2*pause, time.Second/2) {
		time.Sleep(pause/2 + rand.N(pause))
		sent = time.Now()
		slot, _, _ = l.Acquire(ctx, "slots", twenty)
	}
	fmt.Println(name, time.Now().UnixMicro(), sent.Add(twenty.TTL).UnixMicro())
	select {
	case <-time.After(time.Millisecond + rand.N(49*time.Millisecond)):
	case <-slot.Context().Done():
	}
	if now := time.Now(); slot.Context().Err() == nil {
		fmt.Println(name, 0, now.UnixMicro())
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

	pipe, observer, err := os.Pipe()
	require.NoError(t, err)
	spans, observed := map[string]*span{}, make(chan struct{})
	go func() {
		defer close(observed)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			var name string
			var told span
			fmt.Sscan(lines.Text(), &name, &told.from, &told.until)
			if held := spans[name]; held == nil {
				spans[name] = &told
			} else {
				held.until, held.ended = told.until, true
			}
		}
	}()
	start := func() *exec.Cmd {
		process := exec.Command(os.Args[0])
		process.Env, process.Stdout = append(os.Environ(), "FUNNEL_TEST_WORKERS="+addr), observer
		require.NoError(t, process.Start())
		t.Cleanup(func() { process.Process.Kill() })
		return process
	}
	var processes [10]*exec.Cmd
	for i := range processes {
		processes[i] = start()
	}
	count := func(field string) int64 { return servertest.InfoField(t, client, "funnel", field) }
	servertest.Eventually(t, "work", func() bool { return count("funnel_allowed") > 100 })
	begin, seconds := time.Now(), servertest.QuickOrLong(3, 60)
	lost, known := int64(0), begin.Add(twenty.TTL).UnixMilli()
	end := begin.Add(time.Duration(seconds+1) * time.Second).UnixMicro()
	for second := range seconds {
		time.Sleep(time.Until(begin.Add(time.Duration(second+1) * time.Second)))
		killed, stopped := processes[second%10], processes[(second+5)%10].Process
		killed.Process.Kill()
		killed.Wait()
		processes[second%10] = start()
		if second%3 == 0 {
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
		slot, _, _ = l.Acquire(ctx, "slots", limiter.Slots{Limit: 20, TTL: 3 * twenty.TTL})
		return slot != nil
	})
	own := span{from: time.Now().UnixMicro()}
	require.NoError(t, client.Do(ctx, "client", "pause", 60_000, "write").Err())
	servertest.AwaitReplicas(t, client, promoted)
	require.NoError(t, promoted.ReplicaOf(ctx, "no", "one").Err())
	current.Store(replica)
	primary.Kill()
	last := fmt.Sprintf("(%.0f", promoted.ZRevRangeWithScores(ctx, "slots", 0, 0).Val()[0].Score) // the test's
	servertest.Eventually(t, "it is renewed, or lost", func() bool {
		return promoted.ZCount(ctx, "slots", last, "inf").Val() > 0 || slot.Context().Err() != nil
	})
	own.until = time.Now().UnixMicro()
	err = slot.Context().Err()
	servertest.Eventually(t, "it is given back", func() bool { return slot.Release(ctx) == nil })
	for _, process := range processes {
		process.Process.Kill()
		process.Wait()
	}
	observer.Close()
	<-observed
	left := promoted.PTTL(ctx, "slots").Val()
	require.True(t, left != -1 && left <= twenty.TTL+time.Millisecond, "all slots are back in %v", left)

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
