package limiter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/gcra"
)

// A call is one call to decide.
type call struct {
	key      string
	limit    Limit
	quantity int

	rate gcra.Rate // the limit, once it has been checked
}

// An answer has a result or an error.
type answer struct {
	result Result
	err    error
}

// A mode is the command that decides, and how it reads its arguments.
type mode int32

const (
	modeUnknown   mode = iota
	modeModule         // CL.THROTTLE, whose second argument is the capacity
	modeRedisCell      // CL.THROTTLE, whose second argument is one less
	modeScript
)

// A server decides calls, by module or by script.
type server struct {
	rdb  redis.UniversalClient
	mode atomic.Int32
}

// ask answers each call, in one round trip if the mode is known. Calls that fail
// because the server lacks the command or the script have poured nothing, and are
// sent again in another mode.
func (s *server) ask(ctx context.Context, calls []call) []answer {
	answers := make([]answer, len(calls))
	pending := make([]int, len(calls)) // indexes into calls
	for i := range calls {
		pending[i] = i
	}
	mode, err := s.currentMode(ctx, calls[0].key)
	if err != nil {
		for i := range answers {
			answers[i].err = err
		}
		return answers
	}

	pending = s.round(ctx, mode, false, calls, pending, answers)
	if len(pending) == 0 {
		return answers
	}
	// The server may have restarted or failed over or lost its module: find the mode
	// again. Where that does not help, as in a cluster in which not every node has
	// the module, use the script.
	s.mode.Store(int32(modeUnknown))
	mode, err = s.currentMode(ctx, calls[pending[0]].key)
	if err != nil {
		for _, i := range pending {
			answers[i].err = err
		}
		return answers
	}
	if pending = s.round(ctx, mode, true, calls, pending, answers); len(pending) > 0 {
		s.mode.Store(int32(modeScript))
		s.round(ctx, modeScript, true, calls, pending, answers)
	}
	return answers
}

// round sends the pending calls and fills in their answers. It returns those for which
// the server lacks the command or script. Whole sends the text of the script, not its
// hash.
func (s *server) round(ctx context.Context, mode mode, whole bool, calls []call, pending []int, answers []answer) (again []int) {
	commands := make([]*redis.Cmd, len(pending))
	if len(pending) == 1 {
		commands[0] = send(ctx, s.rdb, mode, whole, calls[pending[0]])
	} else {
		// Each command has an error of its own.
		_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for n, i := range pending {
				commands[n] = send(ctx, pipe, mode, whole, calls[i])
			}
			return nil
		})
	}
	for n, i := range pending {
		reply, err := commands[n].Slice()
		switch {
		case lacksCommand(err):
			again = append(again, i)
			answers[i].err = err
		case err != nil:
			answers[i].err = err
		default:
			answers[i].result, answers[i].err = s.read(calls[i], mode, reply)
		}
	}
	return again
}

// A sender is a client or a pipeline.
type sender interface {
	redis.Scripter
	Do(context.Context, ...any) *redis.Cmd
}

func send(ctx context.Context, to sender, mode mode, whole bool, c call) *redis.Cmd {
	capacity, count, period := c.limit.capacity, c.limit.count, c.limit.seconds()
	switch mode {
	case modeModule:
		return to.Do(ctx, "cl.throttle", c.key, capacity, count, period, c.quantity)
	case modeRedisCell:
		return to.Do(ctx, "cl.throttle", c.key, capacity-1, count, period, c.quantity)
	}
	command := "reserve"
	if c.quantity == 0 {
		command = "peek"
	}
	if whole {
		return script.Eval(ctx, to, []string{c.key}, command, capacity, count, period, c.quantity)
	}
	return script.EvalSha(ctx, to, []string{c.key}, command, capacity, count, period, c.quantity)
}

// read reads the reply of CL.THROTTLE, or that of the script.
func (s *server) read(c call, mode mode, reply []any) (Result, error) {
	result := Result{Limit: c.limit, Quantity: c.quantity, Path: PathModule}
	var numbers [3]int64
	var ok bool
	if mode == modeScript {
		result.Path = PathScript
		numbers, result.RetryAfter, result.ResetAfter, ok = readRow(reply)
	} else {
		numbers, result.RetryAfter, result.ResetAfter, ok = readThrottle(reply)
	}
	if !ok {
		return Result{}, fmt.Errorf("limiter: %v is not the reply of a funnel", reply)
	}
	result.Remaining = int(numbers[2])
	if numbers[0] == 0 {
		result.Allowed = c.quantity
		result.RetryAfter = NoRetry
	}
	// After a failover, the server may read the second argument differently.
	if numbers[1] != int64(c.limit.capacity) {
		s.mode.CompareAndSwap(int32(mode), int32(modeUnknown))
	}
	return result, nil
}

