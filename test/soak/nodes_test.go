// Calls over the nodes of a cluster: how much of what is possible they are granted, and that no
// bound is broken. The bounds of leases, and of slots that callers wait for, hold, too. Meanwhile
// nodes fail over, slots move, answers are lost and callers give up.

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

// A demand is a load on a cluster: every call takes from a limit that all tenants share and from
// its tenant's own.
type demand struct {
	name     string
	all, own limiter.Limit
	quantity int
	times    float64 // the rate of all
	greedy   float64 // times the tenant's own rate, which the first tenant asks for beside that; or 0
}

const tenants = 50

func TestNodesGrantWhatIsPossible(t *testing.T) {
	t.Parallel()
	cluster := servertest.StartCluster(t, 3, 5*time.Second, servertest.Options{Module: servertest.Module(t)})
	all, own := limiter.PerSecond(2000).WithCapacity(400), limiter.PerSecond(100).WithCapacity(20)
	thirds, ownThirds := limiter.PerSecond(2000).WithCapacity(60), limiter.PerSecond(600).WithCapacity(60)
	for _, d := range []demand{
		{"half of the rate", all, own, 1, 0.5, 0}, {"0.9 of the rate", all, own, 1, 0.9, 0},
		{"1.1 times the rate", all, own, 1, 1.1, 0}, {"twice the rate", all, own, 1, 2, 0},
		{"four times the rate", all, own, 1, 4, 0},
		{"thirds of the capacity", thirds, ownThirds, 20, 2, 0},
		{"a greedy tenant", all, own, 1, 0.9, 10},
	} {
		for _, tag := range servertest.QuickOrLong([]string{""}, []string{"{one}", ""}) { // on three nodes, and on one
			share := d.run(t, limiter.New(cluster.Client(t), limiter.WithPrefix(tag)))
			t.Logf("%s: %s %.3f of what is possible", d.name, tag, share)
			require.LessOrEqual(t, share, 1.0, d.name)
			require.GreaterOrEqual(t, share, servertest.QuickOrLong(0.5, 0.97), d.name) // for a machine that is not busy
		}
	}
}

// run lets 64 callers ask, at even intervals, and returns the share that they are granted of what
// is possible.
func (d *demand) run(t *testing.T, l *limiter.Limiter) float64 {
	const callers = 64
	var asked, granted [tenants + 1]atomic.Int64 // tokens; the last is the greedy one's
	var group sync.WaitGroup
	ask := func(tenant int) {
		key := tenant % tenants
		results, err := l.AllowAll(context.Background(), limiter.Request{Key: d.name, Limit: d.all, Quantity: d.quantity},
			limiter.Request{Key: fmt.Sprint(d.name, key), Limit: d.own, Quantity: d.quantity})
		if err != nil {
			t.Error(d.name, err)
		}
		asked[key].Add(int64(d.quantity))
		granted[key].Add(int64(results[0].Allowed))
	}
	begin := time.Now()
	lasts := servertest.QuickOrLong(time.Second, 10*time.Second)
	paced := func(first int, every time.Duration, tenant func(i int) int) {
		for i := first; ; i += callers {
			at := begin.Add(time.Duration(i) * every)
			if at.Sub(begin) >= lasts {
				return
			}
			time.Sleep(time.Until(at))
			ask(tenant(i))
		}
	}
	every := time.Duration(float64(time.Second) * float64(d.quantity) / (d.times * float64(d.all.Count)))
	for caller := range callers {
		group.Go(func() { paced(caller, every, func(i int) int { return i % tenants }) })
		if d.greedy > 0 {
			group.Go(func() {
				paced(caller, time.Duration(float64(time.Second)/(d.greedy*float64(d.own.Count))), func(int) int { return 0 })
			})
		}
	}
	group.Wait()
	possible := func(of limiter.Limit, asked int64) int64 {
		leaked := int64(time.Since(begin).Seconds() * float64(of.Count))
		return min(asked, (int64(of.Capacity)+leaked)/int64(d.quantity)*int64(d.quantity))
	}
	var got, could int64
	for i := range tenants {
		most := possible(d.own, asked[i].Load())
		require.LessOrEqual(t, granted[i].Load(), most, "%s: tenant %d", d.name, i)
		got, could = got+granted[i].Load(), could+most
	}
	return float64(got) / float64(possible(d.all, could))
}

