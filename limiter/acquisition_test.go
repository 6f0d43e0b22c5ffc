// An Acquisition takes several slots, all or none, and renews them together. If one is lost, it
// gives the others back. Callers wait in a line for each set of slots.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// An organisation has slots, and each of its keys has fewer.
var (
	ofOrg  = limiter.Slots{Max: 2, TTL: 30 * time.Second}.At("{org}:slots")
	ofKey1 = limiter.Slots{Max: 1, TTL: 12 * time.Second}.At("{org}:key1:slots")
	ofKey2 = limiter.Slots{Max: 1, TTL: 12 * time.Second}.At("{org}:key2:slots")
)

func TestSeveralSlotsAtOnce(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		l := limiter.New(client, limiter.WithSource(source))
		held := map[string]*limiter.Acquisition{}
		minute := limiter.Request{Key: "{org}:minute", Limit: fifteenPerDay, Quantity: 5}
		sixOf := func(request limiter.Request) limiter.Request {
			request.Quantity = 6
			return request
		}
		for _, step := range []struct {
			name    string
			release string
			rows    []limiter.Row
			want    string // of each row: whether it limits, how much was taken, what remains
		}{
			{"first", "", []limiter.Row{ofOrg, minute, ofKey1}, "ok 1 1, ok 5 10, ok 1 0"},
			{"the key is full", "", []limiter.Row{ofOrg, minute, ofKey1}, "ok 0 1, ok 0 10, limited 0 0"},
			{"second", "", []limiter.Row{ofKey2, ofOrg}, "ok 1 0, ok 1 0"},
			{"the organisation is full", "", []limiter.Row{ofOrg}, "limited 0 0"},
			{"third", "first", []limiter.Row{ofKey1, ofOrg, minute}, "ok 1 0, ok 1 0, ok 5 5"},
			{"too few tokens", "second", []limiter.Row{ofKey2, ofOrg, sixOf(minute)}, "ok 0 1, ok 0 1, limited 0 5"},
		} {
			require.NoError(t, held[step.release].Release(t.Context()), step.name)
			got, err := l.TryAcquire(t.Context(), step.rows...)
			state := fmt.Sprintf("%s: %+v: %+v", step.name, step.rows, got.Results)
			require.NoError(t, err, state)
			require.Equal(t, step.want, describe(got.Results...), state)
			require.Equal(t, strings.Contains(step.want, "limited"), got.Limited(), state)
			held[step.name] = got
			if got.Limited() {
				wait := time.Second // for a slot, nobody knows better
				if step.name == "too few tokens" {
					wait = 96 * time.Minute
				}
				require.InDelta(t, wait, got.RetryAfter(), float64(time.Minute), step.name)
			}
		}
		require.NoError(t, held["third"].Release(t.Context()))
		require.Zero(t, client.Exists(t.Context(), "{org}:slots", "{org}:key1:slots", "{org}:key2:slots").Val())
	})
}

// All slots are renewed by one call, each third of the shortest TTL. If one is lost, the others are
// given back, and the context ends.
func TestOneLostSlotEndsTheAcquisition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var recorded recorder
		l := limiter.NewLocal(limiter.WithHook(recorded.hook))
		got, err := l.TryAcquire(t.Context(), ofOrg, ofKey1)
		require.NoError(t, err)
		time.Sleep(time.Hour + 1)
		require.Equal(t, 2*900, recorded.renewals(), "each 4 seconds, two rows")
		require.NoError(t, got.Context().Err())
		seen, err := l.PeekAll(t.Context(), ofOrg, ofKey1)
		require.NoError(t, err)
		require.Equal(t, "ok 0 1, limited 0 0", describe(seen...), "both are held")
		require.InDelta(t, 30*time.Second, seen[0].ResetAfter, float64(4*time.Second), "each for its own TTL")

		require.NoError(t, l.Reset(t.Context(), "{org}:key1:slots"))
		<-got.Context().Done()
		require.Equal(t, limiter.ErrSlotLost, context.Cause(got.Context()))
		_, err = l.Drain(t.Context())
		require.NoError(t, err)
		seen, err = l.PeekAll(t.Context(), ofOrg, ofKey1)
		require.NoError(t, err)
		require.Equal(t, "ok 0 2, ok 0 1", describe(seen...), "the other slot is given back")
		require.ErrorIs(t, got.Release(t.Context()), limiter.ErrSlotLost)
		require.NoError(t, got.Release(t.Context()), "it has been said")
	})
}

