package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// A replying client is a server that makes these replies in turn.
type replying struct {
	limiter.Client // for Pipelined, which is not used
	replies        []any
	sent           []string
}

func (r *replying) Process(_ context.Context, command redis.Cmder) error {
	r.sent = append(r.sent, strings.Trim(fmt.Sprint(command.Args()), "[]"))
	if len(r.replies) < len(r.sent) {
		return errors.New("one command too many")
	}
	command.(*redis.Cmd).SetVal(r.replies[len(r.sent)-1])
	err, _ := r.replies[len(r.sent)-1].(error)
	return err
}

// Missing is the reply of a server that lacks CL.RESERVE and its like.
type missing struct{}

func (missing) Error() string { return "ERR unknown command 'cl.reserve'" }
func (missing) RedisError()   {}

// replyOf is a reply of CL.RESERVE and its like.
func replyOf(row ...any) []any { return []any{int64(0), int64(0), []any{row}} }

// throttled is a reply of CL.THROTTLE.
func throttled(limited, limit, remaining, retry, reset int64) []any {
	return []any{limited, limit, remaining, retry, reset}
}

// Results from replies of servers that read the capacity as was asked, that have begun to read
// it in the other way since, and that have CL.THROTTLE alone.
func TestResultsFromReplies(t *testing.T) {
	question, charge, allow := replyOf(int64(0), int64(15), int64(15), "0", "0"), commands["charge"], commands["reserve"]
	reserve := func(l *limiter.Limiter, ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error) {
		return l.Reserve(ctx, key, limit, quantity, 2*time.Second)
	}
	half, tiny := limiter.PerMinute(120).Burst(15), limiter.PerSecond(1e9).Burst(15) // their emission intervals
	for i, c := range []struct {
		ask                ask
		limit              limiter.Limit
		quantity           int
		first              any
		reply              []any
		sent               string
		allowed, remaining int
		wait, retry, reset time.Duration
	}{
		{charge, half, 3, question, replyOf(int64(0), int64(15), int64(12), "0", "1.5"), "cl.charge k 15 120 60 3", 3, 12, 0, -1, 1500e6},
		{charge, half, 3, question, replyOf(int64(0), int64(16), int64(13), "0", "1.5"), "cl.charge k 15 120 60 3", 3, 12, 0, -1, 1500e6},
		{charge, half, 16, question, replyOf(int64(0), int64(16), int64(0), "0", "8"), "cl.charge k 15 120 60 16", 16, 0, 0, 500e6, 8e9},
		{reserve, half, 1, question, replyOf(int64(0), int64(16), int64(0), "0.5", "8.5"), "cl.reserve k 15 120 60 1 2", 1, 0, 1e9, -1, 8500e6},
		{allow, half, 1, missing{}, throttled(0, 15, 14, -1, 1), "cl.throttle k 14 120 60 1", 1, 14, 0, -1, 1e9},
		{allow, half, 1, missing{}, throttled(0, 14, 13, -1, 1), "cl.throttle k 14 120 60 1", 1, 14, 0, -1, 1e9},
		{allow, tiny, 2, missing{}, throttled(1, 15, 1, 1, 1), "cl.throttle k 14 1000000000 1 2", 0, 1, 0, 1, 1e9},
	} {
		server := &replying{replies: []any{c.first, c.reply}}
		result, err := c.ask(limiter.New(server), context.Background(), "k", c.limit, c.quantity)
		require.NoError(t, err, i)
		require.Equal(t, limiter.Result{c.limit, c.quantity, c.allowed, c.remaining, c.wait, c.retry, c.reset, limiter.PathModule}, result, i)
		require.Equal(t, c.sent, server.sent[1], i)
	}
}

// Replies of other modules are errors, not decisions.
func TestRepliesOfOtherModules(t *testing.T) {
	replies := []any{nil, "OK", int64(1), []any{}, []any{int64(0), int64(0), []any{}}, replyOf(int64(0), int64(15), int64(15), "0")}
	for _, wrong := range []any{nil, "x", "-2", "1.x", "1.1234567890", "9223372037"} {
		for i := range 5 {
			row := []any{int64(0), int64(15), int64(15), "0", "0"}
			if row[i] = wrong; wrong != "-2" && wrong != "9223372037" || i > 2 {
				replies = append(replies, replyOf(row...))
			}
		}
	}
	for _, reply := range replies {
		_, err := limiter.New(&replying{replies: []any{reply}}).Peek(context.Background(), "k", fifteenPerDay)
		require.ErrorContains(t, err, "is the command that of another module?", "%v", reply)
	}
	for _, reply := range []any{throttled(0, 15, 14, -1, 1)[:4], []any{int64(0), int64(15), nil, int64(-1), int64(1)}} {
		_, err := limiter.New(&replying{replies: []any{missing{}, reply}}).Allow(context.Background(), "k", fifteenPerDay)
		require.ErrorContains(t, err, "is the command that of another module?", "%v", reply)
	}
}