// A use is what one call was granted of a row: tokens that were used at some instant between two,
// or a slot that was held all the time between them.
type use struct {
	from, until time.Duration
	quantity    int
}

// Uses are what all calls were granted of one row.
type uses []use

func (u uses) total() (sum int) {
	for _, use := range u {
		sum += use.quantity
	}
	return sum
}

// within returns the uses that begin and end between two instants.
func (u uses) within(from, until time.Duration) (inside uses) {
	for _, use := range u {
		if use.from >= from && use.until <= until {
			inside = append(inside, use)
		}
	}
	return inside
}

// The first three rows lie on three nodes of a cluster, in this order. Each call takes some of them
// together. Leases take from a row of their own, and callers wait for one of ten slots.
var (
	rate   = limiter.PerSecond(200).WithCapacity(50)
	budget = limiter.Until(servertest.QuickOrLong(15_000, 150_000)+1000*int(soakTime.Seconds()),
		time.Now().AddDate(1, 0, 0))
	five   = limiter.Slots{Max: 5, TTL: 2 * time.Second}
	leased = limiter.PerSecond(400).WithCapacity(80)
)

const d = 50 * time.Millisecond // for which leases are used

// A losing client loses one in 200 answers while lossy is set.
type losing struct {
	*redis.ClusterClient
	lossy *atomic.Bool
}

func (c losing) Process(ctx context.Context, command redis.Cmder) error {
	err := c.ClusterClient.Process(ctx, command)
	if c.lossy.Load() && rand.IntN(200) == 0 {
		return errors.New("the answer was lost")
	}
	return err
}

// Callers take rows of all kinds.
type callers struct {
	keys  [3]string
	began time.Time
	lossy atomic.Bool // answers are lost, and some callers give up

	stop    atomic.Bool
	group   sync.WaitGroup
	mutex   sync.Mutex
	granted [6]uses // rows of three nodes, by leases, slots that callers waited for; and what the first row got back
}

// start lets 72 callers ask until they are stopped. They share four Limiters, each of which has a
// line of its own for slots.
func (c *callers) start(t *testing.T, cluster *servertest.Cluster) {
	c.stop.Store(false)
	t.Cleanup(c.end)       // of a test that has failed
	timeout := time.Minute // a call that is not answered in time may have taken tokens of the quota
	if c.lossy.Load() {
		timeout = 300 * time.Millisecond
	}
	var l *limiter.Limiter
	for i := range 72 {
		if i < 32 || i%10 == 2 {
			l = limiter.New(losing{cluster.Client(t), &c.lossy}, limiter.WithTimeout(timeout), limiter.WithHook(c.refunded))
		}
		ask := c.call
		asked := l
		leases := lease.New(l, d)
		if i >= 32 {
			ask = c.wait
		}
		c.group.Go(func() {
			for !c.stop.Load() {
				ask(asked)
				c.lease(leases)
			}
		})
	}
}

// refunded notes tokens of the first row that are given back. If the answer is lost, the server may
// execute it later.
func (c *callers) refunded(_ context.Context, event limiter.Event) {
	if event.Command != "refund" || event.Key != c.keys[0] {
		return
	}
	now := time.Since(c.began)
	later := time.Duration(0)
	if event.Err != nil {
		later = time.Second
	}
	c.add(5, use{now - event.Duration, now + later, event.Result.Quantity})
}

// wait waits for a slot, works for up to 100 ms, and gives the slot back.
func (c *callers) wait(l *limiter.Limiter) {
	got, err := l.Acquire(context.Background(), ten.At("waiting"))
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return
	}
	held := time.Since(c.began)
	select {
	case <-time.After(rand.N(100 * time.Millisecond)):
	case <-got.Context().Done():
	}
	c.add(4, use{held, time.Since(c.began), 1})
	_ = got.Release(context.Background())
}

// lease takes up to three tokens.
func (c *callers) lease(leases *lease.Leases) {
	from := time.Since(c.began)
	within, cancel := context.WithTimeout(context.Background(), 2*d)
	defer cancel()
	result, _ := leases.AllowN(within, "leased", leased, 1+rand.IntN(3))
	c.add(3, use{from, time.Since(c.began), result.Allowed})
}