// Callers who name the same slots in another order stand in one line, and a slot that any call
// releases wakes each line that waits for its key.
func TestLinesOfSeveralSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter.NewLocal()
		first, err := l.TryAcquire(t.Context(), ofOrg, ofKey1)
		require.NoError(t, err)
		second, err := l.TryAcquire(t.Context(), ofOrg)
		require.NoError(t, err)
		served := make(chan string, 10)
		wait := func(name string, rows ...limiter.Row) {
			go func() {
				got, err := l.Acquire(t.Context(), rows...)
				require.NoError(t, err)
				served <- name
				time.Sleep(time.Second)
				require.NoError(t, got.Release(t.Context()))
			}()
			synctest.Wait()
		}
		wait("1: key 1", ofOrg, ofKey1)
		wait("2: key 1, in the other order", ofKey1, ofOrg)
		wait("3: key 2", ofKey2, ofOrg)
		released := time.Now()
		require.NoError(t, second.Release(t.Context()))
		require.Equal(t, "3: key 2", <-served, "key 1 is full, and the organisation is not")
		require.Equal(t, released, time.Now(), "at once: the line was woken")
		require.NoError(t, first.Release(t.Context()))
		require.Equal(t, "1: key 1", <-served)
		require.Equal(t, released, time.Now())
		require.Equal(t, "2: key 1, in the other order", <-served)
		require.Equal(t, released.Add(time.Second), time.Now(), "when the first one has released its slots")
		time.Sleep(time.Minute)
	})
}

// ReleaseSoon does not wait, and Drain does.
func TestReleaseSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		sleep := func(context.Context, limiter.Event) {
			if slow.Load() {
				time.Sleep(time.Second)
			}
		}
		l := limiter.NewLocal(limiter.WithHook(sleep))
		got := requireSlot(t, l, "key", oneFor1h)
		slow.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		got.ReleaseSoon(ctx)
		require.Equal(t, began, time.Now())
		left, err := l.Drain(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		require.Equal(t, began.Add(time.Second), time.Now())
		require.Error(t, got.Context().Err())
		slow.Store(false)
		requireSlot(t, l, "key", oneFor1h)

		slow.Store(true)
		requireSlot(t, l, "other", oneFor1h).ReleaseSoon(t.Context())
		within, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		left, err = l.Drain(within)
		time.Sleep(time.Minute)
		require.Equal(t, 1, left, "what is uncertain")
		require.Equal(t, context.DeadlineExceeded, err)
	})
}

func TestAcquisitionsNeedSlots(t *testing.T) {
	t.Parallel()
	l := limiter.NewLocal()
	tokens := limiter.Request{Key: "tokens", Limit: fifteenPerDay, Quantity: 1}
	for name, rows := range map[string][]limiter.Row{"no rows": nil, "tokens alone": {tokens}} {
		tried, err := l.TryAcquire(t.Context(), rows...)
		require.ErrorIs(t, err, limiter.ErrInvalid, name)
		require.True(t, tried.Limited(), name)
		waited, err := l.Acquire(t.Context(), rows...)
		require.ErrorIs(t, err, limiter.ErrInvalid, name)
		require.True(t, waited.Limited(), name)
	}
	_, err := l.TryAcquire(t.Context(), tokens)
	require.ErrorContains(t, err, "needs at least one row of slots: for tokens alone, use AllowAll or WaitAll")
}

// In a cluster each hash tag is renewed by a command of its own. A node that does not answer for
// the TTL of its slots loses them, and with them the Acquisition.
func TestSlotsOnANodeThatDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var isDown atomic.Bool
		var refunds atomic.Int64
		client := spreadClient{func(command redis.Cmder) error {
			words := fmt.Sprintln(command.Args()...)
			if isDown.Load() && strings.Contains(words, "{b}") {
				return errors.New("no answer")
			}
			held := "0"
			if strings.Contains(words, "cl.refund") || strings.Contains(words, " 0 SLOTS ") {
				held = "3"
			}
			if strings.Contains(words, "cl.refund") {
				refunds.Add(1)
			}
			row := []any{int64(0), int64(1), int64(0), "0", "9", held}
			answer(command, []any{int64(0), "0", []any{row}})
			return nil
		}}
		l := limiter.New(client, limiter.WithSource(limiter.FromModule))
		got, err := l.TryAcquire(t.Context(), limiter.Slots{Max: 1, TTL: 30 * time.Second}.At("{a}"),
			limiter.Slots{Max: 1, TTL: 9 * time.Second}.At("{b}"))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, got.Context().Err())
		isDown.Store(true)
		began := time.Now()
		<-got.Context().Done()
		require.Equal(t, limiter.ErrSlotLost, context.Cause(got.Context()))
		require.InDelta(t, 9*time.Second, time.Since(began), float64(3*time.Second), "the TTL after its last renewal")
		require.ErrorIs(t, got.Release(t.Context()), limiter.ErrSlotLost)
		synctest.Wait()
		require.EqualValues(t, 1, refunds.Load(), "the slot on the other node is given back")
		isDown.Store(false)
		time.Sleep(time.Minute)
	})
}

