// The tests share these servers, clients, clocks, and recorders of events.

package limiter_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// fifteenPerDay is a limit whose funnel leaks a token in 96 minutes, and so none while a test runs.
var fifteenPerDay = perDay(15)

// perDay returns a limit of count tokens that leak within a day.
func perDay(count int) limiter.Limit { return limiter.Per(count, 24*time.Hour) }

// Tests share two servers, one of which lacks the module. Each has databases of its own.
var (
	servers   sync.Map // by source
	databases atomic.Int64
)

func TestMain(m *testing.M) {
	m.Run()
	servers.Range(func(_, server any) bool { server.(func() *servertest.Server)().Close(); return true })
}

// shared returns the shared server on which that source decides calls.
func shared(t testing.TB, source limiter.Source) *servertest.Server {
	options := servertest.Options{Config: []string{"--save", "", "--databases", "1000"}}
	if source == limiter.FromModule {
		options.Module = servertest.Module(t)
	}
	server, _ := servers.LoadOrStore(source, sync.OnceValue(func() *servertest.Server {
		server, err := servertest.Run(options)
		if err != nil {
			panic(err)
		}
		return server
	}))
	return server.(func() *servertest.Server)()
}

// ownDatabase is the number of a database that no other test uses.
func ownDatabase() int { return int(databases.Add(1) % 1000) }

// connect connects to an empty database of the shared server on which that source decides calls.
func connect(t testing.TB, source limiter.Source) *redis.Client {
	client := shared(t, source).Client(t, func(options *redis.Options) { options.DB = ownDatabase() })
	require.NoError(t, client.FlushDB(context.Background()).Err())
	return client
}

// byModuleAndScript runs a test against the server with the module, and against the one without.
func byModuleAndScript(t *testing.T, test func(t *testing.T, client *redis.Client, source limiter.Source)) {
	for _, source := range []limiter.Source{limiter.FromModule, limiter.FromScript} {
		t.Run(string(source), func(t *testing.T) { test(t, connect(t, source), source) })
	}
}

// withoutModule starts a server without the module.
func withoutModule(t testing.TB, config ...string) *servertest.Server {
	return servertest.Start(t, servertest.Options{Config: config})
}

// allow takes a token, or is limited, and fails the test if there is no decision.
func allow(t testing.TB, l *limiter.Limiter, key string, limit limiter.Limit) limiter.Result {
	result, err := l.Allow(context.Background(), key, limit)
	require.NoError(t, err)
	return result
}

// An ask is a call for tokens of a key.
type ask func(l *limiter.Limiter, key string, quantity int) (limiter.Result, error)

// methods are the methods by their names in events.
var methods = methodsFor(fifteenPerDay)

// methodsFor returns the methods, with calls for tokens of a limit.
func methodsFor(limit limiter.Limit) map[string]ask {
	type method func(*limiter.Limiter, context.Context, string, limiter.Limit, int) (limiter.Result, error)
	askBy := func(method method) ask {
		return func(l *limiter.Limiter, key string, quantity int) (limiter.Result, error) {
			return method(l, context.Background(), key, limit, quantity)
		}
	}
	return map[string]ask{
		"reserve": askBy((*limiter.Limiter).AllowN),
		"take":    askBy((*limiter.Limiter).AllowAtMost),
		"charge":  askBy((*limiter.Limiter).Charge),
		"peek": func(l *limiter.Limiter, key string, _ int) (limiter.Result, error) {
			return l.Peek(context.Background(), key, limit)
		},
		"refund": func(l *limiter.Limiter, key string, quantity int) (limiter.Result, error) {
			taken := limiter.Result{Key: key, Limit: limit, Allowed: quantity, Receipt: math.MaxInt64}
			return l.Settle(context.Background(), &taken, 0) // none of the tokens has leaked
		},
	}
}

// withoutRetries turns retries off: errors return at once.
func withoutRetries(options *redis.Options) { options.MaxRetries, options.DialerRetries = -1, 1 }

// unreachable returns a client of a server that does not exist.
func unreachable(t testing.TB) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { client.Close() })
	return client
}

// A clientFunc answers commands by a function.
type clientFunc func(ctx context.Context, command redis.Cmder) error

func (f clientFunc) Process(ctx context.Context, command redis.Cmder) error { return f(ctx, command) }

// answer answers a command, also one that go-redis must not repeat, such as a refund: it has a type
// of its own.
func answer(command redis.Cmder, reply any) {
	command.(interface{ SetVal(any) }).SetVal(reply)
}

// allows is a reply that allows CL.RESERVE of a token, with the receipt 41.
var allows = []any{int64(0), "0", []any{[]any{int64(0), int64(15), int64(14), "0", "5760", "41"}}}

// A counting client counts its round trips.
type counting struct {
	*redis.Client
	trips atomic.Int64
}

func (c *counting) Process(ctx context.Context, command redis.Cmder) error {
	c.trips.Add(1)
	return c.Client.Process(ctx, command)
}

// A recorder keeps the events that its hook gets.
type recorder struct {
	mutex  sync.Mutex
	events []limiter.Event
}

func (r *recorder) hook(_ context.Context, event limiter.Event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.events = append(r.events, event)
}

// all returns all events so far.
func (r *recorder) all() []limiter.Event {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.events[:len(r.events):len(r.events)]
}

// last returns the last event.
func (r *recorder) last() limiter.Event {
	all := r.all()
	return all[len(all)-1]
}

// lastOf returns the last event of a command.
func (r *recorder) lastOf(command string) (last limiter.Event) {
	for _, event := range r.all() {
		if event.Command == command {
			last = event
		}
	}
	return last
}

// A clock stands still until it is advanced.
type clock struct{ elapsed atomic.Int64 }

// onClock returns a Limiter that goes by a clock.
func onClock(rdb limiter.Client, options ...limiter.Option) (*limiter.Limiter, *clock) {
	c := &clock{}
	now := func() time.Duration { return time.Duration(c.elapsed.Load()) }
	return limiter.NewOnClock(rdb, now, time.Now, options...), c
}

// advance lets time pass.
func (c *clock) advance(d time.Duration) { c.elapsed.Add(int64(d)) }
