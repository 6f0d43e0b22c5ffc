package redis

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter/internal/backend"
)

// badCallWords are the first words of the errors that the module and the complete script reply to a
// call that is wrong: the argument, the key, the row, or the number of arguments.
var badCallWords = []string{"capacity", "count", "period", "quantity", "max_wait", "tat", "limit", "ttl", "holder",
	"until", "the", "row", "wrong"}

// badCallCodes are the other codes of such errors.
var badCallCodes = []string{"WRONGTYPE", "CROSSSLOT", "ENDED"}

// classify names the keys in an error that the server has replied, and says whether the call is wrong. An error
// without a reply stays as it is.
func classify(c *backend.Call, err error) error {
	switch {
	case err == nil, !isReply(err):
		return err
	case isBadCall(err):
		return backend.Invalid(c.Wrap(err))
	}
	return backend.Unavailable(c.Wrap(err))
}

// isBadCall reports whether the call itself is wrong, and any server would reply an error. The code
// of an error reply is its first word. Everything else counts as a failure of Redis. The code alone
// cannot decide: script and proxy errors also begin with ERR.
func isBadCall(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, text, _ := strings.Cut(reply.Error(), " ")
	first, _, _ := strings.Cut(text, " ")
	return slices.Contains(badCallCodes, code) || code == "ERR" && slices.Contains(badCallWords, first)
}

// endedAt returns the server's clock from the error that a quota's period has ended.
func endedAt(err error) (at time.Time, ended bool) {
	if err == nil { // what follows allocates
		return time.Time{}, false
	}
	var reply redis.Error
	if !errors.As(err, &reply) || !strings.HasPrefix(reply.Error(), "ENDED ") {
		return time.Time{}, false
	}
	_, clock, _ := strings.Cut(reply.Error(), "and it is ")
	nanoseconds, ok := nanosecondsOf(clock)
	return time.Unix(0, nanoseconds), ok
}

// IsCrossSlot reports whether a node of a cluster has replied that the keys of a call are not all on one node.
func IsCrossSlot(err error) bool {
	return errors.Is(err, backend.ErrInvalid) && strings.Contains(err.Error(), ": CROSSSLOT ")
}

// IsAnswered reports whether the server has replied to a call with that error, or with none.
func IsAnswered(err error) bool { return err == nil || isReply(err) }

// errUnreadable is the error of a reply that is not one of ours.
var errUnreadable = errors.New("unexpected reply")

// isReply reports whether an error is a reply of the server, or says that one is not readable.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) || errors.Is(err, errUnreadable)
}

// isMissing reports whether the server does not know the command. It says that in words only,
// which are the same in all servers.
func isMissing(err error) bool { return err != nil && redis.HasErrorPrefix(err, "unknown command") }

// isCommandDenied reports whether the user may not call the command. A key that the user may not
// access says nothing about the command: for that, too, servers have words only.
func isCommandDenied(err error) bool {
	return redis.IsPermissionError(err) && strings.Contains(err.Error(), "permissions to run")
}
