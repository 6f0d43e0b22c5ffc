// Callers that wait for a slot get it in the order of asking, or learn why they do not get it. They
// leave nothing behind.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

var oneFor1h = limiter.Slots{Max: 1, TTL: time.Hour}

// A queue is a Limiter whose callers wait for one slot.
type queue struct {
	*limiter.Limiter
	recorder
	mutex sync.Mutex
	got   []string // who has got a slot, or an error
	slots map[string]*limiter.Acquisition
}

// newQueue returns a queue whose Limiter asks rdb, or is one of NewLocal.
func newQueue(rdb limiter.Client, options ...limiter.Option) *queue {
	q := &queue{slots: map[string]*limiter.Acquisition{}}
	began := time.Now()
	now := func() time.Duration { return time.Since(began) }
	q.Limiter = limiter.NewOnClock(rdb, now, time.Now, append(options, limiter.WithHook(q.hook))...)
	return q
}

// wait has a caller wait behind all who wait already.
func (q *queue) wait(ctx context.Context, name string, requests ...limiter.Request) {
	go func() {
		got, err := q.Acquire(ctx, rowsFor("slots", oneFor1h, requests...)...)
		q.mutex.Lock()
		defer q.mutex.Unlock()
		if err != nil {
			name = fmt.Sprintf("%s: %v", name, err)
		}
		q.got, q.slots[name] = append(q.got, name), got
	}()
	synctest.Wait()
}

// releaseEach has callers release their slots, each to the next one, and requires who has got what
// in the end.
func (q *queue) releaseEach(t *testing.T, names []string, want ...string) {
	t.Helper()
	for _, name := range names {
		synctest.Wait()
		require.False(t, q.slots[name].Limited(), "%s should have a slot: %q", name, q.got)
		require.NoError(t, q.slots[name].Release(t.Context()), name)
	}
	synctest.Wait()
	require.Equal(t, want, q.got)
}

// Five callers wait, of whom the first and the third give up. A sixth caller may not wait.
func TestAcquireInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, q := t.Context(), newQueue(nil, limiter.WithMaxWaiting(5))
		first, stopFirst := context.WithCancelCause(ctx)
		third, stopThird := context.WithCancelCause(ctx)
		for i, ctx := range []context.Context{ctx, first, ctx, third, ctx, ctx, ctx} {
			time.Sleep(time.Second)
			q.wait(ctx, fmt.Sprint(i))
		}
		require.ErrorIs(t, q.last().Err, limiter.ErrTooManyWaiting, "the hook")
		stopThird(errors.New("tired"))
		synctest.Wait()
		stopFirst(errors.New("tired"))
		synctest.Wait()
		tooMany := `6: limiter: too many callers wait: key "slots": 5 callers wait already`
		want := []string{"0", tooMany, "3: tired", "1: tired", "2"}
		q.releaseEach(t, []string{"0"}, want...)
		got := q.last()
		require.Equal(t, []any{"reserve", 4 * time.Second, 2}, []any{got.Command, got.Waited, got.Behind}, "the hook")
		q.releaseEach(t, []string{"2", "4", "5"}, append(want, "4", "5")...)
		requireSlot(t, q.Limiter, "slots", oneFor1h)
	})
}

// How a wait ends, and when. A slot is free if the caller wants the tokens "used", of which none
// fit.
func TestAcquireEnds(t *testing.T) {
	t.Parallel()
	const second, never = time.Second, time.Hour
	for name, c := range map[string]struct {
		maxWait, deadline time.Duration
		key               string
		quantity          int
		err               error
		want              string
		after             time.Duration
	}{
		"max wait":       {2 * second, never, "", 1, limiter.ErrWaitTooLong, `"slots": no slot has come free`, 2 * second},
		"max wait 0":     {0, never, "", 1, limiter.ErrWaitTooLong, "waits for no more than 0s", 0},
		"below 0":        {-second, never, "", 1, limiter.ErrWaitTooLong, "waits for no more than 0s", 0},
		"deadline":       {never, 2 * second, "", 1, context.DeadlineExceeded, "context deadline exceeded", 2 * second},
		"tokens":         {2 * second, never, "used", 3, limiter.ErrWaitTooLong, "due after 3s, and", 0},
		"tokens, 0":      {0, never, "used", 3, limiter.ErrWaitTooLong, "the caller waits for no more than 0s", 0},
		"tokens, ctx":    {never, 2 * second, "used", 3, limiter.ErrWaitTooLong, "due after 3s", 0},
		"tokens in time": {3 * second, never, "used", 3, nil, "", 3 * second},
		"never fits":     {never, never, "", 11, limiter.ErrNeverFits, `"": 11 of a limit of 1 per second, capacity 10`, 0},
		"invalid":        {never, never, "", -1, limiter.ErrInvalid, "quantity -1", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, limit := limiter.NewLocal(limiter.WithMaxWait(c.maxWait)), limiter.Every(second).WithCapacity(10)
			requireSlot(t, l, "other", oneFor1h, limiter.Request{"used", limit, 10})
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			defer cancel()
			if c.key == "" {
				requireSlot(t, l, "slots", oneFor1h)
				go l.Acquire(ctx, oneFor1h.At("slots")) // is the first in the line
				synctest.Wait()
			}
			began := time.Now()
			got, err := l.Acquire(ctx, oneFor1h.At("slots"), limiter.Request{c.key, limit, c.quantity})
			require.ErrorIs(t, err, c.err, name)
			require.Contains(t, fmt.Sprint(err), c.want, name)
			require.Equal(t, []any{err == nil, c.after}, []any{!got.Limited(), time.Since(began)}, "%s: a slot, after", name)
		})
	}
}

