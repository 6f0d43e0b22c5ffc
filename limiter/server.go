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

// A call is one question to the server.
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

// A way is how a server is asked.
type way int32

const (
	unknown          way = iota
	throughModule        // CL.THROTTLE, whose second argument is the capacity
	throughRedisCell     // CL.THROTTLE, whose second argument is one less
	throughScript
)

// A server knows how to ask for calls: through the module or the script.
type server struct {
	rdb redis.UniversalClient
	way atomic.Int32
}

// ask answers each call, in one round trip if there is nothing new to learn about
// the server. What the server has refused because it lacks the command or the script
// has poured nothing, and is asked again in another way.
func (s *server) ask(ctx context.Context, calls []call) []answer {
	answers := make([]answer, len(calls))
	pending := make([]int, len(calls)) // indexes into calls
	for i := range calls {
		pending[i] = i
	}
	way, err := s.currentWay(ctx, calls[0].key)
	if err != nil {
		for i := range answers {
			answers[i].err = err
		}
		return answers
	}

	pending = s.round(ctx, way, false, calls, pending, answers)
	if len(pending) == 0 {
		return answers
	}
	// Whatever has changed, the server restarted or failed over or lost its module,
	// look again. A server on which the module is not loaded everywhere gets the
	// script, which every node can run.
	s.way.Store(int32(unknown))
	way, err = s.currentWay(ctx, calls[pending[0]].key)
	if err != nil {
		for _, i := range pending {
			answers[i].err = err
		}
		return answers
	}
	if pending = s.round(ctx, way, true, calls, pending, answers); len(pending) > 0 {
		s.way.Store(int32(throughScript))
		s.round(ctx, throughScript, true, calls, pending, answers)
	}
	return answers
}

// round asks for the pending calls and fills in their answers. It returns those that
// the server could not understand. Whole sends the text of the script, not its hash.
func (s *server) round(ctx context.Context, way way, whole bool, calls []call, pending []int, answers []answer) (again []int) {
	commands := make([]*redis.Cmd, len(pending))
	if len(pending) == 1 {
		commands[0] = send(ctx, s.rdb, way, whole, calls[pending[0]])
	} else {
		// Each command has an error of its own.
		_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for n, i := range pending {
				commands[n] = send(ctx, pipe, way, whole, calls[i])
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
			answers[i].result, answers[i].err = s.read(calls[i], way, reply)
		}
	}
	return again
}

// A client or a pipeline.
type sender interface {
	redis.Scripter
	Do(context.Context, ...any) *redis.Cmd
}

func send(ctx context.Context, to sender, way way, whole bool, c call) *redis.Cmd {
	capacity, count, period := c.limit.capacity, c.limit.count, c.limit.seconds()
	switch {
	case way == throughModule:
		return to.Do(ctx, "cl.throttle", c.key, capacity, count, period, c.quantity)
	case way == throughRedisCell:
		return to.Do(ctx, "cl.throttle", c.key, capacity-1, count, period, c.quantity)
	case whole:
		return script.Eval(ctx, to, []string{c.key}, capacity, count, period, c.quantity)
	default:
		return script.EvalSha(ctx, to, []string{c.key}, capacity, count, period, c.quantity)
	}
}

// read reads the five integers of CL.THROTTLE, and the two that the script adds.
func (s *server) read(c call, way way, reply []any) (Result, error) {
	path, length := PathModule, 5
	if way == throughScript {
		path, length = PathScript, 7
	}
	numbers, ok := integers(reply)
	if !ok || len(numbers) != length {
		return Result{}, fmt.Errorf("limiter: CL.THROTTLE has replied %v, not %d integers", reply, length)
	}
	result := Result{
		Limit:      c.limit,
		Quantity:   c.quantity,
		Remaining:  int(numbers[2]),
		RetryAfter: ofSeconds(numbers[3]),
		ResetAfter: ofSeconds(numbers[4]),
		Path:       path,
	}
	if numbers[0] == 0 {
		result.Allowed = c.quantity
	}
	if way == throughScript {
		result.RetryAfter, result.ResetAfter = time.Duration(numbers[5]), time.Duration(numbers[6])
	}
	// A server that has taken over may read the second argument in another way.
	if numbers[1] != int64(c.limit.capacity) {
		s.way.CompareAndSwap(int32(way), int32(unknown))
	}
	return result, nil
}

// integers are those of a reply, in which a script returns large ones as strings.
func integers(reply []any) (numbers []int64, ok bool) {
	for _, element := range reply {
		number, ok := element.(int64)
		if text, isText := element.(string); isText {
			var err error
			number, err = strconv.ParseInt(text, 10, 64)
			ok = err == nil
		}
		if !ok {
			return nil, false
		}
		numbers = append(numbers, number)
	}
	return numbers, true
}

func lacksCommand(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrNoScript) ||
		redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "unknown command"))
}

// currentWay is the way that is known to work, or else the one that the server says
// will. The key is where the server may be asked: a key of the call, because in a
// cluster others may be out of bounds.
func (s *server) currentWay(ctx context.Context, key string) (way, error) {
	if known := way(s.way.Load()); known != unknown {
		return known, nil
	}
	found, err := s.findWay(ctx, key)
	if err == nil {
		s.way.Store(int32(found))
	}
	return found, err
}

func (s *server) findWay(ctx context.Context, key string) (way, error) {
	loaded, err := s.hasCommand(ctx)
	if err != nil {
		return unknown, err
	}
	if !loaded {
		return throughScript, nil
	}
	// How does it read the second argument? A look at a funnel of 1 tells, and
	// writes nothing.
	reply, err := s.rdb.Do(ctx, "cl.throttle", key, 1, 1, 1, 0).Int64Slice()
	switch {
	case lacksCommand(err):
		return throughScript, nil
	case err != nil:
		return unknown, err
	case len(reply) > 1 && reply[1] == 2:
		return throughRedisCell, nil
	default:
		return throughModule, nil
	}
}

// hasCommand asks each primary of a cluster, and each server of a ring, because any
// of them may be asked for a key. It fails when none answers.
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
		// Whoever may not ask, because of ACL rules or a proxy, has to try.
		return true, nil
	}
	return err == nil && len(reply) == 1 && reply[0] != nil, err
}
