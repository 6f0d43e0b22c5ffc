package limiter

import (
	"strings"
	"time"

	"funnel/gcra"
	"funnel/internal/funnels"
)

// IsFault is isFault.
var IsFault = isFault

// SetNow has a Limiter, with its funnels in this process, take the time from now.
func SetNow(l *Limiter, now func() time.Time) {
	l.now, l.failure.now = now, now
	if l.server != nil {
		l.server.now = now
	}
	l.prefilter.funnels, l.failure.local = funnels.New(now), funnels.New(now)
}

// WithClock is a script that takes the server's time from two keys, before the others.
func WithClock(script string) string {
	return "local clock = {table.remove(KEYS, 1), table.remove(KEYS, 1)}\n" + strings.ReplaceAll(script, "redis.call('TIME')", "clock")
}

// TakeScript is take.lua.
var TakeScript = takeText

// A TakeCall is a call by take.lua.
type TakeCall struct{ call call }

// NewTakeCall returns nil for a call that is wrong, or that take.lua cannot decide.
func NewTakeCall(operation gcra.Operation, limit Limit, quantity int, lastWord int64) *TakeCall {
	c := &TakeCall{call{operation: operation, funnels: []funnel{{limit: limit, quantity: quantity}}, parts: make([]gcra.Item, 1), lastWord: lastWord}}
	if c.call.check(&shapes{}) != nil || !c.call.fitsTake() {
		return nil
	}
	return c
}

// Words are those behind the keys.
func (c *TakeCall) Words() []any { return c.call.appendTake(nil)[1:] }

// Read returns the part of the funnel and its receipt, or again if the complete script has to
// decide. The TAT of the part is relative.
func (c *TakeCall) Read(reply any) (part gcra.Item, receipt int64, again, ok bool) {
	again, ok = c.call.readTake(reply)
	return c.call.parts[0], c.call.parts[0].Decision.TAT, again, ok
}

// Leases is how many leases a Limiter has, and for how many keys.
func Leases(l *Limiter) (leases, keys int) {
	l.leases.mutex.RLock()
	defer l.leases.mutex.RUnlock()
	for _, ofKey := range l.leases.byKey {
		leases += len(ofKey)
	}
	return leases, len(l.leases.byKey)
}
