package limiter

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
)

// A Client is what a [Limiter] needs of go-redis: a client of one server, of servers
// behind Sentinel, of a cluster, a ring, or one of those that pipelines by itself
// (AutoPipeline).
type Client interface {
	Process(ctx context.Context, command redis.Cmder) error
	Pipelined(ctx context.Context, send func(redis.Pipeliner) error) ([]redis.Cmder, error)
}

// A way is how a server is asked.
type way int

const (
	byModule   way = iota // CL.RESERVE and its like
	byThrottle            // CL.THROTTLE alone: redis-cell, Dragonfly, or funnel 0.1
	byScript
	ways
)

// askAgain is how long a command counts as missing, once a server did not know it. So a
// module that is loaded later is noticed, and a server without it is not asked in vain
// with every call.
const askAgain = time.Minute

// A server asks Redis, by the first way that it knows. All ways keep the same value
// under the same key, so different nodes may be asked in different ways.
type server struct {
	rdb  Client
	now  func() time.Time
	only Path // that of WithPath, or empty

	// missing is until when a way is left out, in Unix nanoseconds.
	missing [ways]atomic.Int64

	// asIs says that commands of the module read the capacity as it is, which a reply
	// has shown. Others, which are redis-cell, Dragonfly, and funnel with compat
	// redis-cell, read it as one less. That is tried first: should it be wrong, a call
	// may seem to be limited, and is asked again, but none is allowed that should not be.
	asIs atomic.Bool

	// neverReads says that the server lacks EVALSHA_RO, as Redis 6.2 does.
	neverReads atomic.Bool
}

// ask has the server decide a call.
func (s *server) ask(ctx context.Context, c *call) error {
	var first error
	var denied [ways]bool
	for w := range ways {
		if !s.has(w) || w == byThrottle && !throttles(c) {
			continue
		}
		err := s.by(ctx, w, c)
		switch {
		case isMissing(err):
			s.leaveOut(w)
		case redis.IsPermissionError(err):
			denied[w] = true // the command, and another may be allowed; or the key
		default:
			for other := range denied {
				if err == nil && denied[other] {
					s.leaveOut(way(other))
				}
			}
			return err
		}
		if first == nil || isMissing(first) {
			first = err
		}
	}
	switch {
	case first != nil:
		return first
	case s.only == PathScript:
		return s.by(ctx, byScript, c)
	}
	return s.by(ctx, byModule, c)
}

// askMany has the server decide calls in one round trip, or one to each node of a
// cluster. Those that fail because the server lacks something are asked again, each by
// itself.
func (s *server) askMany(ctx context.Context, calls []*call) []error {
	errs := make([]error, len(calls))
	commands := make([]*redis.Cmd, len(calls))
	w, asIs := byModule, s.asIs.Load()
	if !s.has(w) && s.only != PathModule {
		w = byScript
	}
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has an error of its own
		for i, c := range calls {
			if w == byModule {
				commands[i] = c.viaModule(ctx, w, asIs)
			} else {
				commands[i] = c.viaScript(ctx, "evalsha", scriptHash)
			}
			_ = pipe.Process(ctx, commands[i])
		}
		return nil
	})
	for i, c := range calls {
		err, reading := commands[i].Err(), right
		if err == nil {
			reading, err = c.read(commands[i].Val(), pathOf(w))
			s.learn(asIs, w, reading)
		}
		if reading == wrong || isMissing(err) || redis.IsPermissionError(err) ||
			redis.HasErrorPrefix(err, "NOSCRIPT") || w == byModule && !asIs && mayBeZero(c, err) {
			err = s.ask(ctx, c)
		}
		errs[i] = err
	}
	return errs
}

func pathOf(w way) Path {
	if w == byScript {
		return PathScript
	}
	return PathModule
}

func (s *server) has(w way) bool {
	if s.only != "" && s.only != pathOf(w) {
		return false
	}
	until := s.missing[w].Load()
	return until == 0 || s.now().UnixNano() >= until
}

func (s *server) leaveOut(w way) { s.missing[w].Store(s.now().Add(askAgain).UnixNano()) }

// isMissing says that the server does not know the command. That it says in words only,
// which are the same in all servers.
func isMissing(err error) bool { return err != nil && redis.HasErrorPrefix(err, "unknown command") }

func (s *server) by(ctx context.Context, w way, c *call) error {
	if w == byScript {
		return s.script(ctx, c)
	}
	return s.module(ctx, w, c)
}

