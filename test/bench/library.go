package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

// byLibrary is an alternative that sends the same command as a library for Go. Libraries do not
// export their scripts, so a call of allow is recorded.
func byLibrary(name, title string, allow func(*redis.Client, Limit) error, limited func(int64) bool) Alternative {
	return Alternative{Name: name, Title: title, Scripts: record(allow, Roomy)[1:2],
		Operation: func(limit Limit) Operation {
			eval := record(allow, limit) // EVAL, the script, 1, the prefix of keys, arguments
			return Operation{Limited: limited, Words: func(target Target) []string {
				return append([]string{"EVALSHA", hash(eval[1]), "1", eval[3] + target.Key}, eval[4:]...)
			}}
		}}
}

func hash(script string) string { return redis.NewScript(script).Hash() }

func allowByLimiter(client *redis.Client, limit Limit) error {
	l := limiter.New(client, limiter.WithSource(limiter.FromScript))
	_, err := l.Allow(context.Background(), "",
		limiter.Per(int(limit.Count), limit.period()).WithCapacity(int(limit.Capacity)))
	return err
}

func allowByRedisRate(client *redis.Client, limit Limit) error {
	rate := redis_rate.Limit{Rate: int(limit.Count), Burst: int(limit.Capacity), Period: limit.period()}
	_, err := redis_rate.NewLimiter(client).Allow(context.Background(), "", rate)
	return err
}

func (l Limit) period() time.Duration { return time.Duration(l.Period) * time.Second }

// record returns the words of the EVAL that a library sends for an empty key.
func record(allow func(*redis.Client, Limit) error, limit Limit) (eval []string) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	sent := errors.New("sent")
	client.AddHook(recorder(func(command redis.Cmder) error {
		if command.Name() == "evalsha" {
			return noScript{} // makes the library send the source
		}
		for _, word := range command.Args() {
			eval = append(eval, fmt.Sprint(word))
		}
		return sent
	}))
	err := allow(client, limit)
	if !errors.Is(err, sent) {
		panic(fmt.Sprintf("bench: a library has not been recorded: %v", err))
	}
	return eval
}

type recorder func(redis.Cmder) error

func (r recorder) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (r recorder) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, command redis.Cmder) error { return r(command) }
}

type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT recorded, not run" }
func (noScript) RedisError()   {}
