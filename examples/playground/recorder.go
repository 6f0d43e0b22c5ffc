package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"funnel/internal/rediscli"
)

// An exchange is a command as it was sent, and its reply, both as redis-cli shows them.
type exchange struct {
	Sent  string `json:"sent"`
	Reply string `json:"reply"`
}

type recordingKey struct{}

// record returns a context, and where the commands that are sent with it are recorded.
func record(ctx context.Context) (context.Context, *[]exchange) {
	recording := new([]exchange)
	return context.WithValue(ctx, recordingKey{}, recording), recording
}

// A recorder is a hook of go-redis that records the commands of contexts that [record]
// has made, from one goroutine each: the goroutines of package limiter.
type recorder struct{}

func (recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, sending redis.Cmder) error {
		err := next(ctx, sending)
		recording, isRecorded := ctx.Value(recordingKey{}).(*[]exchange)
		// The commands that a new connection sends are of other types.
		if command, ok := sending.(*redis.Cmd); ok && isRecorded {
			*recording = append(*recording, exchange{Sent: sent(command), Reply: replied(command, err)})
		}
		return err
	}
}

func sent(command *redis.Cmd) string {
	words := make([]string, len(command.Args()))
	for i, argument := range command.Args() {
		words[i] = fmt.Sprint(argument)
		if strings.Contains(words[i], "redis.call") {
			words[i] = "(the text of the script)"
		}
	}
	words[0] = strings.ToUpper(words[0])
	return strings.Join(words, " ")
}

func replied(command *redis.Cmd, err error) string {
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		return "(error) " + reply.Error()
	case err != nil:
		return "Error: " + err.Error()
	}
	return strings.Join(rediscli.Lines(command.Val()), "\n")
}
