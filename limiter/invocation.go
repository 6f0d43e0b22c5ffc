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

// An invocation is one call of a method: the rows that a backend decides, and for each row the
// Result that the caller gets.
type invocation struct {
	backend.Call
	results  []Result
	isSingle bool  // of a method for one limit, not for several requests
	rejected error // why nobody is asked, or nil: the call is wrong, or its caller has waited in vain
	waited   time.Duration
	behind   int // how many callers wait behind the caller

	// Most calls have one row, which these hold without an allocation.
	oneRow    [1]backend.AskedRow
	oneResult [1]Result
}

// newInvocation returns a call to which 1 to 64 rows are to be added.
func newInvocation(operation call.Operation, rows int) *invocation {
	inv := &invocation{Call: backend.Call{Operation: operation, Receipt: gcra.NoReceipt}}
	inv.Rows, inv.results = inv.oneRow[:0], inv.oneResult[:0]
	if rows > 1 {
		inv.Rows, inv.results = make([]backend.AskedRow, 0, rows), make([]Result, 0, rows)
	}
	if rows < 1 || rows > call.MaxRows {
		inv.rejectInvalid(fmt.Errorf("limiter: a call must have 1 to %d rows, not %d", call.MaxRows, rows))
	}
	return inv
}

// invocationFor returns a call for tokens of one funnel or quota.
func (l *Limiter) invocationFor(operation call.Operation, key string, limit Limit, quantity int) *invocation {
	inv := newInvocation(operation, 1)
	inv.isSingle = true
	inv.addTokens(l, key, limit, quantity)
	return inv
}

// addTokens adds a row for tokens of a funnel or a quota, and checks it.
func (inv *invocation) addTokens(l *Limiter, key string, limit Limit, quantity int) {
	row := backend.AskedRow{Key: l.prefix + key, Quantity: quantity}
	err := l.words.fill(&row, limit)
	if err != nil {
		err = fmt.Errorf("limiter: key %q: a limit of %v: %w", key, limit, err)
	} else {
		err = checkQuantity(inv.Operation, &row)
		if err != nil {
			err = fmt.Errorf("limiter: key %q: quantity %d of a limit of %v: %w", key, quantity, limit, err)
		}
	}
	inv.add(row, Result{Key: key, Limit: limit, Quantity: quantity}, err)
}

