package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter/internal/backend"
)

// badCallCodes are the codes of the errors that the module, the complete script and the server
// reply to a call that is wrong. The code of an error is its first word.
var badCallCodes = []string{"INVALID", "WRONGTYPE", "CROSSSLOT", "ENDED"}

// badArity is how one more such error begins. Its code alone tells nothing: servers, proxies and
// scripts use ERR for whatever goes wrong.
const badArity = "ERR wrong number of arguments"

// classify adds the keys of the call to an error that the server has replied, and makes it an error
// of package backend. An error without a reply stays as it is.
func classify(c *backend.Call, err error) error {
	switch {
	case err == nil, !isReply(err):
		return err
	case isCrossSlot(err):
		return backend.Classify(backend.ErrCrossSlot, backend.Invalid(c.Wrap(err)))
	case isBadCall(err):
		return backend.Invalid(c.Wrap(err))
	}
	return backend.Unavailable(c.Wrap(err))
}

// isBadCall reports whether the call itself is wrong, so that any server would reply an error.
// Every other error counts as a failure of Redis.
func isBadCall(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	return slices.Contains(badCallCodes, code) || strings.HasPrefix(reply.Error(), badArity)
}

// endedAt returns the server's clock from the error that a quota's period has ended.
func endedAt(err error) (at time.Time, ended bool) {
	if err == nil { // the rest allocates
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

// isCrossSlot reports whether a node of a cluster has replied that the keys of a call are not all
// on one node.
func isCrossSlot(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "CROSSSLOT ")
}

// IsAnswered reports whether err is nil or a reply of the server: then the server has answered the
// call.
func IsAnswered(err error) bool { return err == nil || isReply(err) }

// unanswered adds to the error of a call without an answer what is known about the call: whether it
// was certainly not sent, and whether the reason is in this process.
//
// A command that is written may be executed, even if go-redis has then waited in vain for a
// connection to repeat it. For AutoPipeline it is not known whether a command is written
// ([Server.notesWriting]); but a command that go-redis does not repeat is not, if there was no
// connection for it.
//
// A call that waits for a connection until the deadline of its context has found none free. If one
// is free, the call was making its own: that is for Redis to answer for.
func (s *Server) unanswered(key string, err error, isWritten, isRepeatable bool) error {
	switch {
	case errors.Is(err, redis.ErrClosed) && isWritten:
		return backend.Classify(backend.ErrInProcess, err)
	case isWritten:
		return err
	case errors.Is(err, redis.ErrClosed), errors.Is(err, redis.ErrAutoPipelineQueueFull):
		return backend.NotSentHere(err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		if !s.notesWriting && isRepeatable {
			return backend.Classify(backend.ErrInProcess, err)
		}
		return backend.NotSentHere(err)
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case s.AllInUse(key):
		size := s.clientOf(key).Options().PoolSize
		return backend.NotSentHere(fmt.Errorf("no connection was free in time, of %d in the pool: %w", size, err))
	case s.isGoRedis:
		return backend.Classify(backend.ErrNotSent, err)
	}
	return err
}

// AllInUse reports whether all connections to the server that has a key are in use, as far as the
// client tells.
func (s *Server) AllInUse(key string) bool {
	node := s.clientOf(key)
	if node == nil {
		return false
	}
	pool := node.PoolStats()
	return int(pool.TotalConns) >= node.Options().PoolSize && pool.IdleConns == 0
}

// ErrClosed is the error of a client that is closed. It is final.
var ErrClosed = redis.ErrClosed

// IsMisconfigured reports whether Redis refuses this program as a whole: its password is wrong, or
// its user may call neither the module's commands nor scripts, or not the commands in a script.
func IsMisconfigured(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	return code == "WRONGPASS" || code == "NOAUTH" || isCommandDenied(reply) || isDeniedInScript(reply.Error())
}

// isDeniedInScript reports whether a script may not call a command, in the words of Redis since 7.2
// and Valkey, or of older ones. The code is ERR.
func isDeniedInScript(text string) bool {
	return strings.HasPrefix(text, "ERR ACL failure in script: ") && strings.Contains(text, "permissions to run") ||
		strings.HasPrefix(text, "ERR The user executing the script can't run this command")
}

// errUnreadable is in the error of a reply that no command of ours makes.
var errUnreadable = errors.New("unexpected reply")

// isReply reports whether an error is an error reply of the server, or says that a reply is not
// readable.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) || errors.Is(err, errUnreadable)
}

// isMissing reports whether the server, or a proxy before it, does not know the command. There is
// no code for that: servers say "unknown command", proxies also "unsupported command" or "command
// not supported", and a service that imitates Redis "Command is not available".
func isMissing(err error) bool {
	if err == nil { // the rest allocates
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := strings.ToLower(reply.Error())
	return strings.Contains(text, "unknown command") || strings.Contains(text, "unsupported command") ||
		strings.Contains(text, "command not support") || strings.Contains(text, "command is not ") &&
		(strings.Contains(text, "supported") || strings.Contains(text, "available"))
}

// isCommandDenied reports whether the user may not call the command. The words tell this error from
// the error for a key that the user may not access: both have the same code.
func isCommandDenied(err error) bool {
	return redis.IsPermissionError(err) && strings.Contains(err.Error(), "permissions to run")
}
