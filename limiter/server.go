package limiter

import (
	"context"
	"fmt"
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
	rdb Client
	now func() time.Time

	// missing is until when a way is left out, in Unix nanoseconds.
	missing [ways]atomic.Int64

	// reading is how CL.THROTTLE alone reads its second argument.
	reading atomic.Int32

	// neverReads says that the server lacks EVALSHA_RO, as Redis 6.2 does.
	neverReads atomic.Bool
}

// use leaves out all ways but one for ever.
func (s *server) use(only way) {
	for w := range s.missing {
		if way(w) != only {
			s.missing[w].Store(1<<63 - 1)
		}
	}
}

// ask has the server decide a call.
func (s *server) ask(ctx context.Context, c *call) error {
	var first error
	for w := range ways {
		if !s.has(w) || w == byThrottle && !throttles(c) {
			continue
		}
		err := s.by(ctx, w, c)
		switch {
		case isMissing(err):
			s.missing[w].Store(s.now().Add(askAgain).UnixNano())
		case redis.IsPermissionError(err):
			// The command may be denied, and another one allowed; or the key is.
		default:
			return err
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = fmt.Errorf("limiter: WithPath allows no way to ask for %s", c.command)
	}
	return first
}

// askMany has the server decide calls in one round trip, or one to each node of a
// cluster. Those that fail because the server lacks something are asked again, each by
// itself.
func (s *server) askMany(ctx context.Context, calls []*call) []error {
	errs := make([]error, len(calls))
	commands := make([]*redis.Cmd, len(calls))
	w := byModule
	if !s.has(w) {
		w = byScript
	}
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has an error of its own
		for i, c := range calls {
			if w == byModule {
				commands[i] = c.viaModule(ctx)
			} else {
				commands[i] = c.viaScript(ctx, "evalsha", scriptHash)
			}
			_ = pipe.Process(ctx, commands[i])
		}
		return nil
	})
	for i, c := range calls {
		err := commands[i].Err()
		switch {
		case err == nil:
			errs[i] = c.read(commands[i].Val(), pathOf(w))
		case isMissing(err) || redis.IsPermissionError(err) || redis.HasErrorPrefix(err, "NOSCRIPT"):
			errs[i] = s.ask(ctx, c)
		default:
			errs[i] = err
		}
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
	until := s.missing[w].Load()
	return until == 0 || s.now().UnixNano() >= until
}

// isMissing says that the server does not know the command. That it says in words only,
// which are the same in all servers.
func isMissing(err error) bool { return err != nil && redis.HasErrorPrefix(err, "unknown command") }

func (s *server) by(ctx context.Context, w way, c *call) error {
	switch w {
	case byModule:
		command := c.viaModule(ctx)
		if err := s.rdb.Process(ctx, command); err != nil {
			return err
		}
		return c.read(command.Val(), PathModule)
	case byThrottle:
		return s.throttle(ctx, c)
	default:
		return s.script(ctx, c)
	}
}

// script runs the script by its hash, and sends its text to a server that does not have
// it yet. A peek goes by a command that only reads, for replicas.
func (s *server) script(ctx context.Context, c *call) error {
	suffix := ""
	if c.command == peek && !s.neverReads.Load() {
		suffix = "_ro"
	}
	command := c.viaScript(ctx, "evalsha"+suffix, scriptHash)
	err := s.rdb.Process(ctx, command)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		command = c.viaScript(ctx, "eval"+suffix, scriptText)
		err = s.rdb.Process(ctx, command)
	}
	switch {
	case isMissing(err) && suffix != "":
		s.neverReads.Store(true)
		return s.script(ctx, c)
	case err != nil:
		return err
	}
	return c.read(command.Val(), PathScript)
}

// throttles says that CL.THROTTLE alone can decide a call: it asks one funnel for tokens
// now, and takes whole seconds, as redis-cell does.
func throttles(c *call) bool {
	return c.command == reserve && c.longestWait <= 0 && len(c.funnels) == 1 &&
		c.funnels[0].quantity > 0 && c.funnels[0].limit.Period%time.Second == 0
}

// Readings of the second argument of CL.THROTTLE: as one less than the capacity, as
// redis-cell and Dragonfly have it, or as the capacity. A server that is not known is
// taken for redis-cell: should it be another, it limits a token too early, once.
const (
	unknownReading int32 = iota
	redisCellReading
	capacityReading
)

// throttle asks CL.THROTTLE, and once more when the limit in the reply shows that the
// server read the second argument in the other way.
func (s *server) throttle(ctx context.Context, c *call) error {
	f := &c.funnels[0]
	for {
		reading := s.reading.Load()
		capacity := f.limit.Capacity
		if reading != capacityReading {
			capacity--
		}
		command := keyAt(1, redis.NewCmd(ctx, "cl.throttle", f.key, capacity, f.shape.count, f.shape.period, f.quantity))
		err := s.rdb.Process(ctx, command)
		if reading == unknownReading && capacity == 0 && err != nil && isFault(err) && !isMissing(err) &&
			s.reading.CompareAndSwap(unknownReading, capacityReading) {
			continue // 0 is no capacity
		}
		if err != nil {
			return err
		}
		numbers, ok := readThrottle(command.Val())
		if !ok {
			return unexpected(command.Val())
		}
		decision := decisionOf(numbers, f)
		// A reading that turns out wrong is the other one.
		isRight := numbers[1] == int64(f.limit.Capacity)
		if sentCapacity := reading == capacityReading; sentCapacity == isRight {
			s.reading.Store(capacityReading)
		} else {
			s.reading.Store(redisCellReading)
		}
		if tooSmall := numbers[1] < int64(f.limit.Capacity); tooSmall && decision.Limited {
			continue
		}
		c.set(0, PathModule, decision, decision.Limited)
		return nil
	}
}

func readThrottle(reply any) (numbers [5]int64, ok bool) {
	elements, _ := reply.([]any)
	if len(elements) != len(numbers) {
		return numbers, false
	}
	for i := range numbers {
		if numbers[i], ok = integerOf(elements[i]); !ok {
			return numbers, false
		}
	}
	return numbers, true
}

// decisionOf sharpens the whole seconds of a reply: quantity-remaining tokens have to
// leak, which takes no longer than so many emission intervals.
func decisionOf(numbers [5]int64, f *funnel) gcra.Decision {
	decision := gcra.Decision{
		Limited: numbers[0] != 0, Limit: numbers[1], Remaining: numbers[2],
		ResetAfter: nanosecondsOfSeconds(numbers[4]),
	}
	if decision.Limited {
		decision.Wait = gcra.Never
		if numbers[3] >= 0 {
			decision.Wait = nanosecondsOfSeconds(numbers[3])
			if leak, err := f.shape.rate.Increment(int64(f.quantity) - numbers[2]); err == nil && leak > 0 {
				decision.Wait = min(decision.Wait, leak)
			}
		}
	}
	return decision
}

func nanosecondsOfSeconds(seconds int64) int64 {
	const most = 1<<63 - 1
	if seconds > most/1_000_000_000 {
		return most
	}
	return max(seconds, 0) * 1e9
}
