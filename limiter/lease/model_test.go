// The tests are built of a model of Redis, of processes that ask it, and of a fixture for tests
// that tell a story.
//
// The model decides as package contract says, by the clock of a bubble of testing/synctest. Its
// network may be slow, hang, lose replies, and deliver commands twice. A process has Leases, and a
// clock that may run fast or slow. The model records the commands that it has executed and the
// tokens that callers have used.

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/lease"
)

// A redisModel is one server. The mutex guards the fields, and what latency and disturb use.
type redisModel struct {
	mutex   sync.Mutex
	values  map[string]contract.Value
	latency func() time.Duration                 // of a command, and of a reply
	disturb func(command string) (d disturbance) // what happens to a command

	commands []string // in the order in which they were executed
	uses     []use
	asked    int              // tokens that callers asked for
	leased   int              // tokens that were decided by leases
	waited   int              // callers who waited, without the first second
	wrong    []limiter.Result // that have a number out of range
}

// A disturbance is what happens to one command. The zero disturbance is none.
type disturbance struct {
	delayCommand time.Duration // before it is executed, beside the latency
	delayReply   time.Duration // after that
	twice        bool          // it is executed twice
	err          error         // replaces the reply
	reply        []any         // replaces the reply
}

// A use is of tokens that a caller got, at the instant that counts for the bound.
type use struct{ at, quantity int64 }

func newRedisModel(latency time.Duration) *redisModel {
	return &redisModel{
		values:  map[string]contract.Value{},
		latency: func() time.Duration { return latency },
		disturb: func(string) disturbance { return disturbance{} },
	}
}

// locked reads or changes the model.
func (m *redisModel) locked(do func()) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	do()
}

func (m *redisModel) execute(words []string) (outcome contract.Outcome) {
	m.locked(func() {
		m.commands = append(m.commands, strings.Join(words, " "))
		get := func(key string) contract.Value { return m.values[key] }
		outcome = contract.Run(contract.Default, words, time.Now().UnixNano(), get)
		for _, write := range outcome.Writes {
			m.values[write.Key] = write.Value
			if write.Value.Type == "" {
				delete(m.values, write.Key)
			}
		}
	})
	return outcome
}

// A process has Leases. It is the client of their Limiter, too.
type process struct {
	redis     *redisModel
	limiter   *limiter.Limiter
	leases    *lease.Leases
	hook      limiter.Hook // of the Leases
	began     time.Time
	clockRead atomic.Int64 // when the Leases read their clock last
	executed  atomic.Int64 // when the last call for tokens was executed
}

// startProcess starts a process with a clock of that speed: 1.01 is 1 % fast.
func startProcess(m *redisModel, speed float64, d time.Duration, options ...limiter.Option) *process {
	p := &process{redis: m, began: time.Now()}
	p.limiter = limiter.New(p, append(options, limiter.WithSource(limiter.FromModule))...)
	p.leases = lease.New(p.limiter, d, lease.WithHook(func(ctx context.Context, event limiter.Event) {
		if p.hook != nil {
			p.hook(ctx, event)
		}
	}))
	lease.SetClock(p.leases, func() time.Duration {
		p.clockRead.Store(time.Now().UnixNano())
		return time.Duration(float64(time.Since(p.began)) * speed)
	})
	return p
}

// executedKey is the key of a context's *atomic.Int64: the instant at which its command was
// executed. Calls for tokens have contexts without it.
type executedKey struct{}

// Process sends a command to the model. The process is a [limiter.Client].
func (p *process) Process(ctx context.Context, command redis.Cmder) error {
	m, words := p.redis, strings.Fields(fmt.Sprintln(command.Args()...))
	var d disturbance
	m.locked(func() {
		d = m.disturb(words[0])
		d.delayCommand += m.latency()
		d.delayReply += m.latency()
	})
	time.Sleep(d.delayCommand)
	outcome, at := m.execute(words), time.Now().UnixNano()
	if d.twice {
		outcome = m.execute(words)
	}
	time.Sleep(d.delayReply)
	switch {
	case d.err != nil:
		return d.err
	case outcome.Err != "":
		return errors.New(string(outcome.Err))
	case d.reply != nil:
		outcome.Reply = d.reply
	}
	executed, ofCaller := ctx.Value(executedKey{}).(*atomic.Int64)
	if !ofCaller {
		executed = &p.executed
	}
	executed.Store(at)
	command.(interface{ SetVal(any) }).SetVal(outcome.Reply)
	return nil
}

// allow asks the Leases, and records the use of tokens.
func (p *process) allow(ctx context.Context, limit limiter.Limit, quantity int) {
	var executed atomic.Int64 // if the caller asks alone
	began := time.Now()
	p.redis.locked(func() { p.redis.asked += quantity })
	result, err := p.leases.AllowN(context.WithValue(ctx, executedKey{}, &executed), "key", limit, quantity)
	at, isLeased := p.executed.Load(), result.Source == limiter.FromLease
	switch {
	case executed.Load() != 0:
		at = executed.Load()
	case isLeased:
		at = p.clockRead.Load()
	}
	isWrong := result.Remaining < 0 || result.Remaining > limit.Capacity || result.ResetAfter < 0 || result.Receipt < 0
	waits := time.Since(began) > 0 && began.Sub(p.began) > time.Second
	p.redis.locked(func() {
		if isWrong {
			p.redis.wrong = append(p.redis.wrong, result)
		}
		if err != nil || result.Allowed == 0 {
			return
		}
		p.redis.uses = append(p.redis.uses, use{at, int64(quantity)})
		if isLeased {
			p.redis.leased += quantity
		}
		if waits {
			p.redis.waited++
		}
	})
}

// A fixture is one process in a bubble of testing/synctest. Time passes only while a test sleeps,
// in pass, or waits for Redis, in allow.
type fixture struct {
	*testing.T
	*process
	limit  limiter.Limit
	events []limiter.Event // of the hook of the Leases
}

var (
	ctx = context.Background()

	// In most tests a token leaks in a second, and the capacity is 100.
	perSecond100 = limiter.Every(time.Second).WithCapacity(100)

	errConnection = errors.New("the connection ended")
)

// noTimeout lets a call take as long as its test wants.
var noTimeout = limiter.WithTimeout(0)

// test runs a test of Leases with that limit and d. Commands and replies are under way for a second
// each.
func test(
	t *testing.T, name string, limit limiter.Limit, d time.Duration, of func(f *fixture), options ...limiter.Option,
) {
	t.Run(name, func(t *testing.T) {
		servertest.Bubble(t, func(t *testing.T) {
			process := startProcess(newRedisModel(time.Second), 1, d, append([]limiter.Option{noTimeout}, options...)...)
			f := &fixture{t, process, limit, nil}
			f.hook = func(_ context.Context, event limiter.Event) {
				f.redis.locked(func() { f.events = append(f.events, event) })
			}
			defer f.pass(time.Hour) // calls that are under way end
			of(f)
		})
	})
}

// pass lets time pass, and returns when all callers wait or have their answers.
func (f *fixture) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// allow asks for tokens, and returns the decision, which must not be an error.
func (f *fixture) allow(quantity int) limiter.Result {
	f.Helper()
	result, err := f.leases.AllowN(ctx, "key", f.limit, quantity)
	if err != nil {
		require.NoError(f, err, "AllowN of %d tokens, after the commands %q", quantity, f.newCommands())
	}
	return result
}

// A caller asks in a goroutine of its own. Read its fields when it no longer waits.
type caller struct {
	limiter.Result
	err      error
	took     time.Duration
	answered atomic.Bool
}

func (c *caller) waits() bool { return !c.answered.Load() }

// start starts a caller, and returns when it waits or has its answer.
func (f *fixture) start(ctx context.Context, quantity int) *caller {
	c, began := &caller{}, time.Now()
	go func() {
		c.Result, c.err = f.leases.AllowN(ctx, "key", f.limit, quantity)
		c.took = time.Since(began)
		c.answered.Store(true)
	}()
	synctest.Wait()
	return c
}

// startThree starts three callers of one token at the same instant. The first one asks alone, by
// CL.RESERVE. The second and the third share the next call, by CL.TAKE.
func (f *fixture) startThree() []*caller {
	return []*caller{f.start(ctx, 1), f.start(ctx, 1), f.start(ctx, 1)}
}

// latency sets for how long commands and replies are under way, each.
func (f *fixture) latency(d time.Duration) {
	f.redis.locked(func() { f.redis.latency = func() time.Duration { return d } })
}

// disturb disturbs commands of that name from now on, or all commands if name is empty.
func (f *fixture) disturb(name string, d disturbance) {
	f.redis.locked(func() {
		f.redis.disturb = func(command string) disturbance {
			if name == "" || command == name {
				return d
			}
			return disturbance{}
		}
	})
}

// recover ends what disturb began.
func (f *fixture) recover() { f.disturb("none", disturbance{}) }

// requireCommands requires that Redis has executed these commands since the last requireCommands. A
// command is its name and quantity, as in "cl.take 3".
func (f *fixture) requireCommands(commands ...string) {
	f.Helper()
	require.Equal(f, commands, f.newCommands())
}

// newCommands returns the commands that Redis has executed since the last newCommands.
func (f *fixture) newCommands() (commands []string) {
	f.redis.locked(func() {
		for _, line := range f.redis.commands { // cl.take key 100 1 1 3
			words := strings.Fields(line)
			commands = append(commands, strings.Join(append(words[:1], words[5:]...), " "))
		}
		f.redis.commands = nil
	})
	return commands
}
