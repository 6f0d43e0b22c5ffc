package limiter

import (
	"fmt"
	"sync"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
)

// A query is what one call asks. It does not change once it has been sent.
type query struct {
	operation call.Operation
	deletes   bool          // the key, by DEL, instead of the operation
	funnels   []funnel      // 1 to 64, decided as one; the first may be slots
	maxWait   time.Duration // of Reserve
	receipt   int64         // of Refund, or NoReceipt
	extra     []any         // the argument behind the funnels: max_wait, tat, or none
	undo      *query        // sent where nobody gets the answer of what was sent, or nil
	decider   decider
	invalid   error // why the query cannot be asked, or nil

	single [1]funnel // the funnels of most queries, without an allocation of their own
}

// A decider is who may decide a query.
type decider int

const (
	redisOrPolicy decider = iota // where Redis fails, the FailurePolicy decides
	redisAlone                   // where Redis fails, that is the error
	processAlone                 // the funnels in this process
)

// A funnel is one of those that a query asks about.
type funnel struct {
	Request
	redisKey string // with the prefix
	args     *limitArgs
	row      call.Row // with the request alone
	holder   string   // of a slot, or empty
}

// appendTo appends the words behind the key.
func (f *funnel) appendTo(args []any) []any {
	args = append(args, f.args.capacity, f.args.count, f.args.period)
	if f.holder != "" {
		return append(args, f.holder)
	}
	return append(args, f.Quantity)
}

// maxFunnels is how many funnels a command takes.
const maxFunnels = 64

// newQuery checks what is asked, without asking the server.
func (l *Limiter) newQuery(operation call.Operation, requests ...Request) *query {
	q := &query{operation: operation, receipt: gcra.NoReceipt}
	if q.funnels = q.single[:]; len(requests) != 1 {
		q.funnels = make([]funnel, len(requests))
	}
	for i, request := range requests {
		args, err := l.limits.args(request.Limit)
		q.funnels[i] = funnel{Request: request, redisKey: l.prefix + request.Key, args: args}
		if err != nil {
			q.reject(fmt.Errorf("limiter: key %q: a limit of %v: %w", request.Key, request.Limit, err))
			continue
		}
		checked := &q.funnels[i].row.Funnel.Request
		if operation == call.Take {
			*checked, err = args.rate.RequestUpTo(int64(request.Quantity))
		} else {
			*checked, err = args.rate.Request(int64(request.Quantity))
		}
		if err != nil {
			q.reject(fmt.Errorf("limiter: key %q: quantity %d of a limit of %v: %w",
				request.Key, request.Quantity, request.Limit, err))
		}
	}
	return q
}

// waitUpTo makes the query one for a caller who can wait.
func (q *query) waitUpTo(maxWait time.Duration) *query {
	if maxWait > 0 {
		q.maxWait, q.extra = maxWait, []any{secondsOf(maxWait)}
	}
	return q
}

// reject makes the query invalid. The first reason counts.
func (q *query) reject(reason error) {
	if q.invalid == nil {
		q.invalid = reason
	}
}

// rows are the requests as package call takes them.
func (q *query) rows() []call.Row {
	rows := make([]call.Row, len(q.funnels))
	for i := range rows {
		rows[i] = q.funnels[i].row
	}
	return rows
}

// accounts reports whether the query is for tokens that were used, or that were not.
func (q *query) accounts() bool { return q.operation == call.Charge || q.operation == call.Refund }

// keys are the keys in Redis.
func (q *query) keys() []string {
	keys := make([]string, len(q.funnels))
	for i := range keys {
		keys[i] = q.funnels[i].redisKey
	}
	return keys
}

// wrap returns an error that names the keys in Redis.
func (q *query) wrap(err error) error {
	if len(q.funnels) == 1 {
		return fmt.Errorf("limiter: key %q: %w", q.funnels[0].redisKey, err)
	}
	return fmt.Errorf("limiter: keys %q: %w", q.keys(), err)
}

// limits caches limitArgs, which take 10 allocations to make. Programs have few limits.
type limits struct {
	mutex sync.RWMutex
	known map[Limit]*limitArgs
}

// limitArgs is a limit's checked rate, and its arguments. Values that become any are allocated.
type limitArgs struct {
	rate                    gcra.Rate
	capacity, count, period any
	tolerance, interval     any
}

// maxLimits bounds the memory of a program that makes up limits.
const maxLimits = 1000

// args returns the arguments of a limit, or why it is not valid.
func (l *limits) args(limit Limit) (*limitArgs, error) {
	l.mutex.RLock()
	args := l.known[limit]
	l.mutex.RUnlock()
	if args != nil {
		return args, nil
	}
	rate, err := limit.Rate()
	if err != nil {
		return nil, err
	}
	args = &limitArgs{rate: rate, capacity: limit.Capacity, count: limit.Count, period: secondsOf(limit.Period),
		tolerance: rate.Tolerance(), interval: rate.EmissionInterval()}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.known == nil || len(l.known) >= maxLimits {
		l.known = map[Limit]*limitArgs{}
	}
	l.known[limit] = args
	return args, nil
}
