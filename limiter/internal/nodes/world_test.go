// A world has callers and nodes, and a scheduler that gives each command its turn.

package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/local"
	"funnel/limiter/internal/redis"
)

// A command waits for its turn.
type command struct {
	caller int
	call   *backend.Call
	turn   chan struct{}
	isLate bool // its answer is lost already, and it is executed all the same
}

func (c *command) String() string {
	return fmt.Sprintf("caller %d: %s %s", c.caller, redis.NameOf(c.call.Operation), c.call.Rows[0].Key)
}

// A world has nodes, and callers whose commands wait.
type world struct {
	nodes map[string]*local.Rows // by hash tag

	mutex   sync.Mutex
	waiting []*command
	running int      // callers that have no decision yet
	history []string // what was executed, in order
	lose    int      // the index in the history of the command whose answer is lost; -1 for none
	how     loss
	loser   int // the caller whose answer was lost; -1 for nobody
	giveUp  []context.CancelFunc
	granted map[receipt]bool
	wrong   []string // what a caller or a command should not have done
}

// A receipt names what a call took from a key.
type receipt struct {
	key     string
	receipt int64
}

// A loss says what happens to a command whose answer is lost.
type loss int

const (
	executed loss = iota
	dropped       // before it is executed
	later         // executed after the error has come, as when TCP sends it again
	givesUp       // no answer is lost: the caller gives up before the command is executed
)

func (l loss) String() string {
	return []string{"executed", "dropped", "executed later", "the caller gives up"}[l]
}

var errLost = errors.New("the answer is lost")

// callerKey is the key in a context of the caller's number.
type callerKey struct{}

// Ask executes a call when it is its turn.
func (w *world) Ask(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	caller, _ := ctx.Value(callerKey{}).(int)
	mine := &command{caller: caller, call: c, turn: make(chan struct{})}
	w.mutex.Lock()
	w.waiting = append(w.waiting, mine)
	w.mutex.Unlock()
	<-mine.turn

	w.mutex.Lock()
	isLost := len(w.history) == w.lose
	how := "executed"
	if isLost && w.how == givesUp {
		how, isLost = "executed after the caller has given up", false
		w.giveUp[caller]()
	}
	if isLost {
		how, w.loser = "lost, and "+w.how.String(), caller
	}
	w.history = append(w.history, fmt.Sprintf("%v: %s", mine, how))
	last := len(w.history) - 1
	w.mutex.Unlock()
	switch {
	case isLost && w.how == dropped:
		return backend.Reply{Sent: true}, errLost
	case isLost && w.how == later:
		w.mutex.Lock()
		w.waiting = append(w.waiting, &command{caller: caller, call: c, isLate: true})
		w.mutex.Unlock()
		return backend.Reply{Sent: true}, errLost
	}
	reply, err := w.execute(c)
	w.mutex.Lock()
	if reply.Limited {
		w.history[last] += ", limited"
	} else {
		w.history[last] += ", allowed"
	}
	w.mutex.Unlock()
	if isLost {
		return backend.Reply{Sent: true}, errLost
	}
	reply.Sent = true
	return reply, err
}

// execute has the node of a call decide it, as Redis would. Tokens are given back by a receipt.
func (w *world) execute(c *backend.Call) (backend.Reply, error) {
	first := &c.Rows[0]
	named := receipt{first.Key, c.Receipt}
	if first.Kind == call.Quota {
		named.receipt = first.Quota.EndAt(time.Now())
	}
	reply, err := w.nodes[hashTag(first.Key)].Ask(context.Background(), c)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if c.Operation == call.Refund && first.Kind != call.Slots && !w.granted[named] {
		w.wrong = append(w.wrong, fmt.Sprintf("a refund of %q names %d, which is no receipt", first.Key, named.receipt))
	}
	for i := range c.Rows {
		reply.Row(i).Source = backend.Module
		w.granted[receipt{c.Rows[i].Key, reply.Row(i).Receipt}] = true
	}
	return reply, err
}

func (*world) Reset(context.Context, string) error { return nil }
func (*world) Node(key string) string              { return hashTag(key) }
func (*world) KeepsDeadlines() bool                { return true }
func (*world) AllInUse(string) bool                { return false }

// options returns the commands that may be executed next. Commands of the caller whose command was
// executed last come first.
func (w *world) options(last int) []*command {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	slices.SortFunc(w.waiting, func(a, b *command) int {
		isOther := func(c *command) int {
			if c.caller == last {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(isOther(a), isOther(b)), cmp.Compare(a.caller, b.caller),
			cmp.Compare(a.call.Rows[0].Key, b.call.Rows[0].Key), cmp.Compare(a.call.Operation, b.call.Operation))
	})
	return slices.Clone(w.waiting)
}

// turn executes a command.
func (w *world) turn(c *command) {
	w.mutex.Lock()
	w.waiting = slices.DeleteFunc(w.waiting, func(other *command) bool { return other == c })
	if c.isLate {
		w.history = append(w.history, fmt.Sprintf("%v: arrives late, and is executed", c))
	}
	w.mutex.Unlock()
	if c.isLate {
		_, _ = w.execute(c.call)
		return
	}
	close(c.turn)
}

// returned notes that a caller has its decision. Nothing that it asked for may be under way then,
// unless an answer was lost: slots are asked back in the background.
func (w *world) returned(caller int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.running--
	for _, c := range w.waiting {
		if c.caller == caller && w.lose < 0 {
			w.wrong = append(w.wrong, fmt.Sprintf("a call has returned before %q was executed", c))
		}
	}
}

// A chooser chooses one of several options. Option 0 is the next command of the same caller, as if
// the caller were alone.
type chooser interface{ choose(options int) int }

// A search goes through all choices, depth first: one path after the other.
type search struct {
	path, sizes []int
	at          int
	preferring  int // how often a path may choose another option than the first; -1 for any number
}

func (s *search) choose(options int) int {
	if s.at == len(s.path) {
		s.path, s.sizes = append(s.path, 0), append(s.sizes, options)
	}
	choice := s.path[s.at]
	s.at++
	return choice
}

// next goes to the next path, and reports whether there is one.
func (s *search) next() bool {
	s.path, s.sizes = s.path[:s.at], s.sizes[:s.at]
	for s.at = 0; len(s.path) > 0; s.path, s.sizes = s.path[:len(s.path)-1], s.sizes[:len(s.sizes)-1] {
		last := len(s.path) - 1
		preferred := 1 // by the next choice
		for _, choice := range s.path[:last] {
			if choice > 0 {
				preferred++
			}
		}
		if s.path[last]+1 < s.sizes[last] && (s.preferring < 0 || preferred <= s.preferring) {
			s.path[last]++
			return true
		}
	}
	return false
}

// A randomly chooser chooses at random.
type randomly struct{ *rand.Rand }

func (r randomly) choose(options int) int { return r.IntN(options) }
