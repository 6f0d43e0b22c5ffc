package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// recordRedisRate returns the script that redis_rate sends, whatever version of it
// go.mod names, and the words of one call: its client keeps them to itself.
func recordRedisRate(limit Limit, key string) (source string, words []string) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	client.AddHook(recorder(func(command redis.Cmder) error {
		if command.Name() == "evalsha" {
			return noScript{} // makes redis_rate send the source
		}
		source = command.Args()[1].(string)
		words = strings.Fields(fmt.Sprintln(append([]any{"EVALSHA", hash(source)}, command.Args()[2:]...)...))
		command.(*redis.Cmd).SetVal([]any{int64(1), int64(1), "-1", "1"})
		return nil
	}))
	_, err := redis_rate.NewLimiter(client).Allow(context.Background(), key, redis_rate.Limit{
		Rate: int(limit.Count), Burst: int(limit.Capacity), Period: time.Duration(limit.Period) * time.Second,
	})
	if err != nil {
		panic(fmt.Sprintf("bench: redis_rate has not been recorded: %v", err))
	}
	return source, words
}

// A recorder takes the place of a connection.
type recorder func(redis.Cmder) error

func (r recorder) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, command redis.Cmder) error { return r(command) }
}
func (r recorder) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// noScript is the error of a server that does not know a script.
type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT recorded, not run" }
func (noScript) RedisError()   {}

func redisRateScript() string {
	source, _ := recordRedisRate(Roomy, "")
	return source
}

// redisRate replies with the number of tokens that were granted.
func redisRate(limit Limit, _ int64) Operation {
	_, recorded := recordRedisRate(limit, "key") // after which stand the numbers
	operation := words(recorded[:3], recorded[4:]...)
	rate := operation.Commands
	operation.Commands = func(call Call) [][]string { call.Key = "rate:" + call.Key; return rate(call) }
	operation.Limited = func(replies []int64) bool { return replies[0] == 0 }
	return operation
}
