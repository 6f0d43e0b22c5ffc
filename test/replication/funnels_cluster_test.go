package replication_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// Calls of several funnels in a cluster.

// calm is a node timeout at which no node is given up only because the machine is busy.
const calm = time.Minute

var funnelsCommands = []string{"cl.reserve", "cl.peek", "cl.charge", "cl.refund"}

// TestClusterFunnelsOfOneCallAreInOneSlot, which hash tags see to, and stay together while
// the slot moves.
func TestClusterFunnelsOfOneCallAreInOneSlot(t *testing.T) {
	cluster := servertest.StartCluster(t, 2, calm, servertest.Options{Module: servertest.Module(t)})
	ctx := context.Background()
	client := cluster.Client(t)
	slot := cluster.Slot(t, "{u}")
	from, to := cluster.Primaries[0], cluster.Primaries[1]
	replica := cluster.Replicas[0].Direct
	if cluster.Owner(slot) != from {
		from, to = to, from
		replica = cluster.Replicas[1].Direct
	}
	line := func(command string, keys ...string) string {
		for _, key := range keys {
			command += fmt.Sprintf(" %s 5 1 %d 1", key, servertest.StillPeriod)
		}
		return command
	}
	do := func(client servertest.Commander, line string) error {
		return client.Do(ctx, servertest.Words(line)...).Err()
	}

	for _, command := range funnelsCommands {
		require.ErrorContains(t, do(from.Direct, line(command, "{u}:1", "{v}:1")), "CROSSSLOT", command)
		require.ErrorContains(t, do(from.Direct, line(command, "{u}:1", "{u}:2", "{v}:1")), "CROSSSLOT", command)
		require.ErrorContains(t, do(to.Direct, line(command, "{u}:1", "{u}:2")), fmt.Sprintf("MOVED %d %s", slot, from.Addr()), command)
		require.NoError(t, do(client, line(command, "{u}:1", "{u}:2", "{u}:3")), command)
	}
	require.NoError(t, do(client, line("cl.charge", "{u}:1", "{u}:2")))
	require.NoError(t, do(from.Direct, line("cl.reserve", "{u}:1")+" 0"), "max_wait is no key")

	// A replica answers those who say that they want that, and reads only.
	connection := replica.Conn()
	defer connection.Close()
	servertest.AwaitReplicas(t, from.Direct, replica)
	require.ErrorContains(t, do(connection, line("cl.peek", "{u}:1", "{u}:2")), "MOVED")
	require.NoError(t, do(connection, "readonly"))
	held := servertest.WithoutTimes
	peeked := servertest.Funnels(t, client, line("cl.peek", "{u}:1", "{u}:2", "{u}:new"))
	require.Equal(t, held(peeked), held(servertest.Funnels(t, connection, line("cl.peek", "{u}:1", "{u}:2", "{u}:new"))))
	require.ErrorContains(t, do(connection, line("cl.reserve", "{u}:1", "{u}:2")), "MOVED")

	// While the slot moves.
	asking := to.Direct.Conn()
	defer asking.Close()
	ask := func(line string) error {
		require.NoError(t, do(asking, "asking"))
		return do(asking, line)
	}
	move := cluster.Move(slot, from, to)
	move.Begin(t)
	for _, command := range funnelsCommands {
		require.NoError(t, do(from.Direct, line(command, "{u}:1", "{u}:2")), "%s: both are here", command)
		require.ErrorContains(t, do(from.Direct, line(command, "{u}:8", "{u}:9")), "ASK", "%s: neither is here", command)
		require.ErrorContains(t, do(from.Direct, line(command, "{u}:1", "{u}:9")), "TRYAGAIN", "%s: one is here", command)
		require.ErrorContains(t, do(from.Direct, line(command, "{u}:9", "{u}:1")), "TRYAGAIN", "%s: one is here", command)
		require.ErrorContains(t, ask(line(command, "{u}:8", "{u}:9")), "TRYAGAIN", "%s: none has come", command)
	}
	before := servertest.Funnels(t, from.Direct, line("cl.peek", "{u}:1", "{u}:2"))
	for move.MoveKeys(t, 10) > 0 {
	}
	require.Zero(t, from.Direct.DBSize(ctx).Val())
	require.NoError(t, do(asking, "asking"))
	require.Equal(t, held(before), held(servertest.Funnels(t, asking, line("cl.peek", "{u}:1", "{u}:2"))))
	require.NoError(t, ask(line("cl.charge", "{u}:1", "{u}:2")))
	require.ErrorContains(t, do(from.Direct, line("cl.charge", "{u}:1", "{u}:2")), "ASK")
	move.End(t)
	require.NoError(t, do(client, line("cl.refund", "{u}:1", "{u}:2")))
	require.Equal(t, held(before), held(servertest.Funnels(t, to.Direct, line("cl.peek", "{u}:1", "{u}:2"))))
}

