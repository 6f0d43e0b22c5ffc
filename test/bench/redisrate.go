package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// redis_rate is measured by the words that it sends: a recorder stands in for its
// client, and the load repeats what was recorded. So the library's own script
// runs, whatever version of it go.mod names, while its client, go-redis, does not
// blur the figures.

// A recorder is a client, as redis_rate wants one, that keeps the last script
// call to itself and makes an answer up. Any other method would panic: it has no
// client behind it.
type recorder struct {
	*redis.Client
	source string
	words  []string
}

func (r *recorder) EvalSha(ctx context.Context, hash string, keys []string, arguments ...any) *redis.Cmd {
	r.words = []string{"EVALSHA", hash, fmt.Sprint(len(keys))}
	r.words = append(r.words, keys...)
	for _, argument := range arguments {
		r.words = append(r.words, fmt.Sprint(argument))
	}
	command := redis.NewCmd(ctx)
	if r.source == "" {
		// Makes redis_rate send the source.
		command.SetErr(noScript{})
	} else {
		command.SetVal([]any{int64(1), int64(1), "-1", "1"})
	}
	return command
}

func (r *recorder) Eval(ctx context.Context, source string, keys []string, arguments ...any) *redis.Cmd {
	r.source = source
	return r.EvalSha(ctx, redis.NewScript(source).Hash(), keys, arguments...)
}

// noScript is how a server refuses a script that it does not know.
type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT recorded, not run" }
func (noScript) RedisError()   {}

// recordRedisRate returns the source of the script and the words of one call.
func recordRedisRate(limit Limit) (source string, words []string) {
	var r recorder
	_, err := redis_rate.NewLimiter(&r).Allow(context.Background(), "{key}", redis_rate.Limit{
		Rate:   int(limit.Count),
		Burst:  int(limit.Capacity),
		Period: time.Duration(limit.Period) * time.Second,
	})
	if err != nil || r.source == "" {
		panic(fmt.Sprintf("bench: redis_rate has not been recorded: %v", err))
	}
	return r.source, r.words
}

func loadRedisRate(ctx context.Context, client *redis.Client) error {
	source, _ := recordRedisRate(Roomy)
	return client.ScriptLoad(ctx, source).Err()
}

func redisRate(limit Limit, _ int64) Operation {
	_, words := recordRedisRate(limit)
	return Operation{
		Commands: [][]string{words},
		// The first value is the number of tokens that were granted.
		Outcome: func(replies []int64) Outcome { return outcome(replies[0] == 0) },
	}
}
