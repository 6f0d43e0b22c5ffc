// No more than the limit hold a slot, whatever happens to answers, contexts and processes. A holder
// that is not counted any more is told, and what was taken with a slot is taken as one.

package limiter_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
	inflight "funnel/slots"
)

func acquire(t testing.TB, l *limiter.Limiter, key string, slots limiter.Slots, requests ...limiter.Request) (*limiter.Slot, limiter.Results) {
	slot, results, err := l.Acquire(t.Context(), key, slots, requests...)
	require.NoError(t, err)
	require.Equal(t, results.Limited(), slot == nil)
	return slot, results
}

var (
	two   = limiter.Slots{Limit: 2, TTL: 3 * time.Second}
	still = limiter.Slots{Limit: 2, TTL: time.Hour} // a slot comes back only if somebody gives it back
)

// testSlots is what holds whatever decides: the limit, tokens as one, Results, hooks, Release.
func testSlots(t *testing.T, l *limiter.Limiter, told *recorder, path limiter.Path) {
	ctx := context.Background()
	tokens := limiter.Request{Key: "{a}tokens", Limit: fifteenPerDay, Quantity: 10}
	limit := limiter.Limit{Capacity: 2}
	first, results := acquire(t, l, "{a}slots", two, tokens)
	require.Len(t, results, 2)
	require.Equal(t, limiter.Result{Key: "{a}slots", Limit: limit, Quantity: 1, Allowed: 1, Remaining: 1,
		RetryAfter: limiter.NoRetry, ResetAfter: results[0].ResetAfter, Path: path}, results[0])
	require.InDelta(t, 3*time.Second, results[0].ResetAfter, float64(time.Millisecond))
	require.Equal(t, []int{10, 5}, []int{results[1].Allowed, results[1].Remaining})
	require.Positive(t, results[1].Receipt)
	require.NoError(t, first.Context().Err())
	events := told.all()
	require.Len(t, events, 2)
	for i, event := range events {
		require.Equal(t, []any{"reserve", "p:" + results[i].Key, results[i], nil}, []any{event.Command, event.Key, event.Result, event.Err})
	}

	_, results = acquire(t, l, "{a}slots", two, tokens) // a slot is free, and takes no tokens alone
	require.Equal(t, []bool{false, true}, []bool{results[0].Limited(), results[1].Limited()})
	require.Equal(t, []int{0, 0, 1}, []int{results[0].Allowed, results[1].Allowed, results[0].Remaining})
	tokens.Quantity = 0
	second, results := acquire(t, l, "{a}slots", two, tokens)
	require.Equal(t, []int{0, 5}, []int{results[0].Remaining, results[1].Remaining})
	tokens.Quantity = 1
	_, results = acquire(t, l, "{a}slots", two, tokens)
	require.Equal(t, []bool{true, false}, []bool{results[0].Limited(), results[1].Limited()})
	require.InDelta(t, 3*time.Second, results.RetryAfter(), float64(3*time.Second))
	require.Equal(t, 5, results[1].Remaining)

	require.NoError(t, first.Release(ctx))
	require.Equal(t, context.Canceled, context.Cause(first.Context()))
	require.Equal(t, []any{"refund", "p:{a}slots", 1}, []any{told.last().Command, told.last().Key, told.last().Result.Allowed})
	events = told.all()
	require.NoError(t, first.Release(ctx), "twice")
	require.Len(t, told.all(), len(events), "nothing is asked")
	third, _ := acquire(t, l, "{a}slots", two)
	limited, _ := acquire(t, l, "{a}slots", two)
	require.Nil(t, limited, "the second release gave nothing back")
	require.NoError(t, third.Release(ctx))
	require.NoError(t, second.Release(ctx))
}

// renewals is how often slots were renewed.
func (r *recorder) renewals() (count int) {
	for _, event := range r.all() {
		if event.Command == "reserve" && event.Err == nil && event.Result.Limit == (limiter.Limit{}) {
			count++
		}
	}
	return count
}

func TestSlotsInThisProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var told recorder
		l := limiter.NewLocal(limiter.WithPrefix("p:"), limiter.WithHook(told.hook))
		testSlots(t, l, &told, limiter.PathLocal)

		one := limiter.Slots{Limit: 1, TTL: 3 * time.Second}
		type key struct{}
		slot, _, err := l.Acquire(context.WithValue(ctx, key{}, 1), "renewed", one)
		require.NoError(t, err)
		time.Sleep(10*time.Second + 1)
		require.Equal(t, 10, told.renewals(), "each third of the TTL")
		require.NoError(t, slot.Context().Err())
		require.Equal(t, 1, slot.Context().Value(key{}))
		limited, _ := acquire(t, l, "renewed", one)
		require.Nil(t, limited)
		cancel()
		require.ErrorIs(t, slot.Context().Err(), context.Canceled)
		time.Sleep(time.Second)
		require.Equal(t, 11, told.renewals(), "until it is released")
		require.NoError(t, slot.Release(ctx), "the context does not matter")
		time.Sleep(time.Minute)
		require.Equal(t, 11, told.renewals())

		slot, _ = acquire(t, l, "deleted", one)
		require.NoError(t, l.Reset(t.Context(), "deleted"))
		other, _ := acquire(t, l, "deleted", one)
		require.NoError(t, slot.Context().Err())
		time.Sleep(one.TTL)
		require.Equal(t, limiter.ErrSlotLost, context.Cause(slot.Context()))
		second, _ := acquire(t, l, "deleted", two)
		require.NotNil(t, second, "a renewal takes no slot")
		require.NoError(t, second.Release(ctx))
		require.NoError(t, slot.Release(ctx))
		limited, _ = acquire(t, l, "deleted", one)
		require.Nil(t, limited, "the release of a lost slot leaves the other's alone")
		require.NoError(t, other.Release(ctx))
	})
}

