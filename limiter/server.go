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

	// neverReads says that the server lacks EVALSHA_RO, as Redis 6.2 does.
	neverReads atomic.Bool
}

// ask has the server decide the pending calls. Several go in one round trip, or one to each
// node of a cluster. Those that fail because the server lacks something are asked again,
// each by itself.
func (s *server) ask(ctx context.Context, calls []call) {
	if len(calls) > 1 && !s.askAtOnce(ctx, calls) {
		return
	}
	for i := range calls {
		if c := &calls[i]; c.pending && !c.asked {
			s.askOne(ctx, c)
		}
	}
}

// askAtOnce sends one command for each pending call, without waiting for replies. It leaves
// the calls undecided that have to be asked again, and returns false if the server does not
// answer.
func (s *server) askAtOnce(ctx context.Context, calls []call) bool {
	w, known := byModule, unknown
	for i := range calls {
		if c := &calls[i]; c.pending && known == unknown && s.has(byModule) {
			var err error
			if known, err = s.reading(ctx, byModule, c); isMissing(err) {
				s.leaveOut(byModule)
				s.readings[byThrottle].Store(int32(oneMore)) // as in askOne
			} else if err != nil && !isReply(err) {
				fail(calls, err)
				return false
			}
		}
	}
	if err := ctx.Err(); err != nil { // given up meanwhile
		fail(calls, err)
		return false
	}
	known = max(known, asItIs)
	if !s.has(byModule) && s.only != PathModule {
		w = byScript
	}
	commands := make([]*redis.Cmd, len(calls))
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has an error of its own
		for i := range calls {
			switch c := &calls[i]; {
			case !c.pending:
				continue
			case w == byModule:
				commands[i] = c.viaModule(ctx, w, known, false)
			default:
				commands[i] = c.viaScript(ctx, "evalsha", scriptHash)
			}
			_ = pipe.Process(ctx, commands[i])
		}
		return nil
	})
	for i, command := range commands {
		if command == nil {
			continue
		}
		c := &calls[i]
		again, err := s.take(w, c, known, command)
		c.asked = !again && !isMissing(err) && !redis.IsPermissionError(err) && !redis.HasErrorPrefix(err, "NOSCRIPT")
		if c.asked {
			c.cause = err
		}
	}
	return true
}

// askOne has the server decide a call by the first way that it knows.
func (s *server) askOne(ctx context.Context, c *call) {
	var first error
	var denied [ways]bool
	c.path = ""
	for w := range ways {
		if !s.has(w) || w == byThrottle && !throttles(c) {
			continue
		}
		err := s.askBy(ctx, w, c)
		switch {
		case isMissing(err):
			s.leaveOut(w)
			if w == byModule { // if it has CL.THROTTLE it is redis-cell or Dragonfly
				s.readings[byThrottle].Store(int32(oneMore))
			}
		case redis.IsPermissionError(err):
			denied[w] = true // the command, and another may be allowed; or the key
		default:
			for other := range denied {
				if err == nil && denied[other] {
					s.leaveOut(way(other))
				}
			}
			c.cause = err
			return
		}
		if first == nil || isMissing(first) {
			first = err
		}
	}
	w := byModule
	if first == nil { // the only way was left out
		if s.only == PathScript {
			w = byScript
		}
		first = s.askBy(ctx, w, c)
	}
	c.cause = first
}

// askBy has the server decide a call by a command of the module, or by the script.
func (s *server) askBy(ctx context.Context, w way, c *call) error {
	if w == byScript {
		return s.askScript(ctx, c)
	}
	reading, err := s.reading(ctx, w, c)
	if err != nil {
		return err
	}
	for attempt, again := 1, true; again && attempt <= 2; attempt++ {
		command := c.viaModule(ctx, w, reading, false)
		_ = s.send(ctx, c.sent(command)) // the command has the error
		c.path = ""
		again, err = s.take(w, c, reading, command)
		reading = asItIs + oneMore - reading
	}
	return err
}

