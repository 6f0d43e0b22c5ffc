// Package undo gives back what nobody uses: what one node took for a call that another node
// refused, what a call took after its caller had left, and slots whose holders have released them.
//
// A funnel gets its tokens back by the receipt of the reply, a quota by the end of the period in
// which the call was counted, and slots by the name of their holder. Refunds are sent like all
// other calls, but OnFailure does not apply to them.
//
// Tokens are given back once, because a second refund would give other callers' tokens back; if
// that answer is lost, they leak, or stay used until the period ends. Only a refund that this
// process could not send is repeated ([SendAgain]). A slot may be given back any number of times.
// So slots wait in a queue ([Undo.Lost], [Undo.GiveBack]) and are asked back until Redis has
// answered; and if the call that took them may still be executed, for one TTL longer.
package undo

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/calendar"
)

// An Undo gives back. Make one with [New]. All methods may be called from any number of goroutines.
type Undo struct {
	send   Send
	node   func(key string) string
	logger *slog.Logger
	tasks  tasks

	mutex  sync.Mutex
	queues map[string]*queue // by node; a queue that is empty is not kept
}

// Send sends a refund and calls the hooks. In a Limiter it also wakes callers that wait for slots.
type Send func(ctx context.Context, c *backend.Call) (backend.Reply, error)

// New returns an Undo that gives back by send. Node returns the node that has a key: a node that
// does not answer delays only the slots that it counts.
func New(send Send, node func(key string) string, logger *slog.Logger) *Undo {
	return &Undo{send: send, node: node, logger: logger, queues: map[string]*queue{}}
}

// Undo gives back what a call took, in the background. The channel receives a value once every
// refund has been answered or has failed. Do not touch the reply before: Undo clears its receipts,
// and updates what remains.
//
// The value is false if Redis has not decided the refund of a slot, which then waits in the queue.
// The holder must not take a slot again: the refund in the queue would end the new slot.
func (u *Undo) Undo(ctx context.Context, c *backend.Call, reply *backend.Reply) <-chan bool {
	decided := make(chan bool, 1)
	u.Go(ctx, func(ctx context.Context) { decided <- u.refundAll(ctx, c, reply) })
	return decided
}

func (u *Undo) refundAll(ctx context.Context, c *backend.Call, reply *backend.Reply) (decided bool) {
	var group sync.WaitGroup
	var undecided atomic.Bool
	refunds := refundsOf(c, reply)
	for i := range refunds {
		r := &refunds[i]
		group.Go(func() {
			after, err := u.GiveBack(ctx, &r.call)
			if r.call.EndsSlot() && !isDecided(err) {
				undecided.Store(true)
			}
			r.note(reply, &after)
		})
	}
	group.Wait()
	return !undecided.Load()
}

// A refund is a call that gives back what another call took.
type refund struct {
	call backend.Call
	rows []int // of the other call
}

// refundsOf returns the calls that give back what a call took: one for all of its slots, and one
// for each row of tokens, because a receipt is of one funnel.
func refundsOf(c *backend.Call, reply *backend.Reply) (refunds []refund) {
	if !c.MayBeUndone() || reply.Limited && c.Operation != call.Take {
		return nil
	}
	slots := newRefund()
	for i := range c.Rows {
		asked, row := c.Rows[i], reply.Row(i)
		isCounted := row.Source != "" && row.Source != backend.Open && row.Source != backend.Closed
		asked.IsLocal, asked.Shard = row.Source == backend.Local, row.Shard
		switch {
		case !isCounted:
		case asked.Kind == call.Slots:
			slots.call.Rows, slots.rows = append(slots.call.Rows, asked), append(slots.rows, i)
		case row.Receipt != 0:
			refunds = append(refunds, refundOfTokens(c, asked, row, i))
		}
	}
	if len(slots.rows) > 0 {
		refunds = append(refunds, slots)
	}
	return refunds
}

func newRefund() refund {
	return refund{call: backend.Call{Operation: call.Refund, Receipt: gcra.NoReceipt, Undoes: true}}
}

// refundOfTokens returns the call that gives the tokens of a row back.
func refundOfTokens(c *backend.Call, asked backend.AskedRow, row *backend.RowReply, index int) refund {
	r := newRefund()
	if c.Operation == call.Take {
		asked.Quantity = int(row.Taken)
	}
	if asked.Kind == call.Quota {
		asked.Quota.Calendar = calendar.Once(time.Unix(0, row.Receipt))
	} else {
		asked.Tokens, _ = asked.Words.Rate.Request(int64(asked.Quantity)) // fits: it was taken
		r.call.Receipt = row.Receipt
	}
	r.call.Rows, r.rows = []backend.AskedRow{asked}, []int{index}
	return r
}