// A book is what clients know of still funnels: how many tokens each of them holds. The
// funnels of a group are in one slot.
type book struct {
	capacity int64
	groups   [][]page
	open     atomic.Int64 // how many funnels of each group are in use

	calls, limited, failed atomic.Int64
	lastError              atomic.Value
}

type page struct {
	key    string
	tokens *atomic.Int64
}

func newBook(capacity int64, groups, funnels int) *book {
	b := &book{capacity: capacity}
	for g := range groups {
		var group []page
		for f := range funnels {
			group = append(group, page{fmt.Sprintf("{group:%d}:%d", g, f), new(atomic.Int64)})
		}
		b.groups = append(b.groups, group)
	}
	b.open.Store(int64(funnels))
	return b
}

// call asks for a token in each of the pages, or gives it back, and enters what came of it:
// the pages in which a token went in or out, or else those that limited the call.
func (b *book) call(client servertest.Commander, command string, pages []page) (done, full []page) {
	for _, page := range pages {
		command += fmt.Sprintf(" %s %d 1 %d 1", page.key, b.capacity, servertest.StillPeriod)
	}
	reply, err := client.Do(context.Background(), servertest.Words(command)...).Slice()
	if err != nil {
		if strings.HasPrefix(err.Error(), "TRYAGAIN") {
			return nil, nil // the client gave up; nothing was poured
		}
		b.failed.Add(1)
		b.lastError.Store(err.Error())
		time.Sleep(time.Millisecond)
		return nil, nil
	}
	b.calls.Add(1)
	change := int64(1)
	if strings.HasPrefix(command, "cl.refund") {
		change = -1
	} else if reply[0] != int64(0) {
		b.limited.Add(1)
		for i, row := range reply[2].([]any) {
			if row.([]any)[0] != int64(0) {
				full = append(full, pages[i])
			}
		}
		return nil, full
	}
	for _, page := range pages {
		page.tokens.Add(change)
	}
	return pages, nil
}

// hammer has some clients reserve in two or three funnels of a group at once, and give
// back at times, and when one is full, until the function that it returns is called. A
// funnel never becomes empty so: what is given back has been there.
func (b *book) hammer(client servertest.Commander) (stop func()) {
	const clients = 6
	var stopping atomic.Bool
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for !stopping.Load() {
				group := b.groups[rand.IntN(len(b.groups))][:b.open.Load()]
				var pages []page
				for _, index := range rand.Perm(len(group))[:2+rand.IntN(2)] {
					pages = append(pages, group[index])
				}
				done, full := b.call(client, "cl.reserve", pages)
				if back := append(done, full...); len(back) > 0 && rand.IntN(4) < 1+2*len(full) {
					b.call(client, "cl.refund", back)
				}
			}
		})
	}
	return func() {
		stopping.Store(true)
		running.Wait()
	}
}

func (b *book) awaitCalls(t testing.TB, more int64) {
	t.Helper()
	target := b.calls.Load() + more
	servertest.Eventually(t, "the clients go on", func() bool { return b.calls.Load() >= target || b.failed.Load() > 0 })
}

// requireAgrees requires that the funnels hold what clients have in them: nothing was lost
// and nothing poured twice.
func (b *book) requireAgrees(t testing.TB, client servertest.Commander) {
	t.Helper()
	require.Zero(t, b.failed.Load(), "every call was answered: %v", b.lastError.Load())
	const room = 9000 // also for what would be too much
	total := int64(0)
	for _, group := range b.groups {
		for _, page := range group[:b.open.Load()] {
			line := fmt.Sprintf("cl.peek %s %d 1 %d 0", page.key, room, servertest.StillPeriod)
			reply, err := client.Do(context.Background(), servertest.Words(line)...).Slice()
			require.NoError(t, err)
			remaining := reply[2].([]any)[0].([]any)[2].(int64)
			require.Equal(t, page.tokens.Load(), room-remaining, "tokens in %s", page.key)
			total += page.tokens.Load()
		}
	}
	require.Positive(t, b.limited.Load())
	t.Logf("%d calls of several funnels, %d limited; %d tokens held; lost: 0, poured twice: 0",
		b.calls.Load(), b.limited.Load(), total)
}

