// A model is a server that decides as package contract says, by the clock of a bubble. Its network may be slow,
// hang, lose answers, and have commands executed twice. Processes ask it, by clocks that are not right.

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"funnel/internal/contract"
	"funnel/limiter"
	"funnel/limiter/lease"
)

// The mutex also guards what the functions use.
type model struct {
	mutex  sync.Mutex
	values map[string]contract.Value
	way    func() time.Duration      // how long a command or a reply is under way
	fate   func(command string) fate // what becomes of a command
	sent   []string                  // commands, as they were executed
	uses   []use
	asked  int // tokens
	waited int // callers, after the first second
	leased int // tokens used from leases
	wrong  []limiter.Result
}

// A fate delays a command and its reply, or executes it twice. An error or another reply may come.
type fate struct {
	there, back time.Duration
	twice       bool
	err         error
	reply       []any
}

// A use is of tokens at an instant.
type use struct{ at, quantity int64 }

func newModel(way time.Duration) *model {
	return &model{
		values: map[string]contract.Value{},
		way:    func() time.Duration { return way },
		fate:   func(string) fate { return fate{} },
	}
}

// set changes the model, or reads of it.
func (m *model) set(change func()) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	change()
}

func (m *model) execute(words []string) (outcome contract.Outcome) {
	m.set(func() {
		m.sent = append(m.sent, strings.Join(words, " "))
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

// A process has Leases, and is the client of their Limiter.
type process struct {
	server   *model
	limiter  *limiter.Limiter
	leases   *lease.Leases
	hook     limiter.Hook // of the leases
	begin    time.Time
	read     atomic.Int64 // when the leases read their clock last
	executed atomic.Int64 // when the call for tokens was executed that was answered last
}

// instantKey is for the instant of a caller who asks alone.
type instantKey struct{}

func (p *process) Process(ctx context.Context, command redis.Cmder) error {
	m, words := p.server, strings.Fields(fmt.Sprintln(command.Args()...))
	var f fate
	m.set(func() {
		f = m.fate(words[0])
		f.there, f.back = f.there+m.way(), f.back+m.way()
	})
	time.Sleep(f.there)
	outcome, at := m.execute(words), time.Now().UnixNano()
	if f.twice {
		outcome = m.execute(words)
	}
	time.Sleep(f.back)
	switch {
	case f.err != nil:
		return f.err
	case outcome.Err != "":
		return errors.New(string(outcome.Err))
	case f.reply != nil:
		outcome.Reply = f.reply
	}
	instant, alone := ctx.Value(instantKey{}).(*atomic.Int64)
	if !alone {
		instant = &p.executed
	}
	instant.Store(at)
	command.(interface{ SetVal(any) }).SetVal(outcome.Reply)
	return nil
}

// outside of bubbles instants are also of the monotonic clock.
var outside = time.Now()

// start starts a process whose monotonic clock runs at that speed, and whose wall clock steps at random.
func start(m *model, speed float64, d time.Duration, options ...limiter.Option) *process {
	begin := time.Now()
	p := &process{server: m, begin: begin}
	p.limiter = limiter.New(p, append(options, limiter.WithSource(limiter.FromModule))...)
	p.leases = lease.New(p.limiter, d, lease.WithHook(func(ctx context.Context, event limiter.Event) {
		if p.hook != nil {
			p.hook(ctx, event)
		}
	}))
	lease.SetNow(p.leases, func() time.Time {
		p.read.Store(time.Now().UnixNano())
		now := outside.Add(time.Duration(float64(time.Since(begin)) * speed))
		*(*uint64)(unsafe.Pointer(&now)) -= rand.Uint64N(100) * 3600 << 30 // hours of the wall clock alone
		return now
	})
	return p
}

// allow asks, and notes the use of tokens.
func (p *process) allow(ctx context.Context, limit limiter.Limit, quantity int) {
	var own atomic.Int64
	begin := time.Now()
	p.server.set(func() { p.server.asked += quantity })
	result, err := p.leases.AllowN(context.WithValue(ctx, instantKey{}, &own), "key", limit, quantity)
	if result.Remaining < 0 || result.Remaining > limit.Capacity || result.ResetAfter < 0 || result.Receipt < 0 {
		p.server.set(func() { p.server.wrong = append(p.server.wrong, result) })
	}
	if err != nil || result.Allowed == 0 {
		return
	}
	at := p.executed.Load()
	p.server.set(func() {
		if time.Since(begin) > 0 && begin.Sub(p.begin) > time.Second {
			p.server.waited++
		}
		switch {
		case own.Load() != 0:
			at = own.Load()
		case result.Source == limiter.FromLease:
			at = p.read.Load()
			p.server.leased += quantity
		}
		p.server.uses = append(p.server.uses, use{at, int64(quantity)})
	})
}
