// The load under which tests of this package copy and move keys, and the check of the keys
// afterwards.

package replication_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A load has workers, and counts what their calls were granted. A call takes one from each of the
// three rows of a group, two funnels and a quota, all or nothing. No funnel leaks during a test,
// and no call fails. So in the end each row of a group must hold as much as clients were granted.
type load struct {
	mutex    sync.Mutex
	granted  [100]int64 // tokens, by group
	failed   error
	answered atomic.Int64 // calls

	stopping atomic.Bool
	workers  sync.WaitGroup
}

// callOf returns a call for a group. Every other group has a funnel that is small and soon full.
func callOf(command string, group int) []any {
	small := 100_000
	if group%2 == 1 {
		small = 1 + group%16
	}
	const line = "%[1]s {%[2]d}:a 100000 1 10000 1 {%[2]d}:b 100000 UNTIL 4102444800 1 {%[2]d}:c %[3]d 1 10000 1"
	return servertest.Words(fmt.Sprintf(line, command, group, small))
}

// start starts the workers, which end with the test at the latest. The client must send every call
// at most once: a retry could take tokens twice.
func (l *load) start(t testing.TB, client redis.UniversalClient) {
	l.stopping.Store(false)
	for range 6 {
		l.workers.Go(func() {
			for !l.stopping.Load() && l.callBatch(client) {
			}
		})
	}
	t.Cleanup(l.stop)
}

// callBatch makes 16 calls, and reports whether all calls so far have succeeded.
func (l *load) callBatch(client redis.UniversalClient) bool {
	ctx := context.Background()
	pipeline := client.Pipeline()
	numbers := rand.Perm(len(l.granted))[:16]
	replies := make([]*redis.Cmd, 16)
	for i, number := range numbers {
		replies[i] = pipeline.Do(ctx, callOf("cl.reserve", number)...)
	}
	_, _ = pipeline.Exec(ctx) // each call has an error of its own
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i, number := range numbers {
		reply, err := replies[i].Slice()
		l.failed = cmp.Or(l.failed, err)
		if err == nil && reply[0] == int64(0) {
			l.granted[number]++
		}
	}
	l.answered.Add(int64(len(numbers)))
	return l.failed == nil
}

// goOn waits until the given number of further calls was answered.
func (l *load) goOn(t testing.TB, calls int64) {
	enough := l.answered.Load() + calls
	servertest.Eventually(t, "the load goes on", func() bool { return l.answered.Load() >= enough })
}

func (l *load) stop() {
	l.stopping.Store(true)
	l.workers.Wait()
}

// requireHeld requires that a server holds the tokens that were granted. No workers may be running.
func (l *load) requireHeld(t testing.TB, client redis.UniversalClient) {
	require.NoError(t, l.failed)
	require.Equal(t, l.granted[:], heldBy(t, client))
}

// heldBy returns the number of tokens in the rows of each group.
func heldBy(t testing.TB, client servertest.Commander) (tokens []int64) {
	for i := range len(load{}.granted) {
		reply, err := client.Do(context.Background(), callOf("cl.peek", i)...).Slice()
		require.NoError(t, err)
		var held []int64
		for _, row := range reply[2].([]any) {
			row := row.([]any)
			held = append(held, row[1].(int64)-row[2].(int64))
		}
		require.Len(t, slices.Compact(held), 1, "the rows of group %d hold %v: not all or none", i, held)
		tokens = append(tokens, held[0])
	}
	return tokens
}

// withModule returns the options of a server whose full copies do not wait for the work that
// servers do once a second.
func withModule(t testing.TB, more ...string) servertest.Options {
	return servertest.Options{Module: servertest.Module(t), Config: append([]string{
		"--save", "",
		"--hz", "100", // to notice soon that a copy was written
		"--repl-diskless-sync", "no", // otherwise a fast replica reports a second late
		"--repl-diskless-sync-delay", "0", // if a test sets the option above to yes
		"--repl-diskless-load", "swapdb", // otherwise Valkey 9 looks for the file only once a second
	}, more...)}
}

func awaitAttached(t testing.TB, replica *servertest.Server) {
	client := replica.Client(t)
	servertest.Eventually(t, "the replica is attached", func() bool { // a server that loads may refuse INFO
		return strings.Contains(client.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
}

// replicate makes a server a replica of the server at a port. There is no server at port 1.
func replicate(t testing.TB, replica *servertest.Server, port int) {
	require.NoError(t, replica.Client(t).ReplicaOf(context.Background(), "127.0.0.1", fmt.Sprint(port)).Err())
}

// replicationOffset is how many bytes of the stream a primary has sent, or a replica has executed.
func replicationOffset(t testing.TB, client *redis.Client) int64 {
	return servertest.InfoField(t, client, "replication", "master_repl_offset")
}
