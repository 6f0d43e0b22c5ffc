// When the slots of an Acquisition are renewed, and when they are lost, to the nanosecond.

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// Two slots are taken by one call, for 30 and for 12 seconds. The shorter TTL counts: renewals
// follow each 4 seconds, and each 1.2 seconds while Redis does not answer. Without an answer the
// slots are lost 12 seconds after the last answered call was sent.
func TestWhenSlotsRenewAndAreLost(t *testing.T) {
	t.Parallel()
	const never = time.Minute
	type answers func(after time.Duration) (rows string, late time.Duration, err error)
	held := func(after time.Duration) (string, time.Duration, error) { return "0 5, 0 5", 0, nil }
	// until answers as held up to an instant, and then as another.
	until := func(instant time.Duration, other answers) answers {
		return func(after time.Duration) (string, time.Duration, error) {
			if after < instant {
				return held(after)
			}
			return other(after)
		}
	}
	says := func(rows string) answers {
		return func(time.Duration) (string, time.Duration, error) { return rows, 0, nil }
	}
	fails := func(time.Duration) (string, time.Duration, error) { return "", 0, errNoAnswer }
	hangs := func(time.Duration) (string, time.Duration, error) { return "", never, errNoAnswer }
	for _, c := range []struct {
		name    string
		policy  limiter.FailurePolicy
		answers answers
		renewed string // when, up to 20 s
		lost    time.Duration
	}{
		{name: "each call is answered", answers: held, renewed: "4s 8s 12s 16s 20s", lost: never},
		{name: "each answer takes a second", renewed: "4s 8s 12s 16s 20s", lost: never,
			answers: func(time.Duration) (string, time.Duration, error) { return "0 5, 0 5", time.Second, nil }},
		{name: "no answer for a second", renewed: "4s 8s 9.2s 13.2s 17.2s", lost: never,
			answers: until(5*time.Second, func(after time.Duration) (string, time.Duration, error) {
				if after < 9*time.Second {
					return fails(after)
				}
				return held(after)
			})},
		{name: "no answer after the first", answers: until(1, fails),
			renewed: "4s 5.2s 6.4s 7.6s 8.8s 10s 11.2s", lost: 12 * time.Second},
		{name: "no answer after the first renewal", answers: until(5*time.Second, fails),
			renewed: "4s 8s 9.2s 10.4s 11.6s 12.8s 14s 15.2s", lost: 16 * time.Second},
		{name: "a renewal hangs", answers: until(1, hangs), renewed: "4s", lost: 12 * time.Second},
		{name: "the first answer takes 2 seconds, and is the last", renewed: "4s 5.2s 6.4s 7.6s 8.8s 10s 11.2s",
			lost: 12 * time.Second,
			answers: func(after time.Duration) (string, time.Duration, error) {
				if after == 0 {
					return "0 0, 0 0", 2 * time.Second, nil
				}
				return fails(after)
			}},
		{name: "the first row says lost", answers: until(5*time.Second, says("1 0, 0 5")),
			renewed: "4s 8s", lost: 8 * time.Second},
		{name: "the last row says lost", answers: until(5*time.Second, says("0 5, 1 0")),
			renewed: "4s 8s", lost: 8 * time.Second},
		{name: "a row limits, although it is held", answers: until(5*time.Second, says("0 5, 1 5")),
			renewed: "4s 8s", lost: 8 * time.Second},
		{name: "a slot was taken anew", answers: until(5*time.Second, says("0 0, 0 5")),
			renewed: "4s 8s", lost: 8 * time.Second},
		{name: "nobody counts the slots of FailOpen", policy: limiter.FailOpen, answers: fails, lost: never},
		{name: "slots of this process are renewed here", policy: limiter.FailLocal, lost: never,
			answers: func(after time.Duration) (string, time.Duration, error) {
				if after == 0 {
					return fails(after)
				}
				return "1 0, 1 0", 0, nil
			}},
	} {
		for _, isShortLast := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				start, renewed := time.Now(), []string{}
				rdb := clientFunc(func(ctx context.Context, command redis.Cmder) error {
					after := time.Since(start)
					if command.Args()[0] == "cl.refund" {
						rows := (len(command.Args()) - 1) / 5
						answer(command, replyOf(strings.Join(slices.Repeat([]string{"0 5"}, rows), ", ")))
						return nil
					}
					if after > 0 {
						assert.Equal(t, []any{"0", "0"}, []any{fmt.Sprint(command.Args()[2]), fmt.Sprint(command.Args()[7])},
							"%s: a renewal takes no slot", c.name)
						renewed = append(renewed, after.String())
					}
					rows, late, err := c.answers(after)
					slept := sleep(ctx, late)
					if slept != nil {
						return slept
					}
					if err == nil {
						answer(command, replyOf(rows))
					}
					return err
				})
				l := limiter.New(rdb, limiter.WithSource(limiter.FromModule), limiter.WithTimeout(0),
					limiter.OnFailure(c.policy), limiter.WithLogger(slog.New(slog.DiscardHandler)))
				rows := []limiter.Row{limiter.Slots{Max: 9, TTL: 12 * time.Second}.At("{a}short"),
					limiter.Slots{Max: 9, TTL: 30 * time.Second}.At("{a}long")}
				if isShortLast {
					rows[0], rows[1] = rows[1], rows[0]
				}
				got, err := l.TryAcquire(t.Context(), rows...)
				require.NoError(t, err, c.name)
				require.False(t, got.Limited(), c.name)
				lost := never
				stop := context.AfterFunc(got.Context(), func() { lost = time.Since(start) })
				time.Sleep(20*time.Second - time.Since(start))
				synctest.Wait()
				require.Equal(t, c.renewed, strings.Join(renewed, " "), "%s: when the slots were renewed", c.name)
				require.Equal(t, c.lost, lost, "%s: when they were lost", c.name)
				if lost < never {
					require.Equal(t, limiter.ErrSlotLost, context.Cause(got.Context()), c.name)
				}
				stop()
				_ = got.Release(t.Context())
				time.Sleep(never)
			})
		}
	}
}

// sleep waits for a time, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// replyOf returns a reply to CL.RESERVE of slots. Each row is given as "limited held".
func replyOf(rows string) any {
	reply := []any{}
	limits := int64(0)
	for row := range strings.SplitSeq(rows, ", ") {
		limited, held, ok := strings.Cut(row, " ")
		if !ok {
			panic(errors.New("a row must be limited and held, not " + row))
		}
		wait := int64(0)
		if limited == "1" {
			wait, limits = 1, 1
		}
		reply = append(reply, []any{wait, int64(9), int64(8), "0", "12", held})
	}
	return []any{limits, "0", reply}
}
