package limiter

import (
	"context"
	"fmt"

	"funnel/internal/call"
	"funnel/internal/isnil"
)

// A Request asks for tokens of a funnel or a quota, in calls of several rows: [Limiter.AllowAll],
// [Limiter.WaitAll], [Limiter.TryAcquire], [Limiter.Acquire] and [Limiter.PeekAll].
type Request struct {
	Key      string
	Limit    Limit
	Quantity int // tokens, at least 1; TryAcquire, Acquire and PeekAll accept 0
}

// AllowAll decides 1 to 64 requests together: it takes the tokens from all funnels and quotas, or,
// if one of them limits the call, from none. Each key must differ from the others.
//
// A single server decides all requests atomically, and so does a cluster if all keys have one hash
// tag. In a cluster or a ring, keys may have several hash tags: AllowAll sends a command for each,
// all at once. If one node limits the call or fails, AllowAll gives back the tokens that the other
// nodes took, by their receipts, before it returns. Other callers may be limited in the moment
// between, and rarely a few tokens too many are allowed: docs/commands.md, "The bound with
// refunds". If the answer of a node is lost, its tokens stay taken. [OnFailure] decides for each
// node.
//
// If one node limited the call although another allowed it, AllowAll asks once more, one node after
// the other. The first time that a key limits a call over several nodes, RetryAfter is at most a
// second, because another caller may hold the tokens for a moment. A key that has just limited such
// a call is asked first, and its wait is told as it is.
func (l *Limiter) AllowAll(ctx context.Context, requests ...Request) (Results, error) {
	inv := newInvocation(call.Reserve, len(requests))
	for _, request := range requests {
		if request.Quantity < 1 {
			inv.rejectInvalid(fmt.Errorf(
				"limiter: key %q: the quantity of a request must be at least 1, not %d: use Peek to take nothing",
				request.Key, request.Quantity))
		}
		inv.addTokens(l, request.Key, request.Limit, request.Quantity)
	}
	_, err := l.decide(ctx, inv)
	return inv.results, err
}

// ChargeAll charges 1 to 64 requests as [Limiter.Charge] does, whether or not they fit. Each key
// must differ from the others, and a quantity may be 0. One command charges all keys with one hash
// tag; in a cluster or a ring, keys may have several.
//
// If a node fails, what the others charged stays charged. The error then names the keys that were
// not charged, and their Results are zero but for the request. If go-redis repeats a command after
// a lost answer, its keys may be charged twice.
func (l *Limiter) ChargeAll(ctx context.Context, requests ...Request) (Results, error) {
	inv := newInvocation(call.Charge, len(requests))
	for _, request := range requests {
		inv.addTokens(l, request.Key, request.Limit, request.Quantity)
	}
	_, err := l.decide(ctx, inv)
	return inv.results, err
}

// A Row is one row of a call of several rows, for [Limiter.TryAcquire], [Limiter.Acquire] and
// [Limiter.PeekAll]: a [Request] for tokens, or the slots of a key ([Slots.At]).
type Row interface {
	addTo(inv *invocation, l *Limiter, holder string)
}

func (r Request) addTo(inv *invocation, l *Limiter, _ string) {
	inv.addTokens(l, r.Key, r.Limit, r.Quantity)
}

// addRows adds rows of any kind. The holder is for slots.
func (inv *invocation) addRows(l *Limiter, rows []Row, holder string) {
	for i, row := range rows {
		if isnil.Is(row) {
			inv.rejectInvalid(fmt.Errorf("limiter: row %d is nil: a row is a Request, or Slots at a key", i+1))
			continue
		}
		row.addTo(inv, l, holder)
	}
}

// At returns the slots of a key as a row.
func (s Slots) At(key string) Row { return slotsRow{key, s} }

type slotsRow struct {
	key   string
	slots Slots
}

func (r slotsRow) addTo(inv *invocation, l *Limiter, holder string) {
	inv.addSlots(l, r.key, r.slots, holder)
}

// PeekAll decides 1 to 64 rows as [Limiter.TryAcquire] would, and takes nothing. Each Result
// concerns its row alone and tells the state as it is: how many tokens fit, or how many slots are
// free. Each key must differ from the others. In a cluster they may have several hash tags.
//
// A request for 0 tokens shows the state: an overfull funnel limits it, a quota never does. By how
// much a quota is overdrawn, you learn from a request with a larger limit: Remaining counts down
// from that.
//
// If Redis does not decide, Result.Source says so: with [FailLocal] the numbers describe this
// process alone, and with [FailOpen] they say that nothing is used. An admin page must show the
// Source beside the numbers.
func (l *Limiter) PeekAll(ctx context.Context, rows ...Row) (Results, error) {
	inv := newInvocation(call.Peek, len(rows))
	inv.addRows(l, rows, "peek")
	_, err := l.decide(ctx, inv)
	return inv.results, err
}
