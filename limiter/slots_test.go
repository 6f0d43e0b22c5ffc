// No more than Max callers hold a slot, whatever happens to contexts and keys. A holder whose slot
// is lost learns of it. Tokens are taken together with a slot, or not at all.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
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

// rowsFor returns the rows of a call for a slot and for tokens.
func rowsFor(key string, slots limiter.Slots, requests ...limiter.Request) []limiter.Row {
	rows := []limiter.Row{slots.At(key)}
	for _, request := range requests {
		rows = append(rows, request)
	}
	return rows
}

// tryAcquire takes a slot, and fails the test if there is no decision.
func tryAcquire(t testing.TB, l *limiter.Limiter, key string, slots limiter.Slots,
	requests ...limiter.Request) *limiter.Acquisition {
	t.Helper()
	got, err := l.TryAcquire(t.Context(), rowsFor(key, slots, requests...)...)
	require.NoError(t, err)
	return got
}

// requireSlot takes a slot, which must be free.
func requireSlot(t testing.TB, l *limiter.Limiter, key string, slots limiter.Slots,
	requests ...limiter.Request) *limiter.Acquisition {
	t.Helper()
	got := tryAcquire(t, l, key, slots, requests...)
	require.False(t, got.Limited(), "a slot of %q should be free: %+v", key, got.Results[0])
	return got
}

var (
	twoFor3s = limiter.Slots{Max: 2, TTL: 3 * time.Second}
	twoFor1h = limiter.Slots{Max: 2, TTL: time.Hour} // a slot comes back only if somebody gives it back
)

// testSlots tests the limit, all or nothing, Results, hooks and Release, which are the same for
// every source.
func testSlots(t *testing.T, l *limiter.Limiter, recorded *recorder, source limiter.Source) {
	ctx := context.Background()
	slots := map[string]*limiter.Acquisition{}
	for _, step := range []struct {
		name    string
		release string // the slot that is given back first
		tokens  int    // of 15
		limited bool
		want    string // of the slots and of the tokens: OK, Allowed, Remaining
		retry   time.Duration
	}{
		{"first", "", 10, false, "true 1 1, true 10 5", 0},
		{"a slot is free, and the tokens do not fit", "", 10, true, "true 0 1, false 0 5", 5 * 96 * time.Minute},
		{"second, for no tokens", "", 0, false, "true 1 0, true 0 5", 0},
		{"no slot is free", "", 1, true, "false 0 0, true 0 5", 3 * time.Second},
		{"third, after a release", "first", 1, false, "true 1 0, true 1 4", 0},
		{"more than the capacity", "second", 16, true, "true 0 1, false 0 4", limiter.NoRetry},
	} {
		if step.release != "" {
			require.NoError(t, slots[step.release].Release(ctx), step.name)
			require.Equal(t, context.Canceled, context.Cause(slots[step.release].Context()), step.name)
		}
		request := limiter.Request{Key: "{a}tokens", Limit: fifteenPerDay, Quantity: step.tokens}
		got := tryAcquire(t, l, "{a}slots", twoFor3s, request)
		state := fmt.Sprintf("%s: a slot and %d tokens: %+v", step.name, step.tokens, got.Results)
		require.Equal(t, step.limited, got.Limited(), state)
		word, _, _ := strings.Cut(step.name, ",")
		slots[word] = got
		slot, tokens := got.Results[0], got.Results[1]
		require.Equal(t, step.want, fmt.Sprint(slot.OK, slot.Allowed, slot.Remaining)+", "+
			fmt.Sprint(tokens.OK, tokens.Allowed, tokens.Remaining), state)
		require.InDelta(t, step.retry, got.RetryAfter(), float64(3*time.Second), state)
		require.Equal(t, step.limited, got.RetryAfter() > 0, state)
		require.Equal(t, tokens.Allowed > 0, tokens.Receipt > 0, "%s: a receipt", state)

		require.InDelta(t, 3*time.Second, slot.ResetAfter, float64(3*time.Second), state)
		leaks := time.Duration(fifteenPerDay.Capacity-tokens.Remaining) * 96 * time.Minute
		require.InDelta(t, leaks, tokens.ResetAfter, float64(3*time.Second), state)
		asked := limiter.Result{
			Key: "{a}slots", Slots: twoFor3s, Quantity: 1, Source: source,
			OK: slot.OK, Allowed: slot.Allowed, Remaining: slot.Remaining,
			RetryAfter: slot.RetryAfter, ResetAfter: slot.ResetAfter,
		}
		require.Equal(t, asked, slot, state)
		events := recorded.all()
		for i, result := range []limiter.Result{slot, tokens} {
			event := events[len(events)-2+i]
			require.Equal(t, []any{"reserve", "p:" + result.Key, result, step.limited, nil},
				[]any{event.Command, event.Key, event.Result, event.Limited, event.Err}, "%s: the hook", state)
		}
	}
	require.Equal(t, []string{"false 0 1", "true 0 4"}, peekAll(t, l), "seen without taking: one holder, 11 tokens")

	events := len(recorded.all())
	require.NoError(t, slots["first"].Release(ctx), "a second release does nothing")
	require.Len(t, recorded.all(), events, "nothing is asked")
	fourth := requireSlot(t, l, "{a}slots", twoFor3s)
	require.True(t, tryAcquire(t, l, "{a}slots", twoFor3s).Limited(), "the second release gave nothing back")
	require.NoError(t, fourth.Release(ctx))
	last := recorded.last()
	require.Equal(t, []any{"refund", "p:{a}slots", 1}, []any{last.Command, last.Key, last.Result.Allowed})
	require.NoError(t, slots["third"].Release(ctx))
}

