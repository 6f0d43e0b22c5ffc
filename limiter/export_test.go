// What the tests see of the package beyond its exported names.

package limiter

import (
	"strings"
	"time"

	"funnel/internal/call"
	"funnel/internal/funnels"
)

var IsFault = isFault

// SetNow has a Limiter, with its funnels in this process, take the time from now.
func SetNow(l *Limiter, now func() time.Time) {
	l.now, l.local = now, funnels.New(now)
	if l.server != nil {
		l.server.now, l.server.start = now, now()
	}
}

// WithClock is a script that takes the server's time from two keys, before the others.
func WithClock(script string) string {
	return "local clock = {table.remove(KEYS, 1), table.remove(KEYS, 1)}\n" + strings.ReplaceAll(script, "redis.call('TIME')", "clock")
}

var TakeScript = takeText

type TakeCall struct{ query *query }

// NewTakeCall returns nil for a call that is wrong, or that take.lua cannot decide.
func NewTakeCall(operation call.Operation, limit Limit, quantity int, maxWait int64) *TakeCall {
	l := &Limiter{}
	q := l.newQuery(operation, Request{"", limit, quantity}).waitUpTo(time.Duration(maxWait))
	if q.invalid != nil || !q.fitsTakeScript() {
		return nil
	}
	return &TakeCall{q}
}

// Words are those behind the keys.
func (c *TakeCall) Words() []any { return c.query.takeScriptArgs()[4:] }

// Read returns the decision on the funnel with its receipt and the tokens taken, or decided false
// if the complete script has to decide.
func (c *TakeCall) Read(reply any) (decision call.Decision, receipt, taken int64, decided bool, err error) {
	a, decided, err := c.query.readTakeScript(reply)
	if decided {
		decision, receipt, taken = a.first.Decision, a.first.receipt, a.first.taken
	}
	return decision, receipt, taken, decided, err
}
