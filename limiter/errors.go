package limiter

import (
	"context"
	"errors"

	"funnel/limiter/internal/backend"
)

// The errors of a [Limiter], for errors.Is. An error that is none of these is the cause of a context that is done.
var (
	// ErrInvalid means that the call is wrong, and that asking again is of no use: a limit, a quantity or slots
	// out of range (an error of package gcra, slots or quota is inside), a key that is named twice, or a key that
	// holds something else. No [OnFailure] applies.
	ErrInvalid = backend.ErrInvalid

	// ErrUnavailable means that Redis has not decided: it is down, does not answer in time, is loading, has no
	// memory left, denies access. Methods to which [OnFailure] applies return it for [FailWithError] alone.
	ErrUnavailable = backend.ErrUnavailable

	// ErrWaitTooLong means that the tokens would be due after the deadline of the context or after
	// [WithMaxWait], or that no slot came free within WithMaxWait. It is a context.DeadlineExceeded, too.
	ErrWaitTooLong error = waitTooLong{}

	// ErrNeverFits means that a quantity is larger than the capacity, or that the quota of [Until] has ended: waiting
	// cannot help.
	ErrNeverFits = errors.New(
		"limiter: no waiting helps: the quantity is larger than the capacity, or the quota has ended")

	// ErrTooManyWaiting means that as many callers of [Limiter.Acquire] wait as [WithMaxWaiting] allows.
	ErrTooManyWaiting = errors.New("limiter: too many callers wait")

	// ErrSlotLost is the cause of a [Slot.Context] whose slot was lost, and the error of a [Slot.Release] that
	// finds it lost.
	ErrSlotLost = errors.New("limiter: the slot was lost: it was not renewed in time, and another holder may have it")
)

type waitTooLong struct{}

func (waitTooLong) Error() string { return "limiter: wait too long" }
func (waitTooLong) Unwrap() error { return context.DeadlineExceeded }
