// Callers over several nodes, in every order of their commands: nothing is left behind by a call
// that was refused, no bound is broken, and nobody is sent away for an hour because another caller
// held its tokens for a moment.
//
// The nodes are rows in this process, so a command takes microseconds. A scheduler holds each
// command back until it is that command's turn. After each command it waits until every goroutine
// is blocked (package testing/synctest), and has all commands before it that could be executed
// next, and the choice of which: depth first through all choices, or at random.

package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/servertest"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/calendar"
	"funnel/limiter/internal/guard"
	"funnel/limiter/internal/local"
	"funnel/limiter/internal/undo"
	"funnel/slots"
)

// A wish is what one caller asks for.
type wish func(caller int) *backend.Call

// A contest has callers who ask at the same time for more than there is.
type contest struct {
	wishes []wish
	room   int // how many of the callers fit at most
	looks  int // how often a caller looks: maxLooks, or 0
}

// slotTTL is the TTL that callers know. For the nodes it is longer, so that a slot that is left
// behind does not go away by itself.
const slotTTL = time.Hour

// run lets the callers of a contest go, in the order that a chooser chooses. It returns the world,
// and what the callers were told.
func (c *contest) run(t *testing.T, by chooser, lose int, how loss) (*world, []backend.Reply, []error) {
	w := &world{nodes: map[string]*local.Rows{}, lose: lose, how: how, loser: -1, running: len(c.wishes),
		granted: map[receipt]bool{}}
	began := time.Now()
	now := func() time.Duration { return time.Since(began) }
	for _, tag := range []string{"a", "b", "c"} {
		w.nodes[tag] = local.New(now, time.Now)
	}
	replies, errs := make([]backend.Reply, len(c.wishes)), make([]error, len(c.wishes))
	undos := make([]*undo.Undo, len(c.wishes))
	for i, wish := range c.wishes {
		var n *Nodes // each caller is a process of its own
		undos[i] = undo.New(func(ctx context.Context, c *backend.Call) (backend.Reply, error) { return n.Ask(ctx, c) },
			w.Node, slog.New(slog.DiscardHandler))
		n = New(guard.NewPerNode(w, undos[i], 0, now), undos[i], true, now, time.Now)
		n.looks = c.looks
		ctx, giveUp := context.WithCancel(context.WithValue(context.Background(), callerKey{}, i))
		w.giveUp = append(w.giveUp, giveUp)
		go func() {
			defer giveUp()
			replies[i], errs[i] = n.Ask(ctx, wish(i))
			w.returned(i)
		}()
	}
	w.play(by)
	for i, u := range undos {
		left, err := u.Drain(t.Context())
		require.NoError(t, err, "caller %d", i)
		require.Zero(t, left, "caller %d", i)
	}
	return w, replies, errs
}

// play gives each command its turn, until no caller waits and nothing is left to be given back.
func (w *world) play(by chooser) {
	last, idle := 0, 0
	for idle < 15 { // tenths of a TTL: then no slot is asked back any more
		synctest.Wait()
		options := w.options(last)
		mayPass := w.running > 0 && w.sleeps() || len(options) == 0 || options[0].isLate
		choices := len(options)
		if mayPass {
			choices++
		}
		choice := by.choose(choices)
		if choice < len(options) {
			last = options[choice].caller
			w.turn(options[choice])
			idle = 0
			continue
		}
		if w.running > 0 {
			time.Sleep(minLook + lookJitter)
			continue
		}
		if len(options) > 0 && idle > 2 { // a late command is not later than that
			w.turn(options[0])
			continue
		}
		time.Sleep(slotTTL / 10)
		idle++
	}
}

// sleeps reports whether a caller that has no decision waits for a time, and not for its turn.
func (w *world) sleeps() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	waits := map[int]bool{}
	for _, c := range w.waiting {
		waits[c.caller] = true
	}
	return len(waits) < w.running
}

