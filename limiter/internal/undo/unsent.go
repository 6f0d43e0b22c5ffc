package undo

import (
	"errors"
	"time"

	"funnel/limiter/internal/backend"
	"funnel/limiter/internal/redis"
)

// lastPause is the longest pause before a call is sent again. Pauses begin with 100 ms, and double,
// so a call is sent 10 times within 51 s. A process that lacks connections for that long lacks them
// for good, and by then the tokens of most funnels have leaked anyway.
const lastPause = 26 * time.Second

// SendAgain repeats a call that returned err, for as long as this process could not send it: no
// connection was free, a queue was full, or the breaker was open. Nothing was taken or given back
// by then, so a call that must be sent once at most, such as a refund of tokens, may be repeated.
// SendAgain returns the error of the last call. It does not repeat a call of a client that is
// closed, which is final.
func SendAgain(err error, send func() error) error {
	for pause := minRetry; isUnsent(err) && pause <= lastPause; pause *= 2 {
		time.Sleep(pause)
		err = send()
	}
	return err
}

// isUnsent reports whether a call was not sent, but may be sent later.
func isUnsent(err error) bool {
	isNotSent := errors.Is(err, backend.ErrNotSent) || errors.Is(err, backend.ErrNotAsked)
	return isNotSent && !errors.Is(err, redis.ErrClosed)
}
