package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/internal/decision"
	"funnel/limiter/internal/backend"
	"funnel/quota"
	"funnel/slots"
)

// A query is one call of a method: the rows that a backend decides, and for each row the Result
// that the caller gets.
type query struct {
	backend.Call
	results  []Result
	isSingle bool  // of a method for one limit, not for several requests
	rejected error // why nobody is asked, or nil: the call is wrong, or its caller has waited in vain
	waited   time.Duration
	behind   int // how many callers wait behind the caller

	// Most calls have one row, which these hold without an allocation.
	oneRow    [1]backend.Row
	oneResult [1]Result
}

// newQuery returns a call to which 1 to 64 rows are to be added.
func newQuery(operation call.Operation, rows int) *query {
	q := &query{Call: backend.Call{Operation: operation, Receipt: gcra.NoReceipt}}
	q.Rows, q.results = q.oneRow[:0], q.oneResult[:0]
	if rows > 1 {
		q.Rows, q.results = make([]backend.Row, 0, rows), make([]Result, 0, rows)
	}
	if rows < 1 || rows > call.MaxRows {
		q.rejectInvalid(fmt.Errorf("limiter: a call must have 1 to %d rows, not %d", call.MaxRows, rows))
	}
	return q
}

// queryFor returns a call for tokens of one funnel or quota.
func (l *Limiter) queryFor(operation call.Operation, key string, limit Limit, quantity int) *query {
	q := newQuery(operation, 1)
	q.isSingle = true
	q.addTokens(l, key, limit, quantity)
	return q
}

// addTokens adds a row for tokens of a funnel or a quota, and checks it.
func (q *query) addTokens(l *Limiter, key string, limit Limit, quantity int) {
	row := backend.Row{Key: l.prefix + key, Quantity: quantity}
	err := l.words.fill(&row, limit)
	if err != nil {
		err = fmt.Errorf("limiter: key %q: a limit of %v: %w", key, limit, err)
	} else {
		err = checkQuantity(q.Operation, &row)
		if err != nil {
			err = fmt.Errorf("limiter: key %q: quantity %d of a limit of %v: %w", key, quantity, limit, err)
		}
	}
	q.add(row, Result{Key: key, Limit: limit, Quantity: quantity}, err)
}

// checkQuantity checks the quantity of a row, and fills in the tokens that a funnel is asked for.
func checkQuantity(operation call.Operation, row *backend.Row) (err error) {
	switch {
	case row.Kind == call.Quota && row.Quantity < 0:
		return quota.ErrQuantity
	case row.Kind == call.Quota:
	case operation == call.Take:
		row.Tokens, err = row.Words.Rate.RequestUpTo(int64(row.Quantity))
	default:
		row.Tokens, err = row.Words.Rate.Request(int64(row.Quantity))
	}
	return err
}

// errNoSlots is the error of a call for a slot, unless the call renews it.
var errNoSlots = errors.New("there must be at least 1 slot")

// addSlots adds a row for a slot of that holder, and checks it.
func (q *query) addSlots(l *Limiter, key string, of Slots, holder string) {
	request, err := slots.NewRequest(int64(of.Max), int64(of.TTL))
	if of.Max < 1 && !q.Renews {
		err = errNoSlots
	}
	if err != nil {
		err = fmt.Errorf("limiter: key %q: slots of %+v: %w", key, of, err)
	}
	words := &backend.Words{Limit: of.Max, Count: "SLOTS", Period: backend.Seconds(of.TTL), Of: of}
	row := backend.Row{Key: l.prefix + key, Kind: call.Slots, Slot: request, TTL: of.TTL, Words: words, Holder: holder}
	q.add(row, Result{Key: key, Slots: of, Quantity: 1}, err)
}

// add adds a row, whose key must differ from the keys of all earlier rows.
func (q *query) add(row backend.Row, result Result, err error) {
	q.rejectInvalid(err)
	earlier := q.Rows[:min(len(q.Rows), call.MaxRows)] // a call with more rows is wrong already
	if slices.ContainsFunc(earlier, func(other backend.Row) bool { return other.Key == row.Key }) {
		q.rejectInvalid(fmt.Errorf(
			"limiter: key %q is named twice in this call: ask once, for all of its tokens", result.Key))
	}
	q.Rows, q.results = append(q.Rows, row), append(q.results, result)
}

