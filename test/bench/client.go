package bench

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"funnel/internal/servertest"
)

// A Client makes calls whose time is not measured, over one connection to a server of its own.
type Client struct {
	*Setting
	server *servertest.Server // nil if it has not started
	redis  *redis.Client
	others []*redis.Client // Close closes them, too
	calls  int64
}

// Start starts a server with a module and the marker. The caller closes the client.
func (s *Setting) Start(module string, wrapper []string, config ...string) *Client {
	client := &Client{Setting: s}
	if s.failed(nil) {
		return client
	}
	config = append([]string{"--save", "", "--loadmodule", s.Marker}, config...)
	server, err := servertest.Run(servertest.Options{Module: module, Wrapper: wrapper, Config: config})
	if !s.failed(err) {
		client.server = server
		client.redis = server.NewClient(func(o *redis.Options) { o.PoolSize, o.Protocol, o.DisableIdentity = 1, 2, true })
	}
	return client
}

func (c *Client) Close() {
	if c.server != nil {
		for _, client := range append(c.others, c.redis) {
			client.Close()
		}
		c.server.Close()
	}
}

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

// Call makes one call per key, all sent at once, and says whether each was limited.
func (c *Client) Call(operation Operation, keys ...string) []bool {
	if c.failed(nil) {
		return nil
	}
	pipeline := c.redis.Pipeline()
	for _, key := range keys {
		c.calls++
		pipeline.Do(c.Ctx, servertest.ToAny(operation.Words(Target{key, c.calls}))...)
	}
	commands, err := pipeline.Exec(c.Ctx)
	if !errors.Is(err, redis.Nil) && c.failed(err) {
		return nil
	}
	var limited []bool
	for _, command := range commands {
		limited = append(limited, operation.limited(command.(*redis.Cmd).Val()))
	}
	return limited
}

// Info adds up the numbers of INFO whose names match.
func (c *Client) Info(names string) (sum float64) {
	text, _ := c.Do("INFO", "everything").(string)
	for _, found := range regexp.MustCompile(`(?m)^(?:`+names+`)[:=]([\d.]+)`).FindAllStringSubmatch(text, -1) {
		number, _ := strconv.ParseFloat(found[1], 64)
		sum += number
	}
	return sum
}

// serverTime matches the seconds that the server's threads worked.
const serverTime = "used_cpu_user|used_cpu_sys"

// prepare calls every key until the key is in a steady state. If funnel allows one call, redis-cell
// allows two, and limits the third.
func (c *Client) prepare(cs Case, keys []string) {
	for _, script := range cs.Scripts {
		c.Do("SCRIPT", "LOAD", script)
	}
	for range 3 {
		for some := range slices.Chunk(keys, batch) {
			c.Call(cs.operation, some...)
		}
	}
}

// batch is how many calls are sent at once if the number does not matter.
const batch = 128

// expect makes a call on each key, at once, and fails if a reply does not match the name of the
// case.
func (c *Client) expect(cs Case, keys ...string) {
	want := cs.Case == "limited"
	if slices.Contains(c.Call(cs.operation, keys...), !want) {
		c.failed(fmt.Errorf("%s: a call was limited: %v", cs.ID(), !want))
	}
}

// keys returns the first keys with a prefix, with as many digits as redis-benchmark uses.
func keys(prefix string, count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s%012d", prefix, i)
	}
	return names
}