// TestClusterFunnelsMoveWhileInUse: the slot is carried from server to server, key by key,
// while calls over several of its funnels go on.
func TestClusterFunnelsMoveWhileInUse(t *testing.T) {
	cluster := servertest.StartCluster(t, 2, calm, servertest.Options{Module: servertest.Module(t)})
	client := cluster.Client(t, func(options *redis.ClusterOptions) { options.MaxRedirects = 16 })
	moves := servertest.QuickOrLong(3, 30)
	book := newBook(100, 1, 8+2*moves)
	book.open.Store(8)
	stop := book.hammer(client)
	defer stop()

	slot := cluster.Slot(t, "{group:0}")
	from, to := cluster.Primaries[0], cluster.Primaries[1]
	if cluster.Owner(slot) != from {
		from, to = to, from
	}
	for round := range moves {
		book.awaitCalls(t, 200)
		move := cluster.Move(slot, from, to)
		move.Begin(t)
		book.open.Add(2)
		for moved := 0; ; moved++ {
			met := triedAgain(t, cluster)
			if move.MoveKeys(t, 1+round%3) == 0 {
				break
			}
			if moved == 1 {
				servertest.Eventually(t, "clients meet the slot in two halves", func() bool { return triedAgain(t, cluster) > met })
			}
		}
		move.End(t)
		from, to = to, from
	}
	servertest.Eventually(t, "funnels are full", func() bool { return book.limited.Load() > 0 || book.failed.Load() > 0 })
	stop()
	book.requireAgrees(t, client)
}

// triedAgain is how often nodes have answered TRYAGAIN. Clients do try again by themselves.
func triedAgain(t testing.TB, cluster *servertest.Cluster) (times int) {
	t.Helper()
	for _, node := range cluster.Primaries {
		info, err := node.Direct.Info(context.Background(), "errorstats").Result()
		require.NoError(t, err)
		if _, count, found := strings.Cut(info, "errorstat_TRYAGAIN:count="); found {
			number, err := strconv.Atoi(strings.Fields(count)[0])
			require.NoError(t, err)
			times += number
		}
	}
	return times
}

// TestClusterFunnelsMigrateAtomicallyWhileInUse: Valkey 9 and Redis 8.4 carry slots by
// themselves.
func TestClusterFunnelsMigrateAtomicallyWhileInUse(t *testing.T) {
	known, err := servertest.Start(t, servertest.Options{}).Client(t).
		Do(context.Background(), "command", "info", "cluster|migrateslots", "cluster|migration").Slice()
	require.NoError(t, err)
	if known[0] == nil && known[1] == nil {
		t.Skip("this server carries slots key by key only")
	}
	cluster := servertest.StartCluster(t, 2, calm, servertest.Options{
		Module: servertest.Module(t),
		// A primary without slots stays one.
		Config: []string{"--cluster-allow-replica-migration", "no"},
	})
	client := cluster.Client(t, func(options *redis.ClusterOptions) { options.MaxRedirects = 16 })
	book := newBook(20, 40, 5)
	stop := book.hammer(client)
	defer stop()
	from, to := cluster.Primaries[0], cluster.Primaries[1]
	var during int64
	for range servertest.QuickOrLong(4, 40) {
		book.awaitCalls(t, 1000)
		before := book.calls.Load()
		if known[0] != nil {
			cluster.MigrateAll(t, from, to)
		} else {
			cluster.Import(t, 8000, to)
		}
		during += book.calls.Load() - before
		from, to = to, from
	}
	servertest.Eventually(t, "funnels are full", func() bool { return book.limited.Load() > 0 || book.failed.Load() > 0 })
	stop()
	require.Positive(t, during, "calls while slots were carried")
	book.requireAgrees(t, client)
}