// A caller that lacks tokens lets others ask meanwhile, and keeps its number. Callers behind it
// that lack as many tokens do not ask.
func TestAcquireWithTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, limit := newQueue(nil), limiter.Every(time.Second).WithCapacity(10)
		q.wait(t.Context(), "0", limiter.Request{"tokens", limit, 10})
		q.wait(t.Context(), "first")
		for i, quantity := range []int{5, 6, 5, 0} {
			q.wait(t.Context(), fmt.Sprint(i+1), limiter.Request{"tokens", limit, quantity})
		}
		q.releaseEach(t, []string{"0"}, "0", "first")
		asked := len(q.all())
		q.releaseEach(t, []string{"first"}, "0", "first", "4")
		require.Equal(t, 5, len(q.all())-asked, "a refund, and two rows of each of the callers 1 and 4")
		q.wait(t.Context(), "5")
		time.Sleep(7 * time.Second) // 7 tokens fit
		q.releaseEach(t, []string{"4", "1"}, "0", "first", "4", "1", "5")
		time.Sleep(3 * time.Second)
		q.releaseEach(t, []string{"5"}, "0", "first", "4", "1", "5", "3")
		time.Sleep(time.Minute)
		q.releaseEach(t, []string{"3", "2"}, "0", "first", "4", "1", "5", "3", "2")
	})
}

// A caller that gives up while it asks does not fail the others, even if its cause is another
// call's ErrUnavailable.
func TestAcquireGivenUpInItsTurn(t *testing.T) {
	t.Parallel()
	for _, policy := range []limiter.FailurePolicy{limiter.FailWithError, limiter.FailOpen} {
		synctest.Test(t, func(t *testing.T) {
			var answers atomic.Bool
			client := clientFunc(func(ctx context.Context, command redis.Cmder) error {
				if !answers.Swap(true) {
					<-ctx.Done() // for the whole time-out
				}
				answer(command, []any{int64(0), "0", []any{[]any{int64(0), int64(1), int64(0), "0", "3600", "0"}}})
				return ctx.Err()
			})
			q := newQueue(client, limiter.WithSource(limiter.FromModule), limiter.OnFailure(policy))
			ctx, giveUp := context.WithCancelCause(t.Context())
			q.wait(ctx, "0")
			q.wait(t.Context(), "1")
			giveUp(limiter.ErrUnavailable)
			synctest.Wait()
			require.ElementsMatch(t, []string{"0: limiter: Redis has not decided", "1"}, q.got, policy)
			require.Equal(t, limiter.FromModule, q.last().Result.Source, policy)
			time.Sleep(3 * time.Hour) // the slot of the first caller is asked back
		})
	}
}

// If Redis does not answer, each of three who wait is answered by the policy, and callers that wait
// on get a slot when Redis is back. An error reply is the answer to one caller.
func TestAcquireWhileRedisFails(t *testing.T) {
	t.Parallel()
	noAnswer, denied := errors.New("no answer"), `x: limiter: key "slots": NOPERM`
	const unanswered = `x: limiter: key "slots": no answer`
	for name, c := range map[string]struct {
		policy limiter.FailurePolicy
		err    error
		asked  int64 // how often, within a second of the failure: after three calls without an answer none is sent
		want   []string
	}{
		"error":          {limiter.FailWithError, noAnswer, 1, []string{unanswered, unanswered, unanswered}},
		"open":           {limiter.FailOpen, noAnswer, 1, []string{"x", "x", "x"}},
		"local":          {limiter.FailLocal, noAnswer, 2, []string{"x"}},
		"closed":         {limiter.FailClosed, noAnswer, 1, nil},
		"denied":         {limiter.FailWithError, servertest.ErrorReply("NOPERM"), 3, []string{denied, denied, denied}},
		"denied, open":   {limiter.FailOpen, servertest.ErrorReply("NOPERM"), 3, []string{"x", "x", "x"}},
		"denied, closed": {limiter.FailClosed, servertest.ErrorReply("NOPERM"), 3, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked, limited atomic.Int64
			var fails atomic.Bool
			client := clientFunc(func(_ context.Context, command redis.Cmder) error {
				if command.Args()[0] == "cl.reserve" {
					asked.Add(1)
				}
				if fails.Load() {
					return c.err
				}
				row := []any{limited.Load(), int64(1), int64(0), "3", "3600", "0"}
				answer(command, []any{row[0], "3", []any{row}})
				return nil
			})
			limited.Store(1)
			q := newQueue(client, limiter.WithSource(limiter.FromModule), limiter.OnFailure(c.policy))
			for range 3 {
				q.wait(t.Context(), "x")
			}
			require.EqualValues(t, 1, asked.Load(), "%s: only the first asks", name)
			fails.Store(true)
			time.Sleep(9 * time.Millisecond) // more than one pause, and less than two
			q.releaseEach(t, nil, c.want...)
			time.Sleep(900 * time.Millisecond)
			require.Equal(t, 1+c.asked, asked.Load(), name)
			limited.Store(0)
			fails.Store(false)
			time.Sleep(2 * time.Hour) // what Redis may have taken is given back, too
			synctest.Wait()
			require.Len(t, q.got, 3, name)
		})
	}
}