// module asks a command of the module, and once more when it reads the capacity in the
// other way.
func (s *server) module(ctx context.Context, w way, c *call) error {
	asIs := s.asIs.Load()
	for again := true; ; again = false {
		command := c.viaModule(ctx, w, asIs)
		err := s.send(ctx, command)
		if again && !asIs && mayBeZero(c, err) {
			asIs = true
			continue
		}
		if err != nil {
			return err
		}
		read := c.read
		if w == byThrottle {
			read = c.readThrottle
		}
		reading, err := read(command.Val(), PathModule)
		if err != nil {
			return err
		}
		s.learn(asIs, w, reading)
		if reading != wrong || !again {
			return nil
		}
		asIs = !asIs
	}
}

// learn is told how a server has read the capacity of a call.
func (s *server) learn(asIs bool, w way, reading reading) {
	if reading != right {
		asIs = !asIs
	}
	if w != byScript && s.asIs.Load() != asIs {
		s.asIs.Store(asIs)
	}
}

// mayBeZero says that an error may be that of a capacity of 0: one that is as it is, but
// was sent as one less.
func mayBeZero(c *call, err error) bool {
	for i := range c.funnels {
		if c.funnels[i].limit.Capacity == 1 {
			return err != nil && isFault(err)
		}
	}
	return false
}

// send sends a command, and waits for the answer also where the client, one that
// pipelines by itself, returns at once.
func (s *server) send(ctx context.Context, command *redis.Cmd) error {
	if err := s.rdb.Process(ctx, command); err != nil {
		return err
	}
	return command.Err()
}

// script runs the script by its hash, and sends its text to a server that does not have
// it yet. A peek goes by a command that only reads, for replicas.
func (s *server) script(ctx context.Context, c *call) error {
	reads := c.operation == gcra.Peek && !s.neverReads.Load()
	evalsha, eval := any("evalsha"), any("eval")
	if reads {
		evalsha, eval = "evalsha_ro", "eval_ro"
	}
	command := c.viaScript(ctx, evalsha, scriptHash)
	err := s.send(ctx, command)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		command = c.viaScript(ctx, eval, scriptText)
		err = s.send(ctx, command)
	}
	switch {
	case isMissing(err) && reads:
		s.neverReads.Store(true)
		return s.script(ctx, c)
	case err != nil:
		return err
	}
	_, err = c.read(command.Val(), PathScript)
	return err
}

// throttles says that CL.THROTTLE alone can decide a call: it asks one funnel for tokens
// now, and takes whole seconds, as redis-cell does.
func throttles(c *call) bool {
	return c.operation == gcra.Reserve && c.longestWait <= 0 && len(c.funnels) == 1 &&
		c.funnels[0].quantity > 0 && c.funnels[0].limit.Period%time.Second == 0
}

// readThrottle fills in the result from a reply of CL.THROTTLE.
func (c *call) readThrottle(reply any, path Path) (reading, error) {
	elements, _ := reply.([]any)
	var numbers [5]int64
	for i := range numbers {
		isNumber := false
		if len(elements) == len(numbers) {
			numbers[i], isNumber = integerOf(elements[i])
		}
		if !isNumber {
			return right, unexpected(reply)
		}
	}
	f := &c.funnels[0]
	limited, limit, remaining := numbers[0] != 0, numbers[1], numbers[2]
	result := right
	if more := int64(f.limit.Capacity) - limit; more != 0 {
		if result = corrected; limited {
			result = wrong
		}
		remaining = max(0, remaining+more)
	}
	decision := gcra.Decision{Limited: limited, Limit: limit, Remaining: remaining, ResetAfter: nanosecondsOfSeconds(numbers[4])}
	if limited {
		decision.Wait = gcra.Never
		if numbers[3] >= 0 {
			decision.Wait = nanosecondsOfSeconds(numbers[3])
			// Quantity-remaining tokens have to leak, which takes no longer than so many
			// emission intervals. The reply has been rounded up.
			if leak, err := f.shape.rate.Increment(int64(f.quantity) - remaining); err == nil && leak > 0 {
				decision.Wait = min(decision.Wait, leak)
			}
		}
	}
	c.set(0, path, decision, limited)
	return result, nil
}

func nanosecondsOfSeconds(seconds int64) int64 {
	const most = 1<<63 - 1
	if seconds > most/1_000_000_000 {
		return most
	}
	return max(seconds, 0) * 1e9
}