// readThrottle reads the five integers of CL.THROTTLE.
func readThrottle(reply []any) (numbers [3]int64, retryAfter, resetAfter time.Duration, ok bool) {
	var seconds [2]int64
	ok = len(reply) == 5 && readIntegers(reply[:3], numbers[:]) && readIntegers(reply[3:], seconds[:])
	return numbers, ofSeconds(seconds[0]), ofSeconds(seconds[1]), ok
}

// readRow reads what the script says of its only funnel.
func readRow(reply []any) (numbers [3]int64, wait, resetAfter time.Duration, ok bool) {
	if len(reply) == 3 {
		reply, _ = reply[2].([]any)
	}
	if len(reply) == 1 {
		reply, _ = reply[0].([]any)
	}
	ok = len(reply) == 5 && readIntegers(reply[:3], numbers[:])
	if ok {
		var okWait, okReset bool
		wait, okWait = readSeconds(reply[3])
		resetAfter, okReset = readSeconds(reply[4])
		ok = okWait && okReset
	}
	return numbers, wait, resetAfter, ok
}

// readIntegers reads integers, of which scripts reply large ones as strings.
func readIntegers(reply []any, numbers []int64) (ok bool) {
	for i, element := range reply {
		number, isNumber := element.(int64)
		if text, isText := element.(string); isText {
			var err error
			number, err = strconv.ParseInt(text, 10, 64)
			isNumber = err == nil
		}
		if !isNumber {
			return false
		}
		numbers[i] = number
	}
	return true
}

// readSeconds reads a decimal of up to nine fraction digits, or -1.
func readSeconds(element any) (span time.Duration, ok bool) {
	text, _ := element.(string)
	if text == "-1" {
		return NoRetry, true
	}
	span, err := time.ParseDuration(text + "s")
	return span, err == nil
}

func lacksCommand(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrNoScript) ||
		redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "unknown command"))
}

// currentMode is the last mode that worked, or else the one that findMode finds. The
// key is one of the call, because ACL rules may deny others.
func (s *server) currentMode(ctx context.Context, key string) (mode, error) {
	if known := mode(s.mode.Load()); known != modeUnknown {
		return known, nil
	}
	found, err := s.findMode(ctx, key)
	if err == nil {
		s.mode.Store(int32(found))
	}
	return found, err
}

func (s *server) findMode(ctx context.Context, key string) (mode, error) {
	loaded, err := s.hasCommand(ctx)
	if err != nil {
		return modeUnknown, err
	}
	if !loaded {
		return modeScript, nil
	}
	// The limit in the reply to a peek tells how it reads the second argument.
	reply, err := s.rdb.Do(ctx, "cl.throttle", key, 1, 1, 1, 0).Int64Slice()
	switch {
	case lacksCommand(err):
		return modeScript, nil
	case err != nil:
		return modeUnknown, err
	case len(reply) > 1 && reply[1] == 2:
		return modeRedisCell, nil
	default:
		return modeModule, nil
	}
}

// hasCommand asks each primary of a cluster, and each server of a ring. It fails when
// none answers.
func (s *server) hasCommand(ctx context.Context) (bool, error) {
	switch rdb := s.rdb.(type) {
	case *redis.ClusterClient:
		return everyNodeHasCommand(ctx, rdb.ForEachMaster)
	case *redis.Ring:
		return everyNodeHasCommand(ctx, rdb.ForEachShard)
	default:
		return nodeHasCommand(ctx, rdb)
	}
}

func everyNodeHasCommand(ctx context.Context, forEach func(context.Context, func(context.Context, *redis.Client) error) error) (bool, error) {
	var mutex sync.Mutex
	answered, having := 0, 0
	err := forEach(ctx, func(ctx context.Context, node *redis.Client) error {
		has, err := nodeHasCommand(ctx, node)
		mutex.Lock()
		defer mutex.Unlock()
		if err == nil {
			answered++
		}
		if has {
			having++
		}
		return err
	})
	// A node that is down says nothing about the others.
	if answered == 0 && err != nil {
		return false, err
	}
	return answered == having, nil
}

func nodeHasCommand(ctx context.Context, node interface {
	Do(context.Context, ...any) *redis.Cmd
}) (bool, error) {
	reply, err := node.Do(ctx, "command", "info", "cl.throttle").Slice()
	if redis.IsPermissionError(err) || lacksCommand(err) {
		// ACL rules or a proxy deny the question: assume that it has the command.
		return true, nil
	}
	return err == nil && len(reply) == 1 && reply[0] != nil, err
}
