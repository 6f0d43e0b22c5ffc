package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

// A store is a server, and the prefix of the keys of this playground.
type store struct {
	rdb    *redis.Client
	prefix string
}

var script = redis.NewScript(limiter.Script())

// send sends a command, or the script if the server lacks the module.
func (s store) send(ctx context.Context, c call) (a answer, err error) {
	var names []string
	command := []any{"CL." + strings.ToUpper(c.Command)}
	words := []any{c.Command}
	for _, row := range c.Rows {
		names = append(names, s.prefix+row[0])
		command = append(command, s.prefix+row[0])
		for _, word := range row[1:] {
			command, words = append(command, word), append(words, word)
		}
	}
	for _, word := range c.More {
		command, words = append(command, word), append(words, word)
	}
	if c.Command == "reset" {
		a = answer{Sent: "DEL " + strings.Join(names, " ")}
		a.Reply, err = s.rdb.Del(ctx, names...).Result()
		return a, err
	}
	a = answer{Sent: line(command), Source: "module"}
	a.Reply, err = s.rdb.Do(ctx, command...).Result()
	if err != nil && strings.HasPrefix(err.Error(), "ERR unknown command") {
		sent := append([]any{"EVALSHA", script.Hash(), len(names)}, strings.Join(names, " "))
		a = answer{Sent: line(append(sent, words...)), Source: "script"}
		a.Reply, err = script.Run(ctx, s.rdb, names, words...).Result()
	}
	return a, err
}

func line(words []any) string { return strings.TrimSuffix(fmt.Sprintln(words...), "\n") }
