package limiter

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"funnel/gcra"
	"funnel/limiter/internal/backend"
)

// A call is what one method asks: rows for a backend, and for each of them the Result that the caller gets.
type call struct {
	backend.Call
	results []Result
	invalid error // why the call cannot be asked, or nil

	oneRow    [1]backend.Row // of most calls, without an allocation of their own
	oneResult [1]Result
}

// newCall returns a call without rows yet, of which there will be at least 1 and at most 64.
func newCall(operation gcra.Operation, rows int) *call {
	c := &call{Call: backend.Call{Operation: operation, Receipt: gcra.NoReceipt}}
	c.Rows, c.results = c.oneRow[:0], c.oneResult[:0]
	if rows > 1 {
		c.Rows, c.results = make([]backend.Row, 0, rows), make([]Result, 0, rows)
	}
	if rows < 1 || rows > backend.MaxRows {
		c.reject(fmt.Errorf("limiter: a call must have 1 to %d rows, not %d", backend.MaxRows, rows))
	}
	return c
}

// callFor returns a call for tokens of one funnel.
func (l *Limiter) callFor(operation gcra.Operation, request Request) *call {
	c := newCall(operation, 1)
	c.addFunnel(l, request)
	return c
}

// addFunnel adds a row for a request, and checks it.
func (c *call) addFunnel(l *Limiter, request Request) {
	words, err := l.words.get(request.Limit)
	if err != nil {
		err = fmt.Errorf("limiter: key %q: a limit of %v: %w", request.Key, request.Limit, err)
	}
	row := backend.Row{Key: l.prefix + request.Key, Words: words, Quantity: request.Quantity}
	if err == nil {
		if row.Request, err = checkQuantity(c.Operation, words.Rate, request.Quantity); err != nil {
			err = fmt.Errorf("limiter: key %q: quantity %d of a limit of %v: %w",
				request.Key, request.Quantity, request.Limit, err)
		}
	}
	c.add(row, Result{Key: request.Key, Limit: request.Limit, Quantity: request.Quantity}, err)
}

func checkQuantity(operation gcra.Operation, rate gcra.Rate, quantity int) (gcra.Request, error) {
	if operation == gcra.Take {
		return rate.RequestUpTo(int64(quantity))
	}
	return rate.Request(int64(quantity))
}

// addSlots adds a row for a slot of that holder, and checks it.
func (c *call) addSlots(l *Limiter, key string, slots Slots, holder string) {
	request, err := gcra.SlotsRequest(int64(slots.Max), int64(slots.TTL))
	if err != nil {
		err = fmt.Errorf("limiter: key %q: slots of %+v: %w", key, slots, err)
	}
	words := &backend.Words{Limit: slots.Max, Count: "SLOTS", Period: backend.Seconds(slots.TTL)}
	row := backend.Row{Key: l.prefix + key, Request: request, Words: words, Quantity: 1, Holder: holder}
	c.add(row, Result{Key: key, Slots: slots, Quantity: 1}, err)
}

// add adds a row, which must have another key than those before.
func (c *call) add(row backend.Row, result Result, err error) {
	c.reject(err)
	earlier := c.Rows[:min(len(c.Rows), backend.MaxRows)] // a call with more is invalid
	if slices.ContainsFunc(earlier, func(other backend.Row) bool { return other.Key == row.Key }) {
		c.reject(fmt.Errorf("limiter: key %q is named twice in this call: ask once, for all of its tokens", result.Key))
	}
	c.Rows, c.results = append(c.Rows, row), append(c.results, result)
}

// reject makes the call invalid, if there is a reason. The first reason counts.
func (c *call) reject(reason error) {
	if c.invalid == nil && reason != nil {
		c.invalid = backend.Invalid(reason)
	}
}

// decide has a backend decide a call, and fills in its results. Hooks get each of them.
func (l *Limiter) decide(ctx context.Context, by backend.Backend, c *call) (reply backend.Reply, err error) {
	began := l.now()
	switch {
	case c.invalid != nil:
		err = c.invalid
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		reply, err = by.Ask(ctx, &c.Call)
	}
	for i := range c.results {
		c.fill(i, &reply)
	}
	if len(l.hooks) > 0 {
		l.callHooks(ctx, c, Event{Err: err, Cause: causeOf(&reply, err), Duration: l.now() - began})
	}
	return reply, err
}

// wordsCache keeps the words of limits, which take 10 allocations to make. Programs have few limits.
type wordsCache struct {
	mutex sync.RWMutex
	known map[Limit]*backend.Words
}

// maxLimits bounds the memory of a program that makes up limits.
const maxLimits = 1000

// get returns the words of a limit, or why it is not valid.
func (w *wordsCache) get(limit Limit) (*backend.Words, error) {
	w.mutex.RLock()
	words := w.known[limit]
	w.mutex.RUnlock()
	if words != nil {
		return words, nil
	}
	rate, err := limit.Rate()
	if err != nil {
		return nil, err
	}
	words = &backend.Words{Limit: limit.Capacity, Count: limit.Count, Period: backend.Seconds(limit.Period),
		Tolerance: rate.Tolerance(), Interval: rate.EmissionInterval(), Rate: rate}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.known == nil || len(w.known) >= maxLimits {
		w.known = map[Limit]*backend.Words{}
	}
	w.known[limit] = words
	return words, nil
}