// check compares the nodes with what the callers were told.
func (c *contest) check(t *testing.T, w *world, replies []backend.Reply, errs []error) (allowed int) {
	story := func() string {
		told := ""
		for i := range replies {
			told += fmt.Sprintf("caller %d was told: %+v, %v\n", i, replies[i], errs[i])
		}
		return "in this order:\n" + strings.Join(w.history, "\n") + "\n" + told
	}
	if len(w.wrong) > 0 {
		t.Fatalf("%q, %s", w.wrong, story())
	}
	type sums struct{ granted, lost int64 }
	used := map[string]*sums{}
	anyRow := map[string]*backend.Call{}
	longest := time.Duration(0)
	for i, wish := range c.wishes {
		asked := wish(i)
		isAllowed := errs[i] == nil && !replies[i].Limited
		if isAllowed {
			allowed++
		}
		for j := range asked.Rows {
			row := &asked.Rows[j]
			if used[row.Key] == nil {
				used[row.Key] = &sums{}
			}
			anyRow[row.Key] = asked
			quantity := int64(max(1, row.Quantity))
			switch {
			case isAllowed:
				used[row.Key].granted += quantity
			case i == w.loser && row.Kind != call.Slots:
				used[row.Key].lost += quantity
			}
			if !isAllowed && errs[i] == nil && replies[i].Row(j).Limited {
				longest = max(longest, replies[i].Row(j).Wait)
			}
		}
	}
	if allowed > c.room {
		t.Fatalf("%d callers were allowed, and %d fit, %s", allowed, c.room, story())
	}
	if allowed == 0 && longest > time.Second && w.lose < 0 {
		t.Fatalf("nobody was allowed, and somebody was told to wait for %v, %s", longest, story())
	}
	for key, sum := range used {
		look := *anyRow[key]
		look.Operation, look.Rows = call.Peek, nil
		for _, row := range anyRow[key].Rows {
			if row.Key == key {
				row.Holder = "nobody"
				look.Rows = append(look.Rows, row)
			}
		}
		reply, err := w.execute(&look)
		require.NoError(t, err)
		taken := limitOf(&look.Rows[0]) - reply.First.Remaining
		if taken < sum.granted || taken > sum.granted+sum.lost {
			t.Fatalf("of %s %d are taken; callers were granted %d, and at most %d are lost, %s",
				key, taken, sum.granted, sum.lost, story())
		}
	}
	return allowed
}

// capacity is the capacity of a funnel and of a quota. Each caller asks for more than half of it.
const capacity = 10

// limitOf returns how much fits into a row, if one caller at a time fits.
func limitOf(row *backend.AskedRow) int64 {
	if row.Kind == call.Slots {
		return 1
	}
	return capacity
}

// The kinds of rows that a wish has on each node.
type rowOf func(tag string, caller int) backend.AskedRow

// funnelOf returns tokens of a funnel that leaks one in 1,000 hours: a refused caller is told to
// wait for long, and looks whether that is true.
func funnelOf(tag string, _ int) backend.AskedRow {
	rate, err := gcra.NewRate(capacity, 1, int64(1000*time.Hour))
	if err != nil {
		panic(err)
	}
	tokens, _ := rate.Request(6)
	return backend.AskedRow{Key: "{" + tag + "}funnel", Tokens: tokens, Quantity: 6, Words: &backend.Words{Rate: rate}}
}

func slotOf(tag string, caller int) backend.AskedRow {
	request, _ := slots.NewRequest(1, int64(1000*slotTTL))
	return backend.AskedRow{Key: "{" + tag + "}slots", Kind: call.Slots, Slot: request, TTL: slotTTL,
		Holder: fmt.Sprint("caller ", caller)}
}

func quotaOf(tag string, _ int) backend.AskedRow {
	until := calendar.Once(time.Now().Add(1000 * time.Hour))
	return backend.AskedRow{Key: "{" + tag + "}quota", Kind: call.Quota, Quantity: 6,
		Quota: backend.QuotaLimit{Limit: capacity, Calendar: until}}
}

// asksFor returns a wish for rows on nodes. Every other caller names its rows in the opposite
// order.
func asksFor(rows map[string]rowOf) wish {
	return func(caller int) *backend.Call {
		c := &backend.Call{Operation: call.Reserve, Receipt: gcra.NoReceipt}
		for _, tag := range slices.Sorted(maps.Keys(rows)) {
			c.Rows = append(c.Rows, rows[tag](tag, caller))
		}
		if caller%2 == 1 {
			slices.Reverse(c.Rows)
		}
		return c
	}
}

// all tries every order in which a caller is overtaken no more often than preferring says. It
// returns how many there are, and in how many of them nobody was allowed.
func (c *contest) all(t *testing.T, preferring int, lose int, how loss) (tried, nobody int) {
	s := &search{preferring: preferring}
	for more := true; more && !t.Failed(); more = s.next() {
		tried++
		if c.one(t, s, lose, how) == 0 {
			nobody++
		}
	}
	return tried, nobody
}

// one tries one order, and returns how many callers were allowed.
func (c *contest) one(t *testing.T, by chooser, lose int, how loss) (allowed int) {
	synctest.Test(t, func(t *testing.T) {
		w, replies, errs := c.run(t, by, lose, how)
		allowed = c.check(t, w, replies, errs)
	})
	return allowed
}