// A process that stands still is told before it goes on, also while a renewal is under way.
func TestSlotIsLostAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pause atomic.Int64
		l := limiter.NewLocal(limiter.WithHook(func(context.Context, limiter.Event) { time.Sleep(time.Duration(pause.Load())) }))
		start := time.Now()
		slot, _ := acquire(t, l, "key", two)
		pause.Store(int64(10 * time.Second))
		time.Sleep(3*time.Second - 1)
		ctx := slot.Context()
		require.NoError(t, ctx.Err())
		time.Sleep(time.Nanosecond)
		require.NoError(t, ctx.Err(), "the renewal has not come back")
		require.Equal(t, limiter.ErrSlotLost, context.Cause(slot.Context()))
		require.Equal(t, limiter.ErrSlotLost, context.Cause(ctx))
		pause.Store(0)
		require.NoError(t, slot.Release(t.Context()))
		require.Equal(t, 11*time.Second, time.Since(start), "Release waits for the renewal")
		time.Sleep(time.Minute)
	})
}

func TestWrongSlots(t *testing.T) {
	t.Parallel()
	l, second := limiter.NewLocal(), limiter.Slots{1, time.Second}
	for want, c := range map[string]struct {
		slots    limiter.Slots
		requests []limiter.Request
		is       error
	}{
		`key "key": there must be at least 1 slot`:                       {limiter.Slots{0, time.Second}, nil, inflight.ErrLimit},
		`key "key": slots of {Limit:-1 TTL:1s}: limit must`:              {limiter.Slots{-1, time.Second}, nil, inflight.ErrLimit},
		`key "key": slots of {Limit:1 TTL:999.999µs}: ttl must`:          {limiter.Slots{1, time.Millisecond - 1}, nil, inflight.ErrTTL},
		`ttl is too large: the slot must end before the year 2262`:       {limiter.Slots{1, 1<<63 - 1}, nil, inflight.ErrEnd},
		"there must be at most 63 requests beside slots, not 64":         {second, make([]limiter.Request, 64), nil},
		`key "key" is named twice in this call`:                          {second, []limiter.Request{{"key", fifteenPerDay, 1}}, nil},
		`key "a": quantity -1 of a limit of 15 per day, burst 15: quant`: {second, []limiter.Request{{"a", fifteenPerDay, -1}}, gcra.ErrQuantity},
	} {
		slot, results, err := l.Acquire(t.Context(), "key", c.slots, c.requests...)
		require.Nil(t, slot)
		require.Len(t, results, 1+len(c.requests))
		require.True(t, results.Limited())
		require.ErrorContains(t, err, want)
		require.True(t, c.is == nil || errors.Is(err, c.is), err)
	}
}

func TestSlotsInRedis(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client *redis.Client, path limiter.Path) {
		var told recorder
		testSlots(t, limiter.New(client, limiter.WithPrefix("p:"), limiter.WithHook(told.hook)), &told, path)
		require.Zero(t, client.Exists(t.Context(), "p:{a}slots").Val())

		l, short := limiter.New(client, limiter.WithHook(told.hook)), limiter.Slots{1, 300 * time.Millisecond}
		before := told.renewals()
		slot, _ := acquire(t, l, "renewed", short)
		servertest.Eventually(t, "six renewals", func() bool { return told.renewals() >= before+6 })
		limited, _ := acquire(t, l, "renewed", short)
		require.Nil(t, limited)
		require.NoError(t, slot.Context().Err())
		require.NoError(t, client.Del(t.Context(), "renewed").Err())
		servertest.Eventually(t, "it is told", func() bool { return slot.Context().Err() != nil })
		require.Equal(t, limiter.ErrSlotLost, context.Cause(slot.Context()))
		require.True(t, told.last().Result.Limited(), "a renewal takes no slot")
		require.NoError(t, slot.Release(t.Context()))

		require.NoError(t, client.Set(t.Context(), "text", "1", 0).Err())
		_, _, err := limiter.New(client, limiter.OnFailure(limiter.FailOpen)).Acquire(t.Context(), "text", short)
		require.ErrorContains(t, err, "WRONGTYPE")
	})
}

