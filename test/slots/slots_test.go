// No more work runs at once than there are slots, by the account of an observer, whatever becomes of
// processes, answers and servers.

package slots_test

import (
	"bufio"
	"cmp"
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

// A span is the time in which a holder surely has a slot, in Unix microseconds. It is open while
// nobody has told that the work ended: the holder has crashed, has lost its slot, or works.
type span struct {
	from, until int64
	ended       bool
}

// account reads what the workers tell, until all processes are gone. It returns the spans and the
// number of answered calls.
func account(pipe *os.File) (spans map[string]*span, answers int) {
	spans = map[string]*span{}
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		var name string
		var from, until int64
		fmt.Sscan(lines.Text(), &name, &from, &until)
		if from > 0 {
			answers++
		}
		held := spans[name]
		switch {
		case until == 0 || held != nil && held.ended: // limited, or the answer to a renewal is late
		case held == nil:
			spans[name] = &span{from: from, until: until}
		default:
			held.until, held.ended = until, from == 0
		}
	}
	return spans, answers
}

// TestNoMoreThanTheLimitRun: each second, of ten processes one is killed and started again, and now
// and then one is stopped for longer than the ttl. Answers are lost. In the end the primary fails, and
// its replica goes on. The processes and the servers share a clock.
func TestNoMoreThanTheLimitRun(t *testing.T) {
	options := servertest.Options{Module: servertest.Module(t)}
	primary := servertest.Start(t, options)
	replica := servertest.StartReplica(t, primary, options)
	var current atomic.Pointer[servertest.Server]
	current.Store(primary)
	addr := servertest.Proxy(t, func() string { return current.Load().Addr() }, func([]byte) bool { return rand.IntN(300) == 0 })
	pipe, observer, err := os.Pipe()
	require.NoError(t, err)
	var spans map[string]*span
	var answers int
	told := make(chan struct{})
	go func() { spans, answers = account(pipe); close(told) }()

	var processes [10]*exec.Cmd
	for i := range processes {
		processes[i] = startWorkers(t, addr, observer)
	}
	begin := time.Now()
	end := begin.Add(servertest.QuickOrLong(3*time.Second, time.Minute))
	for second := range int(end.Sub(begin) / time.Second) {
		time.Sleep(time.Until(begin.Add(time.Duration(second+1) * time.Second)))
		killed, stopped := &processes[second%10], processes[(second+5)%10]
		(*killed).Process.Kill()
		(*killed).Wait()
		*killed = startWorkers(t, addr, observer)
		if second%3 == 0 {
			stopped.Process.Signal(syscall.SIGSTOP)
			time.AfterFunc(twenty.TTL+time.Second/4, func() { stopped.Process.Signal(syscall.SIGCONT) })
		}
	}
	var slot *limiter.Slot
	l := limiter.New(redis.NewClient(&redis.Options{Addr: addr}))
	servertest.Eventually(t, "the test has a slot", func() bool {
		slot, _, err = l.Acquire(t.Context(), "slots", twenty)
		return slot != nil
	})
	from := time.Now().UnixMicro()
	require.NoError(t, primary.Client(t).Do(t.Context(), "client", "pause", 60_000, "write").Err())
	servertest.AwaitReplicas(t, primary.Client(t), replica.Client(t))
	require.NoError(t, replica.Client(t).ReplicaOf(t.Context(), "no", "one").Err())
	current.Store(replica)
	primary.Kill()
	time.Sleep(twenty.TTL)
	until := time.Now().UnixMicro()
	require.NoError(t, slot.Context().Err(), "it was renewed on the replica")
	servertest.Eventually(t, "the slot is released", func() bool { return slot.Release(t.Context()) == nil })
	for _, process := range processes {
		process.Process.Signal(syscall.SIGTERM)
	}
	for _, process := range processes {
		require.NoError(t, process.Wait())
	}
	observer.Close()
	<-told
	spans["the test"] = &span{from, until, true}

	last := replica.Client(t).ZRevRangeWithScores(t.Context(), "slots", 0, 0).Val()
	require.True(t, len(last) == 0 || int64(last[0].Score) <= time.Now().Add(twenty.TTL).UnixMilli(), "a ttl later all slots are back: %v", last)

	var held, lost, pieces int64
	changes := make([][2]int64, 0, 2*len(spans))
	for _, span := range spans {
		if span.until > span.from {
			changes = append(changes, [2]int64{span.from, 1}, [2]int64{span.until, -1})
		}
		within := max(0, min(span.until, end.UnixMicro())-span.from)
		if span.ended {
			held, pieces = held+within, pieces+1
		} else {
			lost += within
		}
	}
	slices.SortFunc(changes, func(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	running, most := int64(0), int64(0)
	for _, change := range changes {
		running += change[1]
		most = max(most, running)
	}
	use := float64(held) / float64(20*end.Sub(begin).Microseconds()-lost)
	asked := float64(answers) / float64(pieces)
	t.Logf("%d pieces of work, at most %d at once; %.3f of the slots in use, %.2f of the time lost; %.2f calls for each", pieces, most, use,
		float64(lost)/float64(20*end.Sub(begin).Microseconds()), asked)
	require.LessOrEqual(t, most, int64(20))
	if servertest.QuickOrLong(false, true) { // a busy machine has other figures
		require.GreaterOrEqual(t, use, 0.9)
		require.LessOrEqual(t, asked, 6.0)
	}
}
