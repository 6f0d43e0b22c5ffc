// Package backend defines what decides a call: a [Call] of one or more rows goes in, and a [Reply] with a row for
// each of them comes out. Redis is a backend, and so are the rows in this process, a policy and a guard. A backend
// may stand in front of another one, and pass calls on or answer them itself.
package backend

import (
	"context"
	"errors"
)

// A Backend decides calls. All methods may be called from any number of goroutines.
type Backend interface {
	// Ask decides a call, which does not change while it is asked. An error is one of [ErrInvalid] or
	// [ErrUnavailable], or the cause of ctx.
	Ask(ctx context.Context, c *Call) (Reply, error)
}

var (
	// ErrInvalid is in the error of a call that is wrong: asking again is of no use.
	ErrInvalid = errors.New("limiter: the call is not valid")

	// ErrUnavailable is in the error of a call that Redis has not decided.
	ErrUnavailable = errors.New("limiter: Redis has not decided")
)

// Invalid returns err as an [ErrInvalid] with the same text.
func Invalid(err error) error { return Classify(ErrInvalid, err) }

// Unavailable returns err as an [ErrUnavailable] with the same text.
func Unavailable(err error) error { return Classify(ErrUnavailable, err) }

// Classify returns an error with the text of err that is both class and err.
func Classify(class, err error) error { return &classified{class, err} }

type classified struct{ class, err error }

func (e *classified) Error() string        { return e.err.Error() }
func (e *classified) Unwrap() error        { return e.err }
func (e *classified) Is(target error) bool { return target == e.class }