// peekAll peeks at the slots and the tokens of testSlots, and returns Limited, Allowed and
// Remaining.
func peekAll(t *testing.T, l *limiter.Limiter) (seen []string) {
	tokens := limiter.Request{Key: "{a}tokens", Limit: fifteenPerDay, Quantity: 5}
	results, err := l.PeekAll(t.Context(), twoFor3s.At("{a}slots"), tokens)
	require.NoError(t, err)
	for _, result := range results {
		seen = append(seen, fmt.Sprint(result.Limited(), result.Allowed, result.Remaining))
	}
	return seen
}

// renewals returns how often slots were renewed.
func (r *recorder) renewals() (count int) {
	for _, event := range r.all() {
		if event.Command == "renew" && event.Err == nil {
			count++
		}
	}
	return count
}

func TestSlotsInThisProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var recorded recorder
		testSlots(t, limiter.NewLocal(limiter.WithPrefix("p:"), limiter.WithHook(recorded.hook)), &recorded,
			limiter.FromLocal)
	})
}

var oneFor3s = limiter.Slots{Max: 1, TTL: 3 * time.Second}

// A slot renews itself until it is released, even if its context is done.
func TestSlotRenewsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var recorded recorder
		l := limiter.NewLocal(limiter.WithHook(recorded.hook))
		type key struct{}
		got, err := l.TryAcquire(context.WithValue(ctx, key{}, 1), oneFor3s.At("renewed"))
		require.NoError(t, err)
		time.Sleep(10*time.Second + 1)
		require.Equal(t, 10, recorded.renewals(), "each third of the TTL")
		require.NoError(t, got.Context().Err())
		require.Equal(t, 1, got.Context().Value(key{}))
		require.True(t, tryAcquire(t, l, "renewed", oneFor3s).Limited(), "it is still held")
		cancel()
		require.ErrorIs(t, got.Context().Err(), context.Canceled)
		time.Sleep(time.Second)
		require.Equal(t, 11, recorded.renewals(), "until it is released")
		require.NoError(t, got.Release(ctx), "the context does not matter")
		time.Sleep(time.Minute)
		require.Equal(t, 11, recorded.renewals(), "after the release")
	})
}