// A spreadClient answers commands by a function, as a ring of several shards.
type spreadClient struct {
	answer func(command redis.Cmder) error
}

func (c spreadClient) Process(_ context.Context, command redis.Cmder) error { return c.answer(command) }

func (spreadClient) GetShardClientForKey(string) (*redis.Client, error) {
	return nil, errors.New("nothing is known of shards")
}

// The keys of a call may be on several shards of a ring: each hash tag is a part.
func TestRing(t *testing.T) {
	t.Parallel()
	addrs := map[string]string{}
	for i := range 3 {
		addrs[fmt.Sprint(i)] = servertest.StartModule(t).Addr()
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { ring.Close() })
	l := limiter.New(ring)
	limit := perDay(10)
	allowed := 0
	for i := range 20 {
		results, err := l.AllowAll(t.Context(), limiter.Request{Key: fmt.Sprint("user:", i), Limit: limit, Quantity: 1},
			limiter.Request{Key: "shared", Limit: limit, Quantity: 1})
		require.NoError(t, err)
		if !results.Limited() {
			allowed++
		}
	}
	require.Equal(t, 10, allowed, "the limit of the key that all calls share")
	for i := range 20 {
		seen, err := l.Peek(t.Context(), fmt.Sprint("user:", i), limit)
		require.NoError(t, err)
		want := 10
		if i < 10 {
			want = 9
		}
		require.Equal(t, want, seen.Remaining, "user %d: what a refused call took is given back", i)
	}
}

// When shards are added to a ring, keys move. What a call took is given back on the shard that
// answered: on the new one it would take out what another caller has taken there.
func TestRingWhoseShardsChange(t *testing.T) {
	t.Parallel()
	ctx, limit, slots := t.Context(), perDay(10), limiter.Slots{Max: 5, TTL: time.Hour}
	one, two := servertest.StartModule(t), servertest.StartModule(t)
	addrs := map[string]string{"one": one.Addr()}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { ring.Close() })
	both := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": one.Addr(), "two": two.Addr()}})
	t.Cleanup(func() { both.Close() })
	tagOn := func(server *servertest.Server) string { // once there are two shards
		for i := 0; ; i++ {
			tag := fmt.Sprint("{", i, "}")
			shard, err := both.GetShardClientForKey(tag)
			require.NoError(t, err)
			if shard.Options().Addr == server.Addr() {
				return tag
			}
		}
	}
	moves, full := tagOn(two), tagOn(one)+"full"
	onOne, onTwo := limiter.New(one.Client(t)), limiter.New(two.Client(t))
	_, err := onTwo.AllowN(ctx, moves+"tokens", limit, 10)
	require.NoError(t, err)
	_, err = onOne.AllowN(ctx, full, limit, 10)
	require.NoError(t, err)

	var refunds atomic.Int64
	decided := make(chan struct{})
	decide := sync.OnceFunc(func() { close(decided) })
	l := limiter.New(&gatedRing{ring, func(words string, send func() error) error {
		switch {
		case strings.Contains(words, "cl.reserve "+moves+"tokens"):
			defer decide()
		case strings.Contains(words, full):
			<-decided
			// Between the decision and its refund. Nothing shows when the other goroutine has noted
			// which shard has decided: if the shards change before that, nothing is given back.
			time.Sleep(50 * time.Millisecond)
			ring.SetAddrs(map[string]string{"one": one.Addr(), "two": two.Addr()})
		}
		return send()
	}}, limiter.WithHook(func(_ context.Context, event limiter.Event) {
		if event.Command == "refund" {
			refunds.Add(1)
		}
	}))
	held, err := l.TryAcquire(ctx, slots.At(moves+"slots"))
	require.NoError(t, err)
	results, err := l.AllowAll(ctx, limiter.Request{Key: moves + "tokens", Limit: limit, Quantity: 7},
		limiter.Request{Key: full, Limit: limit, Quantity: 1})
	require.NoError(t, err)
	require.True(t, results.Limited())
	require.Positive(t, refunds.Load())
	seen, err := onOne.Peek(ctx, moves+"tokens", limit)
	require.NoError(t, err)
	require.Equal(t, 10, seen.Remaining, "given back on the shard that answered")
	seen, err = onTwo.Peek(ctx, moves+"tokens", limit)
	require.NoError(t, err)
	require.Zero(t, seen.Remaining, "another caller's tokens on the new shard")
	require.NoError(t, held.Release(ctx), "the slot is on the shard that gave it")
	require.Zero(t, one.Client(t).Exists(ctx, moves+"slots").Val())
}