// checkQuantity checks the quantity of a row, and fills in the tokens that a funnel is asked for.
func checkQuantity(operation call.Operation, row *backend.AskedRow) (err error) {
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
func (inv *invocation) addSlots(l *Limiter, key string, of Slots, holder string) {
	request, err := slots.NewRequest(int64(of.Max), int64(of.TTL))
	if of.Max < 1 && !inv.Renews {
		err = errNoSlots
	}
	if err != nil {
		err = fmt.Errorf("limiter: key %q: slots of %+v: %w", key, of, err)
	}
	words := &backend.Words{Limit: of.Max, Count: "SLOTS", Period: backend.Seconds(of.TTL), Of: of}
	row := backend.AskedRow{
		Key: l.prefix + key, Kind: call.Slots, Words: words, Slot: request, Holder: holder, TTL: of.TTL}
	inv.add(row, Result{Key: key, Slots: of, Quantity: 1}, err)
}

// add adds a row, whose key must differ from the keys of all earlier rows.
func (inv *invocation) add(row backend.AskedRow, result Result, err error) {
	inv.rejectInvalid(err)
	earlier := inv.Rows[:min(len(inv.Rows), call.MaxRows)] // a call with more rows is wrong already
	if slices.ContainsFunc(earlier, func(other backend.AskedRow) bool { return other.Key == row.Key }) {
		inv.rejectInvalid(fmt.Errorf(
			"limiter: key %q is named twice in this call: ask once, for all of its tokens", result.Key))
	}
	inv.Rows, inv.results = append(inv.Rows, row), append(inv.results, result)
}

// rejectInvalid makes the call wrong if reason is not nil. The first reason counts.
func (inv *invocation) rejectInvalid(reason error) {
	if inv.rejected == nil && reason != nil {
		inv.rejected = backend.Invalid(reason)
	}
}

// decide sends a call, fills in its results, and calls the hooks with each of them. It is the one
// road to a decision: of every method, and of every call that renews, settles or gives back. Only
// the looks within package nodes, which decide nothing, do not take it.
func (l *Limiter) decide(ctx context.Context, inv *invocation) (reply backend.Reply, err error) {
	began := l.now()
	switch {
	case inv.rejected != nil:
		err = inv.rejected
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		reply, err = l.backend.Ask(ctx, &inv.Call)
	}
	inv.fill(&reply, err)
	l.callHooks(ctx, inv, &reply, err, l.now()-began)
	return reply, err
}

// sendRefund sends a call that gives back what nobody uses, and wakes callers that wait for the
// slots that it frees.
func (l *Limiter) sendRefund(ctx context.Context, c *backend.Call) (backend.Reply, error) {
	inv := l.invocationOf(c)
	reply, err := l.decide(ctx, inv)
	for i := range inv.results {
		if c.Rows[i].Kind == call.Slots && reply.IsDecided(i) && reply.Row(i).Held {
			result := &inv.results[i]
			l.lines.slotFreed(result.Key, c.Rows[i].HeldFor/time.Duration(result.Slots.Max))
		}
	}
	return reply, err
}

// invocationOf returns the call of a backend as a call of the Limiter.
func (l *Limiter) invocationOf(c *backend.Call) *invocation {
	inv := &invocation{Call: *c, results: make([]Result, len(c.Rows))}
	for i := range c.Rows {
		row, result := &c.Rows[i], &inv.results[i]
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
	return inv
}

// fill fills in the results of all rows.
func (inv *invocation) fill(reply *backend.Reply, err error) {
	for i := range inv.results {
		asked := &inv.results[i]
		result := Result{Key: asked.Key, Limit: asked.Limit, Slots: asked.Slots, Quantity: asked.Quantity}
		if reply.Has(i) && err == nil || reply.IsDecided(i) {
			inv.fillRow(i, reply, &result)
		}
		*asked = result // without a decision, it only repeats the arguments of the call
	}
}

// fillRow fills in the decision on a row.
func (inv *invocation) fillRow(index int, reply *backend.Reply, result *Result) {
	row := reply.Row(index)
	if row.Source == "" { // not asked, because another row refuses; its node may be down
		result.OK = row.Cause == nil
		return
	}
	result.Source, result.Remaining, result.Receipt = Source(row.Source), int(row.Remaining), row.Receipt
	result.ResetAfter = row.ResetAfter
	result.Allowed = inv.allowed(index, reply)
	result.OK = inv.isOK(result, reply, row)
	result.Overdrawn = inv.Accounts() && row.Limited && result.OK
	switch {
	case !row.Limited:
		if result.Quantity > 0 {
			result.Wait = row.Wait
		}
	case !result.OK || inv.Accounts():
		result.RetryAfter = row.Wait
		if row.Wait == time.Duration(decision.Never) {
			result.RetryAfter = NoRetry
		}
	}
}

// allowed returns how many tokens or slots of a row were taken or accounted for.
func (inv *invocation) allowed(index int, reply *backend.Reply) int {
	switch {
	case inv.Operation == call.Take:
		return int(reply.First.Taken)
	case inv.Operation == call.Reserve && !reply.Limited, inv.Accounts() && !reply.Refused:
		return inv.results[index].Quantity
	}
	return 0
}

// isOK reports whether a row does not limit the call. An overfull funnel limits neither a call that
// accounts for tokens nor a call for 0 tokens; a quota that has ended limits both. In a call of
// several requests, a row for 0 tokens is limited as any other row is.
func (inv *invocation) isOK(result *Result, reply *backend.Reply, row *backend.RowReply) bool {
	switch {
	case inv.Accounts():
		return !reply.Refused
	case result.Quantity == 0 && row.Wait >= 0 && inv.isSingle:
		return true
	case inv.Operation == call.Take:
		return result.Allowed > 0
	}
	return !row.Limited
}
