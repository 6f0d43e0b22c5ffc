package bench

import (
	"context"
	"math/rand/v2"
	"time"
)

// A workload is the calls of one alternative that a load is mixed of.
type workload struct {
	alternative Alternative
	roomy       *call
	narrow      *call   // nil where nothing is limited
	fill        *call   // what makes a key; the outcome does not matter
	fillNarrow  *call   // likewise
	share       float64 // of narrow calls, 0 to 1
}

// newWorkload prepares a load of which a share of the calls is limited.
func newWorkload(alternative Alternative, share float64) workload {
	w := workload{alternative: alternative, share: share}
	expected := Allowed
	if !alternative.Limits {
		expected, w.share = Plain, 0
	}
	w.roomy = encode(alternative.Operation(Roomy, 1), roomyPrefix, expected)
	w.fill = encode(w.roomy.operation, roomyPrefix, Plain)
	if alternative.Name == "get" {
		w.fill = encode(plain("SET", "{key}", exampleTAT, "PX", "86400000")(Roomy, 1), roomyPrefix, Plain)
	}
	if w.share > 0 {
		operation := alternative.Operation(Narrow, 1)
		w.narrow = encode(operation, narrowPrefix, Limited)
		w.fillNarrow = encode(operation, narrowPrefix, Plain)
	}
	return w
}

// newPeek prepares a load of calls that look without taking.
func newPeek(alternative Alternative) workload {
	w := newWorkload(alternative, 0)
	w.roomy = encode(alternative.Operation(Roomy, 0), roomyPrefix, Allowed)
	return w
}

// fillCalls is how often each key is called before the measuring begins: redis-cell
// lets two calls through where we let one, and the third is surely limited.
const fillCalls = 3

// A player sends a workload over one connection.
type player struct {
	connection *connection
	random     *rand.Rand
	unique     int64
	buffer     []byte
	sent       []*call
	replies    []int64
}

// newPlayer connects. Players of one load differ in their number, which also
// seeds the choice of keys.
func newPlayer(ctx context.Context, address string, number int) (*player, error) {
	connection, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return &player{
		connection: connection,
		random:     rand.New(rand.NewPCG(7, uint64(number))),
		unique:     int64(number) * 1e8,
	}, nil
}

func (p *player) close() { p.connection.close() }

func (p *player) add(call *call, key, now int64) {
	p.unique++
	p.buffer = call.appendTo(p.buffer, key, p.unique, now)
	p.sent = append(p.sent, call)
}

// flush sends what was added, in one write, and reads the replies.
func (p *player) flush() error {
	if err := p.connection.send(p.buffer); err != nil {
		return err
	}
	for _, call := range p.sent {
		var err error
		if p.replies, err = p.connection.receiveReplies(&call.operation, p.replies[:0]); err != nil {
			return err
		}
		if err := call.check(p.replies); err != nil {
			return err
		}
	}
	p.buffer, p.sent = p.buffer[:0], p.sent[:0]
	return nil
}

// batch plays calls on random keys out of keys.
func (p *player) batch(w *workload, calls int, keys int64) error {
	now := time.Now().UnixMilli()
	for range calls {
		call := w.roomy
		if w.share > 0 && (w.share >= 1 || p.random.Float64() < w.share) {
			call = w.narrow
		}
		p.add(call, p.random.Int64N(keys), now)
	}
	return p.flush()
}

// fill calls every key so often that what follows meets a steady state.
func (p *player) fill(w *workload, keys int64) error {
	for range fillCalls {
		if w.share < 1 {
			if err := p.each(w.fill, keys); err != nil {
				return err
			}
		}
		if w.share > 0 {
			if err := p.each(w.fillNarrow, keys); err != nil {
				return err
			}
		}
	}
	return nil
}

// each makes a call on every key, once.
func (p *player) each(call *call, keys int64) error {
	const batch = 128
	for key := int64(0); key < keys; {
		now := time.Now().UnixMilli()
		for ; key < keys && len(p.sent) < batch; key++ {
			p.add(call, key, now)
		}
		if err := p.flush(); err != nil {
			return err
		}
	}
	return nil
}