// A gatedRing decides when a command is sent.
type gatedRing struct {
	*redis.Ring
	gate func(words string, send func() error) error
}

func (r *gatedRing) Process(ctx context.Context, command redis.Cmder) error {
	return r.gate(fmt.Sprintln(command.Args()...), func() error { return r.Ring.Process(ctx, command) })
}

// Results belong to the caller: it may settle a row while the slots are given back.
func TestSettleBesideReleaseSoon(t *testing.T) {
	t.Parallel()
	l := limiter.NewLocal()
	for range 100 {
		got, err := l.TryAcquire(t.Context(), limiter.Slots{Max: 100, TTL: time.Minute}.At("slots"),
			limiter.Request{Key: "tokens", Limit: perDay(1000), Quantity: 2})
		require.NoError(t, err)
		got.ReleaseSoon(t.Context())
		_, err = l.Settle(t.Context(), &got.Results[1], 1) // the race detector would see a read of Results
		require.NoError(t, err)
	}
	left, err := l.Drain(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)
}

// Tests of other packages make Acquisitions: an allowed one is not limited, and holds nothing.
func TestMadeAcquisition(t *testing.T) {
	t.Parallel()
	made := &limiter.Acquisition{Results: limiter.Results{{OK: true, Allowed: 1}}}
	require.False(t, made.Limited())
	require.Zero(t, made.RetryAfter())
	require.NoError(t, made.Context().Err())
	require.NoError(t, made.Release(t.Context()))
	made.ReleaseSoon(t.Context())
}

func TestNilRows(t *testing.T) {
	t.Parallel()
	l := limiter.NewLocal()
	for name, row := range map[string]limiter.Row{"nil": nil, "a nil pointer": (*limiter.Request)(nil)} {
		_, err := l.TryAcquire(t.Context(), oneFor1h.At("slots"), row)
		require.ErrorIs(t, err, limiter.ErrInvalid, name)
		require.ErrorContains(t, err, "row 2 is nil", name)
		_, err = l.PeekAll(t.Context(), row)
		require.ErrorContains(t, err, "row 1 is nil", name)
	}
}

// A refund says in its event what the caller had asked for, also of a quota that it names by its
// period.
func TestEventOfAnUndoneQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var recorded recorder
		month := limiter.Monthly(100, time.UTC)
		client := spreadClient{func(command redis.Cmder) error {
			limited, until := int64(0), fmt.Sprint(time.Now().Unix()+9999)
			if strings.Contains(fmt.Sprintln(command.Args()...), "{full}") {
				limited, until = 1, "0"
			}
			row := []any{limited, int64(100), int64(99), "0", "9", until}
			command.(interface{ SetVal(any) }).SetVal([]any{limited, "0", []any{row}})
			return nil
		}}
		l := limiter.New(client, limiter.WithSource(limiter.FromModule), limiter.WithHook(recorded.hook))
		_, err := l.AllowAll(t.Context(), limiter.Request{Key: "{a}month", Limit: month, Quantity: 1},
			limiter.Request{Key: "{full}month", Limit: month, Quantity: 1})
		require.NoError(t, err)
		refund := recorded.lastOf("refund")
		require.Equal(t, "{a}month", refund.Key)
		require.Equal(t, month, refund.Result.Limit)
	})
}

// If the client sets no deadlines on its connections, another goroutine sends the command: the
// caller does not wait longer than the time-out.
func TestClientWithoutDeadlines(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*redis.Options){
		func(o *redis.Options) { o.ReadTimeout = -2 }, func(o *redis.Options) { o.WriteTimeout = -2 },
	} {
		server := servertest.StartModule(t)
		client := server.Client(t, withoutRetries, change, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
		l := limiter.New(client, limiter.WithTimeout(50*time.Millisecond))
		require.NoError(t, client.Ping(t.Context()).Err())
		require.NoError(t, server.Signal(syscall.SIGSTOP))
		answered := make(chan error, 1)
		go func() { _, err := l.Allow(context.Background(), "key", fifteenPerDay); answered <- err }()
		select {
		case err := <-answered:
			require.ErrorIs(t, err, limiter.ErrUnavailable)
		case <-time.After(servertest.Patience):
			t.Error("the caller waits as long as the server hangs")
		}
		require.NoError(t, server.Signal(syscall.SIGCONT))
	}
}