// A slot outlives an outage that is shorter than its TTL: it is renewed even while other calls of
// the process do not ask Redis, because three had no answer.
func TestSlotOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var isDown atomic.Bool
		l := limiter.New(clientFunc(func(_ context.Context, command redis.Cmder) error {
			if isDown.Load() {
				return errNoAnswer
			}
			row := []any{int64(0), int64(1), int64(0), "0", "0.9", "0.6"}
			answer(command, []any{int64(0), "0", []any{row}})
			return nil
		}), limiter.WithSource(limiter.FromModule))
		slot := requireSlot(t, l, "key", limiter.Slots{Max: 1, TTL: 900 * time.Millisecond})
		time.Sleep(290 * time.Millisecond)
		isDown.Store(true)
		for range 3 {
			_, err := l.Allow(t.Context(), "other", fifteenPerDay)
			require.ErrorIs(t, err, errNoAnswer)
		}
		isDown.Store(false)
		time.Sleep(time.Minute)
		require.NoError(t, slot.Context().Err())
		require.NoError(t, slot.Release(t.Context()))
	})
}

// A slot whose key is deleted is lost, and others may have it.
func TestSlotIsLostWithItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, l := t.Context(), limiter.NewLocal()
		slot := requireSlot(t, l, "deleted", oneFor3s)
		require.NoError(t, l.Reset(ctx, "deleted"))
		other := requireSlot(t, l, "deleted", oneFor3s)
		require.NoError(t, slot.Context().Err(), "nobody knows yet")
		time.Sleep(oneFor3s.TTL)
		require.Equal(t, limiter.ErrSlotLost, context.Cause(slot.Context()))
		second := requireSlot(t, l, "deleted", twoFor3s) // a renewal takes no slot
		require.NoError(t, second.Release(ctx))
		require.ErrorIs(t, slot.Release(ctx), limiter.ErrSlotLost, "others may have worked at the same time")
		require.NoError(t, slot.Release(ctx), "once it is answered")
		require.True(t, tryAcquire(t, l, "deleted", oneFor3s).Limited(),
			"the release of a lost slot leaves the other's alone")
		require.NoError(t, other.Release(ctx))
	})
}

// A process that stood still learns that its slot is lost before it goes on, even while a renewal
// is under way.
func TestSlotIsLostAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pause atomic.Int64
		sleep := func(context.Context, limiter.Event) { time.Sleep(time.Duration(pause.Load())) }
		l := limiter.NewLocal(limiter.WithHook(sleep))
		start := time.Now()
		slot := requireSlot(t, l, "key", twoFor3s)
		pause.Store(int64(10 * time.Second))
		time.Sleep(3*time.Second - 1)
		ctx := slot.Context()
		require.NoError(t, ctx.Err())
		time.Sleep(time.Nanosecond)
		require.NoError(t, ctx.Err(), "the renewal has not come back")
		require.Equal(t, limiter.ErrSlotLost, context.Cause(slot.Context()))
		require.Equal(t, limiter.ErrSlotLost, context.Cause(ctx))
		pause.Store(0)
		require.ErrorIs(t, slot.Release(t.Context()), limiter.ErrSlotLost)
		require.Equal(t, 11*time.Second, time.Since(start), "Release waits for the renewal")
		time.Sleep(time.Minute)
	})
}

// A slot in Redis may begin as soon as the call is sent, so a late answer makes no slot longer.
// Here the answers to two calls come after a second, and the answer to the third never comes.
func TestSlotEndsByWhenItWasAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		l := limiter.New(clientFunc(func(ctx context.Context, command redis.Cmder) error {
			held := []string{"0", "2", ""}[min(calls.Add(1), 3)-1]
			if held == "" {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(time.Second)
			answer(command, []any{int64(0), "0", []any{[]any{int64(0), int64(2), int64(1), "0", "3", held}}})
			return nil
		}), limiter.WithTimeout(2*time.Second))
		start := time.Now()
		slot := requireSlot(t, l, "key", twoFor3s)
		<-slot.Context().Done()
		require.Equal(t, limiter.ErrSlotLost, context.Cause(slot.Context()))
		require.Equal(t, 4*time.Second, time.Since(start), "3 seconds after the renewal was sent")
		time.Sleep(time.Minute) // the slot is asked back for its TTL
	})
}