// add notes what a call was granted of a row, if anything.
func (c *callers) add(row int, granted use) {
	if granted.quantity == 0 {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.granted[row] = append(c.granted[row], granted)
}

// end stops the callers, and returns when all their calls have returned.
func (c *callers) end() {
	c.stop.Store(true)
	c.group.Wait()
}

// call takes a slot and tokens, works for up to 20 ms, and gives the slot back.
func (c *callers) call(l *limiter.Limiter) {
	ctx := context.Background()
	rows := []limiter.Row{five.At(c.keys[2]), limiter.Request{Key: c.keys[0], Limit: rate, Quantity: rand.IntN(17)}}
	if rand.IntN(2) == 0 {
		rows = append(rows, limiter.Request{Key: c.keys[1], Limit: budget, Quantity: rand.IntN(3)})
	}
	if c.lossy.Load() && rand.IntN(20) == 0 {
		within, cancel := context.WithTimeout(ctx, rand.N(5*time.Millisecond))
		defer cancel()
		ctx = within
	}
	from := time.Since(c.began)
	got, err := l.TryAcquire(ctx, rows...)
	if err != nil || got.Limited() {
		time.Sleep(rand.N(10 * time.Millisecond))
		return
	}
	held := time.Since(c.began)
	for i, result := range got.Results[1:] {
		c.add(i, use{from, held, result.Allowed})
	}
	time.Sleep(rand.N(20 * time.Millisecond))
	c.add(2, use{held, time.Since(c.began), 1})
	_ = got.Release(context.Background()) // goes on in the background until Redis decides
}

// moveSlot moves a slot and its keys from a primary to another one.
func moveSlot(t *testing.T, cluster *servertest.Cluster, slot int, from, to *servertest.ClusterNode) {
	t.Helper()
	servertest.Call(t, to.Direct, fmt.Sprint("cluster setslot ", slot, " importing ", from.ID))
	servertest.Call(t, from.Direct, fmt.Sprint("cluster setslot ", slot, " migrating ", to.ID))
	for _, key := range from.Direct.ClusterGetKeysInSlot(t.Context(), slot, 100).Val() {
		servertest.Eventually(t, "a key moves, unless the cluster is down", func() bool {
			return from.Direct.Migrate(t.Context(), "127.0.0.1", fmt.Sprint(to.Port), key, 0, 5*time.Second).Err() == nil
		})
	}
	for _, node := range []*servertest.ClusterNode{to, from} {
		servertest.Call(t, node.Direct, fmt.Sprint("cluster setslot ", slot, " node ", to.ID))
	}
}

// TestBoundsOverNodes has callers take rows of all kinds on three nodes, use leases, and wait for
// slots. First nothing fails, and no refused call may leave anything behind. Then a slot moves, a
// node stands still, another one fails over and at last is killed, answers are lost and callers
// give up.
func TestBoundsOverNodes(t *testing.T) {
	t.Parallel()
	options := servertest.Options{Module: servertest.Module(t)}
	cluster := servertest.StartCluster(t, 3, max(time.Second, min(5*time.Second, soakTime)), options)
	c := &callers{began: time.Now()}
	direct := cluster.Client(t)
	for i := 0; slices.Contains(c.keys[:], ""); i++ {
		key := fmt.Sprint("key", i)
		c.keys[slices.Index(cluster.Primaries, cluster.Owner(cluster.Slot(t, key)))] = key
	}
	c.start(t, cluster)
	time.Sleep(servertest.QuickOrLong(time.Second, 10*time.Second))
	c.end()
	require.Zero(t, direct.Exists(t.Context(), c.keys[2]).Val(), "all slots were released, or given back")
	spent, err := limiter.New(direct).Peek(t.Context(), c.keys[1], budget)
	require.NoError(t, err)
	require.Equal(t, c.granted[1].total(), budget.Capacity-spent.Remaining, "the quota counts what calls were granted")

	c.lossy.Store(true)
	c.start(t, cluster)
	slot := cluster.Slot(t, c.keys[0])
	quotas := []*servertest.ClusterNode{cluster.Primaries[1], cluster.Replicas[1]}
	rounds := servertest.QuickOrLong(2, 20)
	pause := 500 * time.Millisecond
	if soakTime > 0 {
		rounds, pause = 10, soakTime/10
	}
	t.Log("| minutes | calls over three nodes | tokens by leases | slots that were waited for | RSS of the nodes, MB |")
	for range rounds {
		moveSlot(t, cluster, slot, cluster.Primaries[0], cluster.Primaries[2])
		servertest.Eventually(t, "the replica agrees to take over", func() bool {
			return quotas[1].Direct.ClusterFailover(t.Context()).Err() == nil
		})
		require.NoError(t, cluster.Primaries[2].Signal(syscall.SIGSTOP))
		time.Sleep(150 * time.Millisecond)
		require.NoError(t, cluster.Primaries[2].Signal(syscall.SIGCONT))
		moveSlot(t, cluster, slot, cluster.Primaries[2], cluster.Primaries[0])
		servertest.Eventually(t, "the replica has taken over", func() bool {
			return strings.Contains(quotas[1].Direct.Info(t.Context(), "replication").Val(), "role:master")
		})
		slices.Reverse(quotas)
		time.Sleep(pause)
		c.report(t, cluster)
	}
	killed := time.Since(c.began)
	quotas[0].Kill()
	servertest.Eventually(t, "calls about the quota are granted again", func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		return len(c.granted[1].within(killed+time.Second/2, math.MaxInt64)) > 0
	})
	time.Sleep(time.Second)
	c.end()

	servertest.Eventually(t, "the quota is read, by a client that may not know of the kill", func() bool {
		spent, err = limiter.New(direct).Peek(t.Context(), c.keys[1], budget)
		return err == nil
	})
	require.LessOrEqual(t, c.granted[1].total(), budget.Capacity-spent.Remaining+
		c.granted[1].within(killed-time.Second, killed+time.Second).total(), "a replica may lack the last second")
	worst, worstLeased := worstStretch(c.granted[0], nil, rate), worstStretch(c.granted[3], nil, leased)
	most, mostWaited := mostAtOnce(c.granted[2].changes(1, -1)), mostAtOnce(c.granted[4].changes(1, -1))
	t.Logf("tokens in the worst stretch: %.1f, by leases %.1f; slots at once: %d, waited for %d", worst, worstLeased,
		most, mostWaited)
	if soakTime > 0 { // long enough for refunds that are too large: docs/commands.md, "The bound with refunds"
		worst = worstStretch(c.granted[0], c.granted[5], rate)
	}
	require.LessOrEqual(t, worst, float64(rate.Capacity))
	require.LessOrEqual(t, worstLeased, float64(leased.Capacity)+float64(leased.Count)*d.Seconds())
	require.LessOrEqual(t, most, int64(five.Max))
	require.LessOrEqual(t, mostWaited, int64(ten.Max))
}

