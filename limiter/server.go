package limiter

import (
	"context"
	"strings"
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
	byThrottle            // CL.THROTTLE alone: redis-cell, Dragonfly
	byScript
	ways
)

// A reading is how a command of the module reads the capacity.
type reading int32

const (
	unknown reading = iota
	asItIs
	oneMore // as redis-cell does: the funnel holds one more than the command says
)

// askAgain is how long a command counts as missing, once a server did not know it. A
// module that is loaded later is noticed, and a server without it is not asked in vain
// with every call.
const askAgain = time.Minute

// A server asks Redis, by the first way that it knows. All ways keep the same value
// under the same key, so different nodes may be asked in different ways.
type server struct {
	rdb  Client
	now  func() time.Time
	only Path // PathModule or PathScript, if only that may be used

	// missing is until when a way is left out, in Unix nanoseconds.
	missing [ways]atomic.Int64

	// readings are those of CL.RESERVE and its like, and of CL.THROTTLE.
	readings [byScript]atomic.Int32

	// throttleAlone says that the server did not know CL.RESERVE. If it has CL.THROTTLE, it
	// is redis-cell or Dragonfly.
	throttleAlone atomic.Bool

	// neverReads says that the server lacks EVALSHA_RO, as Redis 6.2 does.
	neverReads atomic.Bool
}

// ask has the server decide the pending calls, each by the first way that the server knows.
func (s *server) ask(ctx context.Context, calls []call) {
	for i := range calls {
		calls[i].open = calls[i].pending
	}
	for w := range ways {
		if s.has(w) {
			s.askBy(ctx, w, calls)
		}
	}
	only := byModule
	if s.only == PathScript {
		only = byScript
	}
	for i := range calls {
		if c := &calls[i]; c.open && c.cause == nil { // the only way is left out
			s.askBy(ctx, only, calls[i:i+1])
		}
	}
}

// askBy sends the open calls that a way can decide, and takes the replies. Several go in one
// round trip, or in one to each node of a cluster.
func (s *server) askBy(ctx context.Context, w way, calls []call) {
	alone, count := len(calls) == 1, 0
	failed := ctx.Err() // for all calls
	for i := range calls {
		c := &calls[i]
		if !c.open || w == byThrottle && !c.throttles() {
			continue
		}
		err := failed
		if err == nil && w != byScript && s.readings[w].Load() == int32(unknown) {
			err = s.askReading(ctx, w, c, alone)
		}
		if err != nil {
			if isMissing(err) || !isReply(err) {
				failed = err
			}
			s.takeError(w, c, err)
			continue
		}
		c.command = s.command(ctx, w, c)
		count++
	}
	switch {
	case count == 0:
	case alone:
		_ = s.send(ctx, calls[0].sent()) // the command has the error
	case ctx.Err() != nil: // given up meanwhile
		for i := range calls {
			if command := calls[i].command; command != nil {
				command.SetErr(ctx.Err())
			}
		}
	default:
		_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each has an error of its own
			for i := range calls {
				if command := calls[i].command; command != nil {
					_ = pipe.Process(ctx, command)
				}
			}
			return nil
		})
	}
	for i := range calls {
		if c := &calls[i]; c.command != nil && s.take(w, c, alone) {
			s.askBy(ctx, w, calls[i:i+1])
		}
	}
}

// command is a call as it is sent in a way.
func (s *server) command(ctx context.Context, w way, c *call) *redis.Cmd {
	c.path = ""
	if w == byScript {
		c.reads = c.operation == gcra.Peek && !s.neverReads.Load()
		return c.viaScript(ctx)
	}
	if c.reading == unknown {
		c.reading = s.reading(w)
	}
	return c.viaModule(ctx, w, c.reading, false)
}

// send sends a command, and waits for the answer also where the client, one that
// pipelines by itself, returns at once. It sends nothing for a call that was given up.
func (s *server) send(ctx context.Context, command redis.Cmder) error {
	err := ctx.Err()
	if err == nil {
		err = s.rdb.Process(ctx, command)
	}
	if err != nil {
		command.SetErr(err)
	}
	return command.Err()
}

// mostAttempts bounds how often a call is sent in one way. Five are enough for one node: it
// lacks both scripts, and reads a peek by other commands only.
const mostAttempts = 6

