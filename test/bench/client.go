package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/servertest"
)

// A Client makes calls where no time is measured, over one connection to a server of
// its own.
type Client struct {
	*Setting
	server *servertest.Server // nil where it has not started
	redis  *redis.Client
	calls  int64
}

// Start starts a server with a module and the marker. The caller closes the client.
func (s *Setting) Start(module string, wrapper []string, config ...string) *Client {
	if s.failed(nil) {
		return &Client{Setting: s}
	}
	server, err := servertest.Run(servertest.Options{
		Module: module, Wrapper: wrapper,
		Config: append([]string{"--save", "", "--loadmodule", s.Marker}, config...),
	})
	if s.failed(err) {
		return &Client{Setting: s}
	}
	return &Client{Setting: s, server: server, redis: server.NewClient(func(o *redis.Options) {
		o.PoolSize, o.Protocol, o.DisableIdentity = 1, 2, true
	})}
}

// Close ends the server.
func (c *Client) Close() {
	if c.server != nil {
		c.redis.Close()
		c.server.Close()
	}
}

// Do sends a command and returns its reply.
func (c *Client) Do(words ...any) any {
	if c.failed(nil) {
		return nil
	}
	reply, err := c.redis.Do(c.Ctx, words...).Result()
	if !errors.Is(err, redis.Nil) {
		c.failed(err)
	}
	return reply
}

// Call makes one call per key, all sent at once, and tells how each was answered.
func (c *Client) Call(operation Operation, keys ...string) []Outcome {
	if c.failed(nil) {
		return nil
	}
	pipeline := c.redis.Pipeline()
	for _, key := range keys {
		c.calls++
		for _, command := range operation.Commands(Call{key, time.Now().UnixMilli(), c.calls}) {
			var words []any
			for _, word := range command {
				words = append(words, word)
			}
			pipeline.Do(c.Ctx, words...)
		}
	}
	commands, err := pipeline.Exec(c.Ctx)
	if !errors.Is(err, redis.Nil) && c.failed(err) {
		return nil
	}
	outcomes := make([]Outcome, len(keys))
	size := len(commands) / len(keys)
	for i := range outcomes {
		outcomes[i] = operation.outcome(commands[i*size : (i+1)*size])
	}
	return outcomes
}

// Info adds up fields of INFO that are numbers, or absent.
func (c *Client) Info(fields ...string) (sum float64) {
	text, _ := c.Do("INFO").(string)
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); slices.Contains(fields, name) {
			number, _ := strconv.ParseFloat(value, 64)
			sum += number
		}
	}
	return sum
}

// prepare calls every key so often that what follows meets a steady state: redis-cell
// lets two calls through where we let one, and the third is surely limited.
func (c *Client) prepare(cs Case, keys []string) {
	if cs.Script != "" {
		c.Do("SCRIPT", "LOAD", cs.Script)
	}
	fill := cs.operation
	switch {
	case cs.Name == "get":
		fill = set(Roomy, 1)
	case cs.Case == "peek":
		fill = cs.Operation(Roomy, 1)
	}
	for range 3 {
		for first := 0; first < len(keys); first += batch {
			c.Call(fill, keys[first:min(first+batch, len(keys))]...)
		}
	}
}

// batch is how many calls are sent at once where it does not matter.
const batch = 128

// expect makes a call on each key, at once, and is an error if one is answered
// otherwise than the case wants.
func (c *Client) expect(cs Case, keys ...string) {
	for _, got := range c.Call(cs.operation, keys...) {
		if got != cs.want {
			c.failed(fmt.Errorf("%s: a call that should have been %s was %s", cs.ID(), cs.want, got))
		}
	}
}

// keys names the first keys of a prefix, with as many digits as redis-benchmark puts in.
func keys(prefix string, count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s%012d", prefix, i)
	}
	return names
}
