package limiter

import (
	"context"
	"fmt"

	"funnel/internal/call"
)

// A Request is for tokens of a funnel or a quota, for [Limiter.AllowAll], [Limiter.WaitAll], [Limiter.TryAcquire] and
// [Limiter.PeekAll].
type Request struct {
	Key      string
	Limit    Limit
	Quantity int // tokens, at least 1; TryAcquire and PeekAll accept 0
}

// AllowAll decides 1 to 64 requests together: it takes the tokens from all funnels and quotas, or, if one of them
// limits the call, from none. The keys differ.
//
// Keys with one hash tag, and all keys on a single server, are decided atomically. In a cluster, keys may have several
// hash tags: AllowAll asks all nodes at once. If one of them limits the call or fails, it gives back by receipt what
// the others took, before it returns. No limit is exceeded, but other callers may be limited in the moment between. If
// the answer of a node is lost, its tokens stay taken. If a key has just limited such a call, its node is asked first,
// and if it limits the call again, the others are only peeked at. [OnFailure] decides for each node.
//
// A ring uses the first key's server and does not report that other keys belong elsewhere.
func (l *Limiter) AllowAll(ctx context.Context, requests ...Request) (Results, error) {
	q := newQuery(call.Reserve, len(requests))
	for _, request := range requests {
		if request.Quantity < 1 {
			q.reject(fmt.Errorf(
				"limiter: key %q: the quantity of a request must be at least 1, not %d: use Peek to take nothing",
				request.Key, request.Quantity))
		}
		q.addTokens(l, request.Key, request.Limit, request.Quantity)
	}
	_, err := l.decideTogether(ctx, q)
	return q.results, err
}

// A Row is what a call asks about under one key: a [Request] for tokens, or slots ([Slots.At]).
type Row interface {
	addTo(q *query, l *Limiter)
}

func (r Request) addTo(q *query, l *Limiter) { q.addTokens(l, r.Key, r.Limit, r.Quantity) }

// At returns the slots of a key as a row, for [Limiter.PeekAll].
func (s Slots) At(key string) Row { return slotsRow{key, s} }

type slotsRow struct {
	key   string
	slots Slots
}

func (r slotsRow) addTo(q *query, l *Limiter) { q.addSlots(l, r.key, r.slots, "peek") }

// PeekAll answers 1 to 64 rows as [Limiter.TryAcquire] would, and takes nothing. Each Result is what its row says
// alone, and tells its state as it is: how many tokens fit, or how many slots are free. The keys differ. In a cluster
// they may have several hash tags.
func (l *Limiter) PeekAll(ctx context.Context, rows ...Row) (Results, error) {
	q := newQuery(call.Peek, len(rows))
	for _, row := range rows {
		row.addTo(q, l)
	}
	_, err := l.decideTogether(ctx, q)
	return q.results, err
}
