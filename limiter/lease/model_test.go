// What the tests are built of: a model of Redis, and processes that ask it.
//
// The model decides as package contract says, by the clock of a bubble of testing/synctest. Its
// network may be slow, hang, lose replies, and deliver commands twice. A process has Leases, and a
// clock that may run fast or slow. The model keeps a record of what it executed, and of the tokens
// that callers used.

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/contract"
	"funnel/limiter"
	"funnel/limiter/lease"
)

// A redisModel is one server. The mutex guards the fields, and what latency and disturb use.
type redisModel struct {
	mutex   sync.Mutex
	values  map[string]contract.Value
	latency func() time.Duration                 // of a command, and of a reply
	disturb func(command string) (d disturbance) // what happens to a command

	commands []string // in the order in which they were executed
	uses     []use
	asked    int              // tokens that callers asked for
	leased   int              // tokens that were decided by leases
	waited   int              // callers who waited, after the first second
	wrong    []limiter.Result // out of range
}

// A disturbance is what happens to one command. The zero disturbance is none.
type disturbance struct {
	delayCommand time.Duration // before it is executed, beside the latency
	delayReply   time.Duration // after that
	twice        bool          // it is executed twice
	err          error         // replaces the reply
	reply        []any         // replaces the reply
}

// A use is of tokens that a caller got, at the instant that counts for the bound.
type use struct{ at, quantity int64 }

func newRedisModel(latency time.Duration) *redisModel {
	return &redisModel{
		values:  map[string]contract.Value{},
		latency: func() time.Duration { return latency },
		disturb: func(string) disturbance { return disturbance{} },
	}
}

// locked reads or changes the model.
func (m *redisModel) locked(do func()) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	do()
}

func (m *redisModel) execute(words []string) (outcome contract.Outcome) {
	m.locked(func() {
		m.commands = append(m.commands, strings.Join(words, " "))
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

// A process has Leases. It is the client of their Limiter, too.
type process struct {
	redis     *redisModel
	limiter   *limiter.Limiter
	leases    *lease.Leases
	hook      limiter.Hook // of the Leases
	began     time.Time
	clockRead atomic.Int64 // when the Leases read their clock last
	executed  atomic.Int64 // when the last call for tokens was executed
}

// startProcess starts a process whose clock runs at that speed: 1.01 is 1 % fast.
func startProcess(m *redisModel, speed float64, d time.Duration, options ...limiter.Option) *process {
	p := &process{redis: m, began: time.Now()}
	p.limiter = limiter.New(p, append(options, limiter.WithSource(limiter.FromModule))...)
	p.leases = lease.New(p.limiter, d, lease.WithHook(func(ctx context.Context, event limiter.Event) {
		if p.hook != nil {
			p.hook(ctx, event)
		}
	}))
	lease.SetClock(p.leases, func() time.Duration {
		p.clockRead.Store(time.Now().UnixNano())
		return time.Duration(float64(time.Since(p.began)) * speed)
	})
	return p
}

// executedKey is the key of a context's *atomic.Int64: the instant at which its command was
// executed. Calls for tokens have contexts without it.
type executedKey struct{}

// Process sends a command to the model. The process is a [limiter.Client].
func (p *process) Process(ctx context.Context, command redis.Cmder) error {
	m, words := p.redis, strings.Fields(fmt.Sprintln(command.Args()...))
	var d disturbance
	m.locked(func() {
		d = m.disturb(words[0])
		d.delayCommand += m.latency()
		d.delayReply += m.latency()
	})
	time.Sleep(d.delayCommand)
	outcome, at := m.execute(words), time.Now().UnixNano()
	if d.twice {
		outcome = m.execute(words)
	}
	time.Sleep(d.delayReply)
	switch {
	case d.err != nil:
		return d.err
	case outcome.Err != "":
		return errors.New(string(outcome.Err))
	case d.reply != nil:
		outcome.Reply = d.reply
	}
	executed, ofCaller := ctx.Value(executedKey{}).(*atomic.Int64)
	if !ofCaller {
		executed = &p.executed
	}
	executed.Store(at)
	command.(interface{ SetVal(any) }).SetVal(outcome.Reply)
	return nil
}

// allow asks the Leases, and records the use of tokens.
func (p *process) allow(ctx context.Context, limit limiter.Limit, quantity int) {
	var executed atomic.Int64 // if the caller asks alone
	began := time.Now()
	p.redis.locked(func() { p.redis.asked += quantity })
	result, err := p.leases.AllowN(context.WithValue(ctx, executedKey{}, &executed), "key", limit, quantity)
	at, isLeased := p.executed.Load(), result.Source == limiter.FromLease
	switch {
	case executed.Load() != 0:
		at = executed.Load()
	case isLeased:
		at = p.clockRead.Load()
	}
	isWrong := result.Remaining < 0 || result.Remaining > limit.Capacity || result.ResetAfter < 0 || result.Receipt < 0
	waits := time.Since(began) > 0 && began.Sub(p.began) > time.Second
	p.redis.locked(func() {
		if isWrong {
			p.redis.wrong = append(p.redis.wrong, result)
		}
		if err != nil || result.Allowed == 0 {
			return
		}
		p.redis.uses = append(p.redis.uses, use{at, int64(quantity)})
		if isLeased {
			p.redis.leased += quantity
		}
		if waits {
			p.redis.waited++
		}
	})
}
