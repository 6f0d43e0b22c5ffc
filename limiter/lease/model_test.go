package lease_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/contract"
	"funnel/limiter"
	"funnel/limiter/lease"
)

// A model is a server that decides as package contract says, by the clock of a bubble. Its
// network may be slow, hang, lose answers, and have commands executed twice.
type model struct {
	mutex           sync.Mutex
	random          *rand.Rand
	values          map[string]contract.Value
	faults          float64       // the share of commands that something happens to
	delay           time.Duration // of each way, at most
	processes       []*process
	uses            []use // of tokens
	sent            []string
	fixed           time.Duration // of each way, in place of a random one
	lose            bool          // is the only fault
	fails           string        // a command
	asked           atomic.Int64  // tokens
	calls           atomic.Int64  // that ask for tokens
	granted, leased int64         // tokens, and those by leases
}

var moduleOnly = limiter.WithPath(limiter.PathModule)

// A use is of tokens at an instant.
type use struct{ at, quantity int64 }

func newModel(seed uint64, faults float64, delay time.Duration) *model {
	return &model{random: rand.New(rand.NewPCG(seed, 1)), values: map[string]contract.Value{}, faults: faults, delay: delay}
}

// chance returns numbers from 0 to 1.
func (m *model) chance() float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.random.Float64()
}

// set changes the model, or reads of it.
func (m *model) set(change func()) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	change()
}

func (m *model) execute(words []string) (contract.Outcome, int64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	now := time.Now().UnixNano()
	m.sent = append(m.sent, strings.Join(words, " "))
	outcome := contract.Call(contract.Default, words, now, func(key string) contract.Value { return m.values[key] })
	for _, write := range outcome.Writes {
		m.values[write.Key] = contract.Value{Type: "string", Text: write.Value}
		if write.Value == "" {
			delete(m.values, write.Key)
		}
	}
	return outcome, now
}

// A process has Leases, is the client of their Limiter, and has its own clock. Answered is the instant at
// which the server executed the shared call that was answered last.
type process struct {
	server         *model
	limiter        *limiter.Limiter
	leases         *lease.Leases
	hook           limiter.Hook // of the leases
	speed          float64
	span           time.Duration
	read, answered atomic.Int64
	taken, used    []use // by shared calls, and by leases
}

// late is how many tokens a lease handed out more than d after they were taken, or before.
// The oldest that can be used are the best choice.
func (p *process) late() (late int64) {
	slices.SortFunc(p.taken, byInstant)
	slices.SortFunc(p.used, byInstant)
	first := 0
	for _, use := range p.used {
		for ; first < len(p.taken) && (p.taken[first].quantity <= 0 || p.taken[first].at < use.at-int64(p.span*101/100)); first++ {
		}
		for i := first; i < len(p.taken) && p.taken[i].at <= use.at && use.quantity > 0; i++ {
			number := min(use.quantity, p.taken[i].quantity)
			p.taken[i].quantity -= number
			use.quantity -= number
		}
		late += use.quantity
	}
	return late
}

func byInstant(a, b use) int { return cmp.Compare(a.at, b.at) }

// instantKey is for the instant of a caller who asks alone.
type instantKey struct{}

func (p *process) Process(ctx context.Context, command redis.Cmder) error {
	words := make([]string, len(command.Args()))
	for i, word := range command.Args() {
		words[i] = fmt.Sprint(word)
	}
	if words[0] == "del" {
		words = []string{"cl.refund", words[1], "1", "1", "1000000000", "1"} // all of a funnel, and more
	}
	if words[5] != "0" {
		p.server.calls.Add(1)
	}
	var fixed time.Duration
	var faults float64
	p.server.set(func() { fixed, faults = p.server.fixed, p.server.faults })
	way := func() time.Duration { return 1 + fixed + time.Duration(p.server.chance()*float64(p.server.delay)) }
	there, back, executions, lost := way(), way(), 1, false
	if p.server.chance() < faults {
		switch fault := p.server.chance(); {
		case p.server.lose:
			lost = true
		case fault < 0.3:
			back *= 100
		case fault < 0.5:
			there *= 100
		case fault < 0.6:
			there += 10 * time.Second // longer than any time-out
		case fault < 0.8:
			executions = 2
		default:
			lost = true
		}
	}
	time.Sleep(there)
	outcome, at := p.server.execute(words)
	if executions == 2 { // the first answer was lost, or a copy of the command comes late
		if again, later := p.server.execute(words); p.server.chance() < 0.5 {
			outcome, at = again, later
		}
	}
	time.Sleep(back)
	switch {
	case lost:
		return errors.New("the answer was lost")
	case words[0] == p.server.fails:
		return errors.New("the connection ended")
	case outcome.Err != "":
		return errors.New(string(outcome.Err))
	}
	if instant, alone := ctx.Value(instantKey{}).(*atomic.Int64); alone {
		instant.Store(at)
	} else if words[0] != "cl.refund" {
		p.answered.Store(at)
		p.took(at, words, outcome.Reply)
	}
	command.(interface{ SetVal(any) }).SetVal(outcome.Reply)
	return nil
}

func (p *process) Pipelined(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	panic("a Limiter sends calls of Allow one by one")
}

// took notes the tokens of a shared call.
func (p *process) took(at int64, words []string, reply []any) {
	quantity, _ := strconv.ParseInt(words[5], 10, 64)
	switch {
	case len(reply) == 4:
		quantity = reply[3].(int64)
	case reply[0] != int64(0):
		quantity = 0
	}
	p.server.mutex.Lock()
	defer p.server.mutex.Unlock()
	p.taken = append(p.taken, use{at, quantity})
}

// start starts a process whose clock runs at that speed.
func start(m *model, speed float64, span time.Duration, options ...limiter.Option) *process {
	begin := time.Now()
	p := &process{server: m, speed: speed, span: span}
	m.mutex.Lock()
	m.processes = append(m.processes, p)
	m.mutex.Unlock()
	p.limiter = limiter.New(p, append(options, moduleOnly)...)
	p.leases = lease.New(p.limiter, span, lease.WithHook(func(ctx context.Context, event limiter.Event) {
		if p.hook != nil {
			p.hook(ctx, event)
		}
	}))
	lease.SetNow(p.leases, func() time.Time {
		now := time.Now()
		p.read.Store(now.UnixNano())
		return begin.Add(time.Duration(float64(now.Sub(begin)) * p.speed))
	})
	return p
}

// allow asks, and notes the use of tokens.
func (p *process) allow(ctx context.Context, limit limiter.Limit, quantity int) {
	var own atomic.Int64
	p.server.asked.Add(int64(quantity))
	result, err := p.leases.AllowN(context.WithValue(ctx, instantKey{}, &own), "key", limit, quantity)
	if err != nil || result.Allowed == 0 {
		return
	}
	m, at := p.server, p.answered.Load()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.granted += int64(quantity)
	switch {
	case own.Load() != 0:
		at = own.Load()
	case result.Path == limiter.PathLease:
		at = p.read.Load()
		m.leased += int64(quantity)
		p.used = append(p.used, use{at, int64(quantity)})
	default:
		for i := range p.taken {
			if p.taken[i].at == at {
				p.taken[i].quantity -= int64(quantity)
			}
		}
	}
	m.uses = append(m.uses, use{at, int64(quantity)})
}