// A failure answers the callers who waited when it came. Callers who join later ask.
func TestFailureAnswersThoseWhoWaitedAlready(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		client := clientFunc(func(_ context.Context, command redis.Cmder) error {
			if fails.Swap(false) {
				time.Sleep(time.Second)
				return errors.New("no answer")
			}
			answer(command, []any{int64(0), "0", []any{[]any{int64(0), int64(9), int64(8), "0", "3600", "0"}}})
			return nil
		})
		var l *limiter.Limiter
		joined, served, failed := atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
		wait := func() {
			got, err := l.Acquire(t.Context(), oneFor1h.At("slots"))
			if err != nil {
				failed.Add(1)
				return
			}
			served.Add(1)
			got.ReleaseSoon(t.Context())
		}
		join := func(context.Context, limiter.Event) { // a caller joins during each turn of the first few
			if joined.Add(1) <= 10 {
				go wait()
				time.Sleep(time.Millisecond)
			}
		}
		l = limiter.New(client, limiter.WithSource(limiter.FromModule), limiter.WithTimeout(time.Minute),
			limiter.WithHook(join))
		for range 3 {
			go wait()
			synctest.Wait()
		}
		time.Sleep(3 * time.Hour)
		require.LessOrEqual(t, failed.Load(), int64(3)+3,
			"the three who waited, and at most three who joined before they were told; %d were served", served.Load())
		require.GreaterOrEqual(t, served.Load(), int64(7),
			"callers who joined later; %d got the failure", failed.Load())
	})
}

// Callers stand in one line for slots on a node that works, and the first of them also wants tokens
// of a dead node. The failure of that node is the answer to the first caller alone: the others are
// served.
func TestDeadNodeOfTokens(t *testing.T) {
	t.Parallel()
	for _, policy := range []limiter.FailurePolicy{limiter.FailWithError, limiter.FailOpen, limiter.FailLocal} {
		synctest.Test(t, func(t *testing.T) {
			var held atomic.Int64
			client := spreadClient{func(command redis.Cmder) error {
				words := fmt.Sprintln(command.Args()...)
				switch {
				case strings.Contains(words, "{dead}"):
					return errors.New("no answer")
				case strings.Contains(words, "cl.refund"):
					held.Add(-1)
					answer(command, []any{int64(0), "0", []any{[]any{int64(0), int64(1), int64(1), "0", "0", "9"}}})
				case held.Load() > 0:
					answer(command, []any{int64(1), "9", []any{[]any{int64(1), int64(1), int64(0), "9", "9", "0"}}})
				default:
					held.Add(1)
					answer(command, []any{int64(0), "0", []any{[]any{int64(0), int64(1), int64(0), "0", "9", "0"}}})
				}
				return nil
			}}
			l := limiter.New(client, limiter.WithSource(limiter.FromModule), limiter.OnFailure(policy))
			slots := limiter.Slots{Max: 1, TTL: time.Hour}.At("{works}slots")
			var inFlight, most, failed, byPolicy atomic.Int64
			work := func(rows ...limiter.Row) {
				got, err := l.Acquire(t.Context(), rows...)
				if err != nil {
					failed.Add(1)
					return
				}
				if got.Results[0].Source != limiter.FromModule {
					byPolicy.Add(1)
				}
				most.Store(max(most.Load(), inFlight.Add(1)))
				time.Sleep(time.Second)
				inFlight.Add(-1)
				_ = got.Release(t.Context())
			}
			go work(slots, limiter.Request{Key: "{dead}tokens", Limit: fifteenPerDay, Quantity: 1})
			synctest.Wait()
			for range 5 {
				go work(slots)
			}
			time.Sleep(time.Minute)
			fails := int64(0)
			if policy == limiter.FailWithError {
				fails = 1
			}
			require.Equal(t, fails, failed.Load(), "%v: only the caller that needs the dead node", policy)
			require.Zero(t, byPolicy.Load(), "%v: slots that the policy gave instead of the node that works", policy)
			require.LessOrEqual(t, most.Load(), int64(1), "%v: the slot is one", policy)
			time.Sleep(3 * time.Hour)
		})
	}
}
