// Package textbook has the three rate limiters that books on Redis teach, with the bugs of the
// books fixed: a funnel in the process ([Local]), a funnel on a hash ([Hash]) and a sliding
// window on a sorted set ([Window]). Each is a page long, to be read.
//
//	replies, err := textbook.NewHash(rdb, 15, 0.5) // 15 at once, then one every 2 seconds
//	...
//	allowed, err := replies.Allow(ctx, textbook.Key("42", "reply"))
//
// # The ideas
//
// A funnel holds water. Each allowed call pours one token in, and water leaks out at a constant
// rate. A call whose token does not fit is limited. Two numbers are stored, whatever the limit:
// the water and the time at which it was measured.
//
// A sliding window remembers the time of each allowed call, and forgets it after the period. A
// call is limited where the period already has its maximum.
//
// # Which to use
//
// In production, use the commands of the module, or package limiter, which works with and
// without the module. Both say how long to wait, take several tokens at once, and decide on
// several funnels in one call. The commands cost the server a fraction of a script. Package limiter
// also decides what happens while Redis is down. Package gcra explains their arithmetic: it stores
// one whole number where the funnel here has two, and adds up no rounding errors.
//
// Of the three here:
//
//   - Local, for one process without a server.
//   - Hash, if other programs share such hashes, or people read them with HGETALL.
//   - Window, for "at most 5 in any minute". A funnel of 5 tokens that leaks 5 a minute allows
//     10 in its first minute: 5 at once, and 5 as they leak. Window also shows when the calls
//     came, with ZRANGE. It stores each of them, so use it for small numbers.
//
// # What all three promise
//
// A key has the limit of its limiter. Keys do not affect each other. Keys that are not used are
// removed. A limited call stores nothing: a caller who keeps calling waits no longer than one
// who sleeps. A clock that is set back allows no additional call. All methods may be called from
// any number of goroutines.
//
// Hash and Window decide in a script, which the server runs as one atomic step, by the server's
// clock. A call is one round trip, or two when the server does not know the script yet. The key
// is used in Redis as it is: DEL resets it. A call that fails on its way may still have taken its
// token. go-redis sends a call again after a network error, which may take two.
package textbook

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Key joins a user and an action to a key: "user:action", with any "%" and ":" in the user
// written as "%25" and "%3A". The books format "%s:%s", by which the user "a:b" doing "c" shares
// a key with the user "a" doing "b:c". Here the first colon ends the user, and no two pairs share
// a key.
func Key(user, action string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A").Replace(user) + ":" + action
}

// checkFunnel returns an error for a funnel that would allow no call, or every call.
func checkFunnel(capacity int, leakingRate float64) error {
	if capacity < 1 || capacity > 1e6 {
		return fmt.Errorf("textbook: capacity must be from 1 to 1e6 tokens, not %d", capacity)
	}
	// In this form NaN, which compares with nothing, is an error too.
	if !(leakingRate >= 1e-9 && leakingRate <= 1e6) {
		return fmt.Errorf("textbook: leaking rate must be from 1e-9 to 1e6 tokens per second, not %v", leakingRate)
	}
	return nil
}

// run runs a script that replies 1 for an allowed call, and 0 for a limited one. The time of now
// is its last argument, unless now is nil.
func run(ctx context.Context, rdb redis.Scripter, script *redis.Script, key string, now func() time.Time,
	arguments ...any) (bool, error) {
	if now != nil {
		arguments = append(arguments, now().UnixMicro())
	}
	allowed, err := script.Run(ctx, rdb, []string{key}, arguments...).Bool()
	if err != nil {
		return false, fmt.Errorf("textbook: %w", err)
	}
	return allowed, nil
}
