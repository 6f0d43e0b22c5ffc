// Package backend defines the backends that decide calls. A backend gets a [Call] of one or more
// rows, and returns a [Reply] with a decision on each row. Redis is a backend, and so are the rows
// in this process. Nodes, a Fallback and a Guard are backends, too: they stand in front of another
// one, and split calls, answer them or pass them on.
package backend

import (
	"context"
	"errors"
)

// A Backend decides calls. All methods may be called from any number of goroutines.
type Backend interface {
	// Ask decides a call. An error is an [ErrInvalid], an [ErrUnavailable], or the cause of ctx.
	//
	// Nobody may change the call, not even after Ask has returned: if the answer comes later, what
	// the call took is given back.
	Ask(ctx context.Context, c *Call) (Reply, error)

	// Reset deletes a key, whatever it holds. It returns the same errors as Ask.
	Reset(ctx context.Context, key string) error
}

var (
	// ErrInvalid is in the error of a call that is wrong: asking again is of no use.
	ErrInvalid = errors.New("limiter: the call is not valid")

	// ErrCrossSlot is in the error of a call whose keys are on several nodes of a cluster. It is an
	// ErrInvalid, too.
	ErrCrossSlot = errors.New("limiter: the keys are on several nodes")

	// ErrNotSent is in the error of a call that was certainly not sent, so it is executed neither
	// now nor later. Any other call without an answer may be.
	ErrNotSent = errors.New("limiter: the call was not sent")

	// ErrInProcess is in the error of a call that has failed in this process: no connection was
	// free, a queue was full, the client is closed. It says nothing about Redis.
	ErrInProcess = errors.New("limiter: the call failed in this process")

	// ErrNotAsked is in the error of a call that an open breaker has kept away from Redis. It is an
	// ErrUnavailable, too.
	ErrNotAsked = errors.New("limiter: Redis is not asked")

	// ErrUnavailable is in the error of a call that Redis has not decided.
	ErrUnavailable = errors.New("limiter: Redis has not decided")
)

// Invalid returns an [ErrInvalid] with the text of err.
func Invalid(err error) error { return Classify(ErrInvalid, err) }

// Unavailable returns an [ErrUnavailable] with the text of err.
func Unavailable(err error) error { return Classify(ErrUnavailable, err) }

// NotSentHere returns an error with the text of err that is both an [ErrNotSent] and an
// [ErrInProcess]: this process has not sent the call.
func NotSentHere(err error) error { return Classify(ErrNotSent, Classify(ErrInProcess, err)) }

// Classify returns an error with the text of err that is both class and err.
func Classify(class, err error) error { return &classified{class, err} }

type classified struct{ class, err error }

func (e *classified) Error() string        { return e.err.Error() }
func (e *classified) Unwrap() error        { return e.err }
func (e *classified) Is(target error) bool { return target == e.class }
