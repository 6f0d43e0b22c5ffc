// A fixture for tests that tell what happens step by step.

package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// A fixture is one process in a bubble of testing/synctest. Time passes only while a test sleeps, in
// pass, or waits for Redis, in allow.
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

// test runs a test of Leases with that limit and d. Commands and replies are under way for a second
// each.
func test(
	t *testing.T, name string, limit limiter.Limit, d time.Duration, of func(f *fixture), options ...limiter.Option,
) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &fixture{t, startProcess(newRedisModel(time.Second), 1, d, options...), limit, nil}
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
	require.NoError(f, err)
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
// CL.RESERVE; the others share the next call, by CL.TAKE.
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

// requireCommands requires that Redis has executed these commands since the last requireCommands.
// A command is its name and quantity, as in "cl.take 3".
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