// rejectInvalid makes the call wrong if reason is not nil. The first reason counts.
func (q *query) rejectInvalid(reason error) {
	if q.rejected == nil && reason != nil {
		q.rejected = backend.Invalid(reason)
	}
}

// decide sends a call, fills in its results, and calls the hooks with each of them. It is the one
// road to a decision: of every method, and of every call that renews, settles or gives back. Only
// the looks within package nodes, which decide nothing, do not take it.
func (l *Limiter) decide(ctx context.Context, q *query) (reply backend.Reply, err error) {
	began := l.now()
	switch {
	case q.rejected != nil:
		err = q.rejected
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		reply, err = l.backend.Ask(ctx, &q.Call)
	}
	q.fill(&reply, err)
	l.callHooks(ctx, q, &reply, err, l.now()-began)
	return reply, err
}

// sendRefund sends a call that gives back what nobody uses, and wakes callers that wait for the
// slots that it frees.
func (l *Limiter) sendRefund(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	q := l.queryOf(c)
	reply, err := l.decide(ctx, q)
	for i := range q.results {
		if c.Rows[i].Kind == call.Slots && reply.IsDecided(i) && reply.Row(i).Held {
			result := &q.results[i]
			l.lines.slotFreed(result.Key, c.Rows[i].HeldFor/time.Duration(result.Slots.Max))
		}
	}
	return reply, err
}

// queryOf returns the call of a backend as a call of the Limiter.
func (l *Limiter) queryOf(c *backend.Call) *query {
	q := &query{Call: *c, results: make([]Result, len(c.Rows))}
	for i := range c.Rows {
		row, result := &c.Rows[i], &q.results[i]
		result.Key, result.Quantity = strings.TrimPrefix(row.Key, l.prefix), row.Quantity
		switch row.Kind {
		case call.Slots:
			result.Slots, result.Quantity = row.Words.Of.(Slots), 1
		case call.Quota:
			result.Limit = row.Quota.Of.(Limit)
		default:
			result.Limit = row.Words.Of.(Limit)
		}
	}
	return q
}

// fill fills in the results of all rows.
func (q *query) fill(reply *backend.Reply, err error) {
	for i := range q.results {
		asked := &q.results[i]
		result := Result{Key: asked.Key, Limit: asked.Limit, Slots: asked.Slots, Quantity: asked.Quantity}
		if reply.Has(i) && err == nil || reply.IsDecided(i) {
			q.fillRow(i, reply, &result)
		}
		*asked = result // without a decision, it only repeats the arguments of the call
	}
}

// fillRow fills in the decision on a row.
func (q *query) fillRow(index int, reply *backend.Reply, result *Result) {
	row := reply.Row(index)
	if row.Source == "" { // not asked, because another row refuses; its node may be down
		result.OK = row.Cause == nil
		return
	}
	result.Source, result.Remaining, result.Receipt = Source(row.Source), int(row.Remaining), row.Receipt
	result.ResetAfter = row.ResetAfter
	result.Allowed = q.allowed(index, reply)
	result.OK = q.isOK(result, reply, row)
	result.Overdrawn = q.Accounts() && row.Limited && result.OK
	switch {
	case !row.Limited:
		if result.Quantity > 0 {
			result.Wait = row.Wait
		}
	case !result.OK || q.Accounts():
		result.RetryAfter = row.Wait
		if row.Wait == time.Duration(decision.Never) {
			result.RetryAfter = NoRetry
		}
	}
}

// allowed returns how many tokens or slots of a row were taken or accounted for.
func (q *query) allowed(index int, reply *backend.Reply) int {
	switch {
	case q.Operation == call.Take:
		return int(reply.First.Taken)
	case q.Operation == call.Reserve && !reply.Limited, q.Accounts() && !reply.Refused:
		return q.results[index].Quantity
	}
	return 0
}

// isOK reports whether a row does not limit the call. An overfull funnel limits neither a call that
// accounts for tokens nor a call for 0 tokens; a quota that has ended limits both. In a call of
// several requests, a row for 0 tokens is limited as any other row is.
func (q *query) isOK(result *Result, reply *backend.Reply, row *backend.RowReply) bool {
	switch {
	case q.Accounts():
		return !reply.Refused
	case result.Quantity == 0 && row.Wait >= 0 && q.isSingle:
		return true
	case q.Operation == call.Take:
		return result.Allowed > 0
	}
	return !row.Limited
}