// take takes the reply to a call. The call has to be sent again if the server has not
// decided it: it lacks the text of the script or a command that only reads, or it was
// restarted or is another node, and reads the capacity in the other way.
func (s *server) take(w way, c *call, alone bool) (again bool) {
	command := c.command
	c.command, c.by = nil, w
	c.attempts++
	err := command.Err()
	switch {
	case err == nil:
		if again, err = c.read(w, command.Val()); !again && err == nil {
			again = s.decided(w, c)
		}
	case w == byScript && err == redis.Nil:
		again, c.complete, c.withText = true, true, false
	case w == byScript && redis.HasErrorPrefix(err, "NOSCRIPT"):
		again, c.withText = true, alone // several would each send the text
	case w == byScript && c.reads && isMissing(err):
		s.neverReads.Store(true)
		again = true
	case w != byScript && c.reading == oneMore && strings.Contains(err.Error(), "capacity must be"): // 1 was sent as 0
		again, c.reading = true, asItIs
	}
	if again && c.attempts < mostAttempts {
		return true
	}
	if err != nil {
		s.takeError(w, c, err)
	}
	return false
}

// decided closes a call that has decisions. It returns true if they are those of the other
// reading of the capacity, and nothing was taken.
func (s *server) decided(w way, c *call) (again bool) {
	if c.path = PathScript; w != byScript {
		c.path = PathModule
		if sent := c.reading; s.learn(w, c) != sent {
			if c.operation == gcra.Peek || c.operation == gcra.Reserve && c.limited() || c.operation == gcra.Take && c.parts[0].Taken == 0 {
				return true
			}
			c.correct(w)
		}
	}
	c.open, c.cause = false, nil
	for other, denied := range c.denied {
		if denied {
			s.leaveOut(way(other))
		}
	}
	return false
}

// takeError takes the error that a call got in one way. Another way is tried where the server
// lacks the command, or denies it: the user may have the permission for another.
func (s *server) takeError(w way, c *call, err error) {
	switch {
	case isMissing(err):
		s.leaveOut(w)
		if w == byModule {
			s.throttleAlone.Store(true)
		}
	case redis.IsPermissionError(err) && c.shared && w == byModule:
		c.open, c.cause = false, err // callers ask by themselves, by a command that may be allowed
	case redis.IsPermissionError(err):
		c.denied[w] = true
	default:
		c.open, c.cause = false, err
	}
	if c.cause == nil || isMissing(c.cause) {
		c.cause = err
	}
	c.reading, c.attempts, c.fewer = unknown, 0, 0
}

// askReading asks how a way reads the capacity, by the command that is about to be sent with
// quantity 0, which changes nothing: its reply says the limit. There is no need for it before
// a peek.
func (s *server) askReading(ctx context.Context, w way, c *call, alone bool) error {
	if c.operation == gcra.Peek || w == byThrottle && alone && s.throttleAlone.Load() {
		return nil
	}
	c.reading = s.reading(w)
	question := c.viaModule(ctx, w, c.reading, true)
	if err := s.send(ctx, question); err != nil {
		return err
	}
	if _, err := c.read(w, question.Val()); err != nil {
		return err
	}
	s.learn(w, c)
	return nil
}

// reading is how a way reads the capacity, or, if that is not known, most likely does.
func (s *server) reading(w way) reading {
	known := reading(s.readings[w].Load())
	switch {
	case known != unknown:
		return known
	case w == byThrottle && s.throttleAlone.Load():
		return oneMore
	}
	return asItIs
}

// learn returns, and remembers, how a way has read the capacities of a call that was sent for
// one reading.
func (s *server) learn(w way, c *call) reading {
	if !c.isAsMeant() {
		c.reading = asItIs + oneMore - c.reading
	}
	if s.readings[w].Load() != int32(c.reading) {
		s.readings[w].Store(int32(c.reading))
	}
	return c.reading
}

func (s *server) has(w way) bool {
	if s.only == PathModule && w == byScript || s.only == PathScript && w != byScript {
		return false
	}
	until := s.missing[w].Load()
	return until == 0 || s.now().UnixNano() >= until
}

func (s *server) leaveOut(w way) { s.missing[w].Store(s.now().Add(askAgain).UnixNano()) }

// sent is a command as go-redis gets it. A refund that is executed twice gives other callers'
// tokens back, so go-redis must not repeat it after its answer was lost. Any other command
// that is executed twice limits too early, never too late.
func (c *call) sent() redis.Cmder {
	if c.operation == gcra.Refund {
		return once{c.command}
	}
	return c.command
}

// once is a command that go-redis does not repeat, neither after a lost answer nor after a
// reply such as LOADING. The redirections MOVED and ASK are followed.
// Hooks of go-redis see another type than *redis.Cmd.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }
