package bench

import (
	"context"
	"time"
)

// A Caller makes single calls, on keys of the roomy load, and tells how each was
// answered. A load rather knows beforehand, and checks.
type Caller struct{ player *player }

// NewCaller connects to a server. The caller of it closes it.
func NewCaller(ctx context.Context, address string) (*Caller, error) {
	player, err := newPlayer(ctx, address, 0)
	if err != nil {
		return nil, err
	}
	return &Caller{player}, nil
}

// Close disconnects.
func (c *Caller) Close() { c.player.close() }

// Call makes one call on a key, which is 0 or more.
func (c *Caller) Call(operation Operation, key int64) (Outcome, error) {
	p := c.player
	p.unique++
	batch := encode(operation, roomyPrefix, Plain).appendTo(nil, key, p.unique, time.Now().UnixMilli())
	if err := p.connection.send(batch); err != nil {
		return Plain, err
	}
	replies, err := p.connection.receiveReplies(&operation, nil)
	if err != nil || operation.Outcome == nil {
		return Plain, err
	}
	return operation.Outcome(replies), nil
}
