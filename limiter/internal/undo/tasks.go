package undo

import (
	"context"
	"sync"
)

// Tasks are what goes on in the background. Each has a number, in the order in which they began. A
// task that follows from another one, such as the refund that follows from a call, has the same
// number. So a caller who waits for all tasks up to a number waits for everything that follows from
// them, and not for tasks that began later.
type tasks struct {
	mutex sync.Mutex
	last  uint64
	open  map[uint64]int // how many tasks with that number have not ended
	ended chan struct{}  // is closed when a task ends; nil if nobody waits
}

// A task has begun. Its goroutine ends it, once.
type task struct {
	of     *tasks
	number uint64
}

// begin begins a task. Tasks that begin with the context that it returns follow from this one.
func (t *tasks) begin(ctx context.Context) (context.Context, task) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	begun, follows := ctx.Value(taskKey{}).(task)
	if !follows || begun.of != t {
		t.last++
		begun = task{t, t.last}
		ctx = context.WithValue(ctx, taskKey{}, begun)
	}
	if t.open == nil {
		t.open = map[uint64]int{}
	}
	t.open[begun.number]++
	return ctx, begun
}

// taskKey is the key of the task in the context that begin has returned.
type taskKey struct{}

func (k task) end() {
	t := k.of
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.open[k.number]--
	if t.open[k.number] == 0 {
		delete(t.open, k.number)
	}
	if t.ended != nil {
		close(t.ended)
		t.ended = nil
	}
}

// wait waits until all tasks that have begun are over, or ctx is done. It returns the numbers that
// are still open.
func (t *tasks) wait(ctx context.Context) (left map[uint64]bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	last := t.last
	for {
		left = t.upTo(last)
		if len(left) == 0 || ctx.Err() != nil {
			return left
		}
		if t.ended == nil {
			t.ended = make(chan struct{})
		}
		ended := t.ended
		t.mutex.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		t.mutex.Lock()
	}
}

// upTo returns the numbers of the tasks that have not ended, up to the number last.
func (t *tasks) upTo(last uint64) map[uint64]bool {
	numbers := map[uint64]bool{}
	for number := range t.open {
		if number <= last {
			numbers[number] = true
		}
	}
	return numbers
}