// note writes into the reply to the other call what remains after the refund.
func (r *refund) note(reply, after *backend.Reply) {
	for i, index := range r.rows {
		row := reply.Row(index)
		row.Taken, row.Receipt = 0, 0
		if after.IsDecided(i) {
			row.Remaining, row.ResetAfter = after.Row(i).Remaining, after.Row(i).ResetAfter
		}
	}
}

// GiveBack sends a refund, even if ctx is done. Slots that Redis has not given back then wait in
// the queue, until Redis decides or their TTL is over. A refund of tokens goes on in the background
// if it was not sent.
func (u *Undo) GiveBack(ctx context.Context, refund *backend.Call) (backend.Reply, error) {
	ctx, t := u.tasks.begin(context.WithoutCancel(ctx))
	defer t.end()
	reply, err := u.send(ctx, refund)
	switch {
	case isDecided(err):
		return reply, err
	case !refund.EndsSlot():
		u.sendAgain(ctx, err, refund)
		return reply, err
	}
	for i, row := range refund.Rows {
		after := row.TTL / tries
		if isUnsent(err) { // Redis may be there
			after = min(after, minRetry)
		}
		if !reply.IsDecided(i) {
			u.enqueue(newEntry(ctx, row, true, time.Now().Add(after)))
		}
	}
	return reply, err
}

// sendAgain repeats a call in the background if this process could not send it: see [SendAgain].
func (u *Undo) sendAgain(ctx context.Context, err error, c *backend.Call) {
	if isUnsent(err) {
		u.Go(ctx, func(ctx context.Context) {
			_ = SendAgain(err, func() error { _, err := u.send(ctx, c); return err })
		})
	}
}

// Lost asks for the slots back that a call may have taken, because Redis has not decided the call.
// Ended says that an error reply came: then one refund that Redis decides is enough. Otherwise the
// call may still be executed, by a server that stood still, or because TCP sends it again.
func (u *Undo) Lost(ctx context.Context, c *backend.Call, ended bool) {
	if !c.MayBeUndone() {
		return
	}
	for _, row := range c.Rows {
		if row.Kind == call.Slots {
			u.enqueue(newEntry(context.WithoutCancel(ctx), row, ended, time.Now()))
		}
	}
}

// A Late is a call that is under way although its caller has left. Call exactly one of Decided,
// TookNothing, SendAgain and Lost.
type Late struct {
	undo *Undo
	ctx  context.Context
	call *backend.Call
	task task
}

// Leave registers a call whose caller is leaving; the Late ends it. [Undo.Drain] waits until then.
func (u *Undo) Leave(ctx context.Context, c *backend.Call) *Late {
	ctx, t := u.tasks.begin(context.WithoutCancel(ctx))
	return &Late{u, ctx, c, t}
}

// Decided gives back what the call took.
func (l *Late) Decided(reply *backend.Reply) {
	defer l.task.end()
	l.undo.refundAll(l.ctx, l.call, reply)
}

// TookNothing ends a call that was wrong, or never sent.
func (l *Late) TookNothing() { l.task.end() }

// SendAgain repeats a refund or a settlement that was not sent, for the reason err.
func (l *Late) SendAgain(err error) {
	defer l.task.end()
	l.undo.sendAgain(l.ctx, err, l.call)
}

// Lost asks the slots of the call back: see [Undo.Lost].
func (l *Late) Lost(ended bool) {
	defer l.task.end()
	l.undo.Lost(l.ctx, l.call, ended)
}

// Go runs f in the background, with a context that is never done. [Undo.Drain] waits for f, and for
// what begins with its context.
func (u *Undo) Go(ctx context.Context, f func(context.Context)) {
	ctx, t := u.tasks.begin(context.WithoutCancel(ctx))
	go func() {
		defer t.end()
		f(ctx)
	}()
}

// Drain waits until everything that is under way in the background has been answered once, or ctx
// is done. What begins meanwhile does not count. Left is how much is uncertain in the end: calls
// without an answer, and slots that are still asked back. The error is the cause of ctx if it is
// done.
func (u *Undo) Drain(ctx context.Context) (left int, err error) {
	unanswered := u.tasks.wait(ctx)
	if len(unanswered) > 0 {
		err = context.Cause(ctx)
	}
	left = u.uncertain(unanswered)
	return left + len(unanswered), err
}

// isDecided reports whether Redis has decided a call, or the call was wrong.
func isDecided(err error) bool { return !errors.Is(err, backend.ErrUnavailable) }