// contests are between two callers over two nodes, with all kinds of rows.
var contests = map[string]wish{
	"two funnels":         asksFor(map[string]rowOf{"a": funnelOf, "b": funnelOf}),
	"two keys with slots": asksFor(map[string]rowOf{"a": slotOf, "b": slotOf}),
	"two quotas":          asksFor(map[string]rowOf{"a": quotaOf, "b": quotaOf}),
	"slots and a funnel":  asksFor(map[string]rowOf{"a": slotOf, "b": funnelOf}),
	"a quota and slots":   asksFor(map[string]rowOf{"a": quotaOf, "b": slotOf}),
}

// Two callers over two nodes, each of whom needs both. If a command may be overtaken only twice,
// one of them is allowed in every order. In some orders with more, both are refused, and told to
// ask again soon.
func TestEveryOrderOfTwoCallers(t *testing.T) {
	for name, each := range contests {
		c := contest{wishes: []wish{each, each}, room: 1}
		tried, nobody := c.all(t, 2, -1, executed)
		require.Zero(t, nobody, "%s: of %d orders with two overtakings: orders in which nobody was allowed", name, tried)
		tried, nobody = c.all(t, -1, -1, executed)
		require.LessOrEqual(t, nobody, tried/10, "%s: of %d orders: orders in which nobody was allowed", name, tried)
		t.Logf("%s: %d orders; in %d of them nobody was allowed", name, tried, nobody)
	}
}

// The same callers look whether tokens have come free. If a command may be overtaken four times,
// one of them is allowed in every order. Slots say little about when they come free, so nobody
// looks for them.
func TestCallersWhoLook(t *testing.T) {
	for name, each := range contests {
		if name == "two keys with slots" {
			continue
		}
		c := contest{wishes: []wish{each, each}, room: 1, looks: maxLooks}
		tried, nobody := c.all(t, overtakings(4, 6), -1, executed)
		require.Zero(t, nobody, "%s: of %d orders: orders in which nobody was allowed", name, tried)
		t.Logf("%s: %d orders", name, tried)
	}
}

// overtakings returns how often a command may be overtaken in a short test, and in a long one.
func overtakings(short, long int) int {
	if os.Getenv("FUNNEL_LONG") != "" {
		return long
	}
	return short
}

// ofThree are between three callers over three nodes, of whom one fits.
var ofThree = map[string][]wish{
	"each needs two nodes": {
		asksFor(map[string]rowOf{"a": funnelOf, "b": slotOf}),
		asksFor(map[string]rowOf{"b": slotOf, "c": quotaOf}),
		asksFor(map[string]rowOf{"a": funnelOf, "c": quotaOf}),
	},
	"each needs all nodes": {
		asksFor(map[string]rowOf{"a": funnelOf, "b": slotOf, "c": quotaOf}),
		asksFor(map[string]rowOf{"a": funnelOf, "b": slotOf, "c": quotaOf}),
		asksFor(map[string]rowOf{"a": funnelOf, "b": slotOf, "c": quotaOf}),
	},
}

func TestThreeCallers(t *testing.T) {
	random := rand.New(rand.NewPCG(servertest.Seed(t), 0))
	for name, wishes := range ofThree {
		c := contest{wishes: wishes, room: 1, looks: maxLooks}
		tried, nobody := c.all(t, overtakings(2, 3), -1, executed)
		require.Zero(t, nobody, "%s: of %d orders: orders in which nobody was allowed", name, tried)
		nobody = 0
		drawn := 500 * overtakings(1, 100)
		for range drawn {
			if c.one(t, randomly{random}, -1, executed) == 0 {
				nobody++
			}
		}
		require.Less(t, nobody, drawn/50, "%s: of %d random orders: orders in which nobody was allowed", name, drawn)
		t.Logf("%s: %d orders, and %d at random; in %d of these nobody was allowed", name, tried, drawn, nobody)
	}
}

// An answer is lost at each place, in three ways: tokens may stay taken, and slots come back. Or
// the caller gives up at each place: then nothing stays taken.
func TestEveryLostAnswer(t *testing.T) {
	for name, each := range contests {
		for _, how := range []loss{executed, dropped, later, givesUp} {
			t.Run(fmt.Sprintf("%s, %v", name, how), func(t *testing.T) {
				c := contest{wishes: []wish{each, each}, room: 1}
				for lose := range 12 {
					c.all(t, overtakings(2, 3), lose, how)
				}
			})
		}
	}
}