// go-redis repeats a command whose answer was lost: the second copy finds the slot of the first.
// Without retries, or where the server refuses the second copy, the slot is given back, whatever the
// policy decides.
func TestSlotsWithLostAnswers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, direct *redis.Client, path limiter.Path) {
		ctx, addr, db := t.Context(), direct.Options().Addr, direct.Options().DB
		require.NoError(t, direct.ScriptLoad(ctx, limiter.Script()).Err()) // whose text has the word
		lossy := func(change func(*redis.Options)) *redis.Client {
			options := &redis.Options{Addr: servertest.LoseAnswer(t, addr, "slots"), DB: db}
			change(options)
			client := redis.NewClient(options)
			t.Cleanup(func() { client.Close() })
			return client
		}
		tokens := limiter.Request{"tokens", fifteenPerDay, 10}
		slot, results := acquire(t, limiter.New(lossy(func(*redis.Options) {}), limiter.WithPath(path)), "slots", still, tokens)
		require.EqualValues(t, 1, direct.ZCard(ctx, "slots").Val())
		require.Equal(t, []any{10, 5, limiter.NoRetry, int64(0)},
			[]any{results[1].Allowed, results[1].Remaining, results[1].RetryAfter, results[1].Receipt})
		require.NoError(t, slot.Release(ctx))
		require.Zero(t, direct.Exists(ctx, "slots").Val())

		for _, policy := range []limiter.FailurePolicy{limiter.FailWithError, limiter.FailOpen} {
			var told recorder
			tokens.Key = policy.String()
			l := limiter.New(lossy(once), limiter.WithPath(path), limiter.OnFailure(policy), limiter.WithHook(told.hook))
			slot, _, err := l.Acquire(ctx, "slots", still, tokens)
			require.Equal(t, policy == limiter.FailOpen, err == nil && slot != nil)
			require.EqualValues(t, 1, direct.Exists(ctx, tokens.Key).Val(), "it was executed")
			refund := func(event limiter.Event) bool { return event.Command == "refund" } // maybe told before the others
			servertest.Eventually(t, "the slot is given back", func() bool { return slices.ContainsFunc(told.all(), refund) })
			require.Zero(t, direct.Exists(ctx, "slots").Val())
			if slot != nil {
				require.NoError(t, slot.Release(ctx))
				require.Equal(t, 3, len(told.all()), "nobody counts it")
			}
		}

		var calls atomic.Int64 // the answer to the first copy is lost, and the second is refused
		_, _, err := limiter.New(clientFunc(func(ctx context.Context, command redis.Cmder) error {
			err := direct.Process(ctx, command)
			if calls.Add(1) == 1 {
				err = replyError("OOM command not allowed when used memory > 'maxmemory'.")
				command.SetErr(err)
			}
			return err
		}), limiter.WithPath(path)).Acquire(ctx, "refused", limiter.Slots{1, time.Hour})
		require.ErrorContains(t, err, "OOM")
		servertest.Eventually(t, "the slot is given back", func() bool { return direct.Exists(ctx, "refused").Val() == 0 })
	})
}

func TestSlotsOfADeadServer(t *testing.T) {
	t.Parallel()
	for policy, want := range map[limiter.FailurePolicy][3]bool{
		limiter.FailOpen: {true, true, true}, limiter.FailClosed: {}, limiter.FailLocal: {true, true, false},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), servertest.StartModule(t)
			l := limiter.New(server.Client(t, once), limiter.OnFailure(policy), limiter.WithTimeout(servertest.Patience))
			counted, _ := acquire(t, l, "lost", limiter.Slots{1, 500 * time.Millisecond})
			server.Kill()
			slots := [3]*limiter.Slot{}
			for i := range slots {
				var results limiter.Results
				slots[i], results = acquire(t, l, "key", two)
				require.Equal(t, []any{want[i], limiter.Path(policy.String())}, []any{slots[i] != nil, results[0].Path})
				if policy == limiter.FailClosed {
					require.Equal(t, time.Second, results.RetryAfter())
				}
			}
			<-counted.Context().Done()
			require.Equal(t, limiter.ErrSlotLost, context.Cause(counted.Context()))
			require.Error(t, counted.Release(ctx))
			server.Restart(t)
			require.NoError(t, counted.Release(ctx), "asks again, also while other calls do not")
			for _, slot := range slots {
				if slot != nil {
					require.NoError(t, slot.Context().Err())
					require.NoError(t, slot.Release(ctx))
				}
			}
		})
	}
}

// A server that hangs is waited for no longer than the time-out. What it takes later comes back.
func TestSlotsOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), servertest.StartModule(t)
	client := server.Client(t)
	var told recorder
	l := limiter.New(client, limiter.WithTimeout(500*time.Millisecond), limiter.WithHook(told.hook))
	slot, _ := acquire(t, l, "released", still)
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	_, _, err := l.Acquire(ctx, "key", still)
	require.ErrorContains(t, err, "no answer from Redis within 500ms")
	require.ErrorIs(t, slot.Release(ctx), context.DeadlineExceeded)
	require.NoError(t, server.Signal(syscall.SIGCONT))
	servertest.Eventually(t, "the slot is given back", func() bool { return told.last().Command == "refund" && told.last().Key == "key" })
	require.NoError(t, slot.Release(ctx))
	require.Zero(t, client.Exists(ctx, "key", "released").Val())
}