// report logs a row of the table.
func (c *callers) report(t *testing.T, cluster *servertest.Cluster) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	row := fmt.Sprintf("| %.0f | %d | %d | %d |", time.Since(c.began).Minutes(), len(c.granted[2]), c.granted[3].total(),
		len(c.granted[4]))
	for _, node := range cluster.Primaries {
		row += fmt.Sprintf(" %.1f", float64(servertest.MemoryOf(t, node.Server, "VmRSS"))/(1<<20))
	}
	t.Log(row, "|")
}

// changes returns the instants at which tokens or slots begin to be used, each with begin, and end,
// each with end.
func (u uses) changes(begin, end int64) (changes [][2]int64) {
	for _, use := range u {
		for range use.quantity {
			changes = append(changes, [2]int64{int64(use.from), begin}, [2]int64{int64(use.until), end})
		}
	}
	return changes
}

// worstStretch is the largest number of tokens used in a stretch of time, less what leaked and was
// given back meanwhile.
func worstStretch(granted, givenBack uses, limit limiter.Limit) (worst float64) {
	const backBegins, begins, ends, backEnds = 0, 1, 2, 3
	changes := append(granted.changes(begins, ends), givenBack.changes(backBegins, backEnds)...)
	slices.SortFunc(changes, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	count := [4]float64{}
	least := math.Inf(1)
	for _, change := range changes { // in a stretch are what ended by its end, less what began before it
		leaked := float64(change[0]-changes[0][0]) / float64(limit.Period) * float64(limit.Count)
		if change[1] == begins {
			least = min(least, count[begins]-leaked-count[backEnds])
		}
		count[change[1]]++
		if change[1] == ends {
			worst = max(worst, count[ends]-leaked-count[backBegins]-least)
		}
	}
	return worst
}
