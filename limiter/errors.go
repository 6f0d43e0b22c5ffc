package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"funnel/limiter/internal/backend"
)

// The errors of a [Limiter], for errors.Is. Any other error is the cause of a context that is done.
var (
	// ErrInvalid means that the call is wrong, and that asking again is of no use: a limit, a
	// quantity or slots are out of range (an error of package gcra, slots or quota is inside), a
	// key is named twice, or a key holds something else. [OnFailure] does not apply.
	ErrInvalid = backend.ErrInvalid

	// ErrUnavailable means that Redis has not decided: it is down, does not answer in time, is
	// loading, has no memory left, or denies access. Methods to which [OnFailure] applies return it
	// only with [FailWithError].
	ErrUnavailable = backend.ErrUnavailable

	// ErrNotAsked means that Redis has not answered the last calls, so this one was not sent: after
	// three calls in a row without an answer, one call a second asks, until Redis answers again. It
	// is an ErrUnavailable, too. With [OnFailure] it is in [Event].Cause: count it, to see how many
	// calls were decided without asking.
	ErrNotAsked = backend.ErrNotAsked

	// ErrWaitTooLong means that the tokens would be due after the deadline of the context or after
	// [WithMaxWait], or that no slot came free within WithMaxWait. It is a
	// context.DeadlineExceeded, too. The error is a [WaitError], which says when to try again.
	ErrWaitTooLong error = waitTooLong{}

	// ErrNeverFits means that waiting cannot help: a quantity is above the capacity, or the quota
	// of [Until] has ended.
	ErrNeverFits = errors.New(
		"limiter: waiting cannot help: the quantity is larger than the capacity, or the quota has ended")

	// ErrTooManyWaiting means that as many callers of [Limiter.Acquire] wait already as
	// [WithMaxWaiting] allows.
	ErrTooManyWaiting = errors.New("limiter: too many callers wait")

	// ErrSlotLost is the cause of an [Acquisition.Context] with a slot that was lost, and the error
	// of [Acquisition.Release] for a slot that was lost before.
	ErrSlotLost = errors.New("limiter: the slot was lost: it was not renewed in time, and another holder may have it")
)

// A WaitError is an [ErrWaitTooLong] that says when to try again. If tokens would be due too late,
// it comes at once, so a loop has to sleep:
//
//	var late *limiter.WaitError
//	if errors.As(err, &late) {
//		time.Sleep(late.RetryAfter)
//	}
type WaitError struct {
	Key string // of the row with the longest wait, without the prefix of [WithPrefix]

	// RetryAfter is how long to wait before asking again, with the same max wait or deadline ahead:
	// until then the same call would get the same error, if nothing is given back. For a slot it is
	// a second.
	RetryAfter time.Duration

	text string
}

// Error says what the caller waited for, and for how long it can wait.
func (e *WaitError) Error() string {
	if e.text == "" { // another package has made it
		return fmt.Sprintf("%v: key %q: try again in %v", ErrWaitTooLong, e.Key, e.RetryAfter)
	}
	return e.text
}

// Unwrap returns [ErrWaitTooLong].
func (e *WaitError) Unwrap() error { return ErrWaitTooLong }

type waitTooLong struct{}

func (waitTooLong) Error() string { return "limiter: wait too long" }
func (waitTooLong) Unwrap() error { return context.DeadlineExceeded }