func TestWrongSlots(t *testing.T) {
	t.Parallel()
	l, second := limiter.NewLocal(), limiter.Slots{Max: 1, TTL: time.Second}
	request := func(key string, quantity int) []limiter.Request {
		return []limiter.Request{{key, fifteenPerDay, quantity}}
	}
	short, long := limiter.Slots{Max: 1, TTL: time.Millisecond - 1}, limiter.Slots{Max: 1, TTL: 1<<63 - 1}
	for want, c := range map[string]struct {
		slots    limiter.Slots
		requests []limiter.Request
		is       error
	}{
		`key "key": slots of {Max:0 TTL:1s}: there must be at`:     {limiter.Slots{TTL: time.Second}, nil, nil},
		`key "key": slots of {Max:-1 TTL:0s}: there must be`:       {limiter.Slots{Max: -1}, nil, nil},
		`key "key": slots of {Max:1 TTL:999.999µs}: ttl must`:      {short, nil, inflight.ErrTTL},
		`ttl is too large: the slot must end before the year 2262`: {long, nil, inflight.ErrEnd},
		"a call must have 1 to 64 rows, not 65":                    {second, make([]limiter.Request, 64), nil},
		`key "key" is named twice in this call`:                    {second, request("key", 1), nil},
		`key "a": quantity -1 of a limit of 15 per day, capacity 15: quant`: {
			second, request("a", -1), gcra.ErrQuantity},
	} {
		got, err := l.TryAcquire(t.Context(), rowsFor("key", c.slots, c.requests...)...)
		require.True(t, got.Limited(), want)
		require.Len(t, got.Results[1:], len(c.requests), want)
		require.ErrorIs(t, err, limiter.ErrInvalid, want)
		require.ErrorContains(t, err, want)
		require.True(t, c.is == nil || errors.Is(err, c.is), err)
	}
}

func TestSlotsInRedis(t *testing.T) {
	t.Parallel()
	byModuleAndScript(t, func(t *testing.T, client *redis.Client, source limiter.Source) {
		var recorded recorder
		testSlots(t, limiter.New(client, limiter.WithPrefix("p:"), limiter.WithHook(recorded.hook)), &recorded, source)
		require.Zero(t, client.Exists(t.Context(), "p:{a}slots").Val())

		l, short := limiter.New(client, limiter.WithHook(recorded.hook)), limiter.Slots{Max: 1, TTL: 900 * time.Millisecond}
		slot, key := requireRenewedSlot(t, l, &recorded, short)
		require.True(t, tryAcquire(t, l, key, short).Limited(), "it is still held")
		require.NoError(t, client.Del(t.Context(), key).Err())
		servertest.Eventually(t, "it is told", func() bool { return slot.Context().Err() != nil })
		require.Equal(t, limiter.ErrSlotLost, context.Cause(slot.Context()))
		last := recorded.lastOf("renew")
		require.True(t, last.Result.Limited(), "a renewal takes no slot")
		require.ErrorIs(t, slot.Release(t.Context()), limiter.ErrSlotLost)

		require.NoError(t, client.Set(t.Context(), "text", "1", 0).Err())
		_, err := limiter.New(client, limiter.OnFailure(limiter.FailOpen)).TryAcquire(t.Context(), short.At("text"))
		require.ErrorContains(t, err, "WRONGTYPE")
		require.ErrorIs(t, err, limiter.ErrInvalid)
	})
}

// requireRenewedSlot takes a slot, waits until it has been renewed six times, and returns it and
// its key. If the machine stands still for the TTL, the slot is lost, and it takes another one.
func requireRenewedSlot(t *testing.T, l *limiter.Limiter, recorded *recorder, slots limiter.Slots) (
	slot *limiter.Acquisition, key string) {
	t.Helper()
	for attempt := range 10 {
		key = fmt.Sprint("renewed:", attempt)
		before := recorded.renewals()
		slot = requireSlot(t, l, key, slots)
		servertest.Eventually(t, "six renewals, or the loss of the slot", func() bool {
			return recorded.renewals() >= before+6 || slot.Context().Err() != nil
		})
		if slot.Context().Err() == nil {
			return slot, key
		}
		require.ErrorIs(t, slot.Release(t.Context()), limiter.ErrSlotLost)
	}
	t.Fatalf("ten slots of %v were lost before they had been renewed six times", slots.TTL)
	return nil, ""
}