// reading is how a way reads the capacity. Where it is not known, the server is asked by the
// command that is about to be sent, with quantity 0, which changes nothing: its reply says
// the limit. A peek needs no such question.
func (s *server) reading(ctx context.Context, w way, c *call) (reading, error) {
	if known := reading(s.readings[w].Load()); known != unknown || c.operation == gcra.Peek {
		return max(known, asItIs), nil
	}
	question := c.viaModule(ctx, w, asItIs, true)
	if err := s.send(ctx, question); err != nil {
		return unknown, err
	}
	if err := c.read(w, question.Val()); err != nil {
		return unknown, err
	}
	return s.learn(w, c, asItIs), nil
}

// learn returns, and remembers, how a way has read the capacities of a call that was sent
// for one reading.
func (s *server) learn(w way, c *call, sent reading) reading {
	found := sent
	if !c.isAsMeant() {
		found = asItIs + oneMore - sent
	}
	if s.readings[w].Load() != int32(found) {
		s.readings[w].Store(int32(found))
	}
	return found
}

// take takes the reply to a command that was sent for one reading. The call has to be asked
// again if the server, which was restarted or is another node, has read the capacity in the
// other way, and has taken nothing.
func (s *server) take(w way, c *call, sent reading, command *redis.Cmd) (again bool, err error) {
	if err := command.Err(); err != nil {
		// A capacity of 1 that was sent as 0.
		return w != byScript && sent == oneMore && strings.Contains(err.Error(), "capacity must be"), err
	}
	if err := c.read(w, command.Val()); err != nil {
		return false, err
	}
	if c.path = PathModule; w == byScript {
		c.path = PathScript
	} else if s.learn(w, c, sent) != sent {
		if c.operation == gcra.Peek || c.operation == gcra.Reserve && c.limited() {
			return true, nil
		}
		c.correct(w)
	}
	return false, nil
}

func (s *server) has(w way) bool {
	if s.only == PathModule && w == byScript || s.only == PathScript && w != byScript {
		return false
	}
	until := s.missing[w].Load()
	return until == 0 || s.now().UnixNano() >= until
}

func (s *server) leaveOut(w way) { s.missing[w].Store(s.now().Add(askAgain).UnixNano()) }

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

// askScript runs the script by its hash, and sends its text to a server that does not have
// it yet. A peek goes by a command that only reads, for replicas.
func (s *server) askScript(ctx context.Context, c *call) error {
	reads := c.operation == gcra.Peek && !s.neverReads.Load()
	evalsha, eval := any("evalsha"), any("eval")
	if reads {
		evalsha, eval = "evalsha_ro", "eval_ro"
	}
	command := c.viaScript(ctx, evalsha, scriptHash)
	err := s.send(ctx, c.sent(command))
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		command = c.viaScript(ctx, eval, scriptText)
		err = s.send(ctx, c.sent(command))
	}
	if isMissing(err) && reads {
		s.neverReads.Store(true)
		return s.askScript(ctx, c)
	}
	_, err = s.take(byScript, c, asItIs, command)
	return err
}

// throttles says that CL.THROTTLE alone can decide a call: it is for tokens of one funnel
// now, and takes whole seconds, as redis-cell does.
func throttles(c *call) bool {
	return c.operation == gcra.Reserve && c.longestWait <= 0 && len(c.funnels) == 1 &&
		c.funnels[0].quantity > 0 && c.funnels[0].limit.Period%time.Second == 0
}

// sent is a command as go-redis gets it. A refund that is executed twice gives other callers'
// tokens back, so go-redis must not repeat it after its answer was lost. Any other command
// that is executed twice limits too early, never too late.
func (c *call) sent(command *redis.Cmd) redis.Cmder {
	if c.operation == gcra.Refund {
		return once{command}
	}
	return command
}

// once is a command that go-redis does not repeat, neither after a lost answer nor after a
// reply such as LOADING. The redirections MOVED and ASK are followed.
// Hooks of go-redis see another type than *redis.Cmd.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }
