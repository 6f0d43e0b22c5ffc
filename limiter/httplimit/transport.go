package httplimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"funnel/internal/idle"
	"funnel/internal/isnil"
	"funnel/limiter"
	"funnel/limiter/internal/wait"
)

// A Transport is an [http.RoundTripper] that keeps a fleet of processes within the limit of a
// service that they all call.
//
// The limit of the service is a funnel. A request reserves a token before it is sent, and sleeps
// until the reservation is due: requests are sent in the order of asking, over all processes. If
// the service answers 429 or 503 with Retry-After, the fleet backs off: no process sends a request
// of that key for that time, but at most for MaxBackOff, a minute by default. The response goes to
// the caller, and is never retried: a caller that sends the request again waits for its turn.
//
// The fleet backs off by a second funnel, of capacity 1, with the key "{KEY}:backoff". The first
// process that gets a Retry-After takes the only token, which leaks in the time of Retry-After.
// Other processes find the funnel full and change nothing: a hundred answers do not add up. If a
// process gets a longer time than the first one, only that process waits for it. A request peeks at
// this funnel before it reserves, and again when its reservation is due. If the fleet backs off by
// then, the request settles its reservation with 0 and starts over.
//
// A request costs three calls to Redis, and a fourth if the service answers with Retry-After.
// Limiter and Limit must be set, and no field may change after the first request. All methods may
// be called from any number of goroutines.
type Transport struct {
	// Limiter decides: a [limiter.Limiter] with [limiter.WithTimeout]. Without a time-out, requests
	// wait as long as Redis hangs. While Redis does not answer, requests get the error, are sent,
	// wait, or are limited by each process alone, as [limiter.OnFailure] says.
	Limiter Reserver

	// Limit is the limit for each key, which must not be a quota, nor a Window. A request takes one
	// token. For 100 an hour and a steady pace, AtMost(100, time.Hour, 1) is one limit: a request
	// each 36 seconds.
	Limit limiter.Limit

	// Key returns the key of a request: requests with the same key share the limit and the
	// back-off. Nil means [ByHost]. The keys in Redis are the prefix of the Limiter and
	// "{KEY}:rate", and the prefix and "{KEY}:backoff". Unlike the keys of [New], they have no name
	// in front.
	Key KeyFunc

	// Yield says that requests give way to other requests of the same key. They reserve nothing
	// ahead: if no token fits, they ask again after the wait, with jitter, and are served in no
	// order.
	//
	// For batch jobs beside interactive requests, give the batch jobs a Transport with Yield and,
	// if the capacity is above 1, a smaller one, and the interactive requests a Transport with the
	// whole capacity. The batch jobs then leave the rest of the capacity free, and interactive
	// requests do not queue behind them. Without Yield, a batch job reserves tokens that are not
	// there yet, and all later requests wait behind it, whatever their capacity. While interactive
	// requests use the whole rate, batch jobs get nothing.
	//
	// Requests that yield stand in no line: each of n that wait asks about once for each token. If
	// many wait, bound how many do so at a time.
	Yield bool

	// MaxWait bounds how long a request waits for its turn, as the deadline of its context does. A
	// request that would have to wait longer gets an error at once. At 0, the deadline alone bounds
	// the wait. MaxWait does not bound the wait for an answer of Redis: [limiter.WithTimeout] does.
	//
	// A request that is canceled while it sleeps leaves its reservation behind. If that happens
	// often, set MaxWait, or the reservations of canceled requests starve other requests.
	MaxWait time.Duration

	// MaxBackOff bounds the time of a Retry-After, so that a wrong answer does not stop the fleet.
	// 0 means one minute: set it if the service means what it says for longer. Below 0 there is no
	// back-off.
	MaxBackOff time.Duration

	// Base sends the requests; nil means [http.DefaultTransport].
	Base http.RoundTripper

	mutex   sync.Mutex
	retryAt idle.Map[string, time.Time] // when this process may send requests again, by key
}

// A Reserver reserves tokens for requests: a [limiter.Limiter], or a fake in tests.
type Reserver interface {
	Peek(ctx context.Context, key string, limit limiter.Limit) (limiter.Result, error)
	Reserve(ctx context.Context, key string, limit limiter.Limit, quantity int, maxWait time.Duration) (
		limiter.Result, error)
	Settle(ctx context.Context, result *limiter.Result, used int) (limiter.Result, error)
}

// RoundTrip sends the request when its turn has come. If the turn would come after the deadline or
// MaxWait, RoundTrip returns a [limiter.WaitError] at once. Other errors of a request that was not
// sent are errors of the Limiter, and the cause of the request's context.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	keyOf := t.Key
	if keyOf == nil {
		keyOf = ByHost()
	}
	key := keyOf(r)
	err := t.awaitTurn(r.Context(), key)
	if err != nil {
		if r.Body != nil {
			r.Body.Close() // as http.RoundTripper demands
		}
		return nil, err
	}
	response, err := t.base().RoundTrip(r)
	if err == nil {
		t.noteRetryAfter(r.Context(), key, response)
	}
	return response, err
}

// CloseIdleConnections closes the idle connections of Base, for [http.Client.CloseIdleConnections].
func (t *Transport) CloseIdleConnections() {
	base, can := t.base().(interface{ CloseIdleConnections() })
	if can {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// awaitTurn waits until a request of that key may be sent, and returns nil then.
func (t *Transport) awaitTurn(ctx context.Context, key string) error {
	if isnil.Is(t.Limiter) {
		return errors.New("httplimit: Transport.Limiter is nil: set it to a limiter.Limiter")
	}
	// The Limiter gets ctx: otherwise OnFailure would not apply if Redis hangs for longer than
	// MaxWait.
	within, cancel := ctx, context.CancelFunc(func() {})
	if t.MaxWait > 0 {
		within, cancel = context.WithTimeout(ctx, t.MaxWait)
	}
	defer cancel()
	for {
		rest, err := t.backOff(ctx, key)
		if err != nil {
			return err
		}
		err = sleep(within, key, rest)
		if err != nil {
			return err
		}
		left := wait.Left(within)
		maxWait := left
		if t.Yield {
			maxWait = 0
		}
		reserved, err := t.Limiter.Reserve(ctx, rateKey(key), t.Limit, 1, maxWait)
		if err != nil {
			return err
		}
		if reserved.Limited() {
			err = sleep(within, key, t.untilRetry(&reserved, maxWait, left))
			if err != nil {
				return err
			}
			continue
		}
		err = sleep(within, key, reserved.Wait)
		if err != nil {
			return err
		}
		rest, err = t.backOff(ctx, key)
		if err != nil || rest == 0 {
			return err
		}
		// After an error the token stays taken, and the limit holds.
		detach(ctx, func(ctx context.Context) { t.Limiter.Settle(ctx, &reserved, 0) })
	}
}

// untilRetry returns how long a limited request sleeps before it asks again. Left is how long the
// request can wait at all: jitter makes no request late that would be in time without it.
func (t *Transport) untilRetry(limited *limiter.Result, maxWait, left time.Duration) time.Duration {
	after := limited.RetryAfter
	switch {
	case t.Yield:
		return after + rand.N(min(after, maxJitter, max(left-after, 0))+1)
	case limited.Source == limiter.FromClosed: // there is no queue
		return after
	}
	return wait.Due(maxWait, after)
}

// maxJitter bounds the jitter of requests that yield. A second keeps them apart; after a long wait,
// more jitter would only waste tokens.
const maxJitter = time.Second

// sleep returns nil after d, or the cause of ctx if ctx is done earlier. If the deadline of ctx
// comes first, it returns a [limiter.WaitError] at once.
func sleep(ctx context.Context, key string, d time.Duration) error {
	maxWait := wait.Left(ctx)
	if d > maxWait {
		late := &limiter.WaitError{Key: rateKey(key), RetryAfter: d - maxWait}
		return fmt.Errorf("httplimit: key %q: the request would be sent after %v, and it waits for no more than %v: %w",
			key, d, maxWait, late)
	}
	return wait.Sleep(ctx, d)
}
