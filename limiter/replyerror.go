package limiter

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// faultWords are the first words of the errors that the module and the complete script reply to a
// call that is wrong: the argument, the key, the row, or the number of arguments.
var faultWords = []string{"capacity", "count", "period", "quantity", "max_wait", "tat", "limit", "ttl", "holder",
	"the", "row", "wrong"}

// isFault reports whether the call itself is wrong, and any server would reply an error. The code
// of an error reply is its first word. Whatever else a server replies is a failure, to which
// [OnFailure] applies: what a script raises, and what proxies and servers that are out of
// connections say, has the code ERR, too.
func isFault(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, text, _ := strings.Cut(reply.Error(), " ")
	first, _, _ := strings.Cut(text, " ")
	return code == "WRONGTYPE" || code == "CROSSSLOT" || code == "ERR" && slices.Contains(faultWords, first)
}

// errUnreadable is the error of a reply that is not one of ours.
var errUnreadable = errors.New("the server replied")

// isReply reports whether an error is a reply of the server, or says that one is not readable.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) || errors.Is(err, errUnreadable)
}

// isMissing reports whether the server does not know the command. It says that in words only,
// which are the same in all servers.
func isMissing(err error) bool { return err != nil && redis.HasErrorPrefix(err, "unknown command") }

// isCommandDenied reports whether the user may not call the command. A key that the user may not
// access says nothing of the command: for that, too, servers have words only.
func isCommandDenied(err error) bool {
	return redis.IsPermissionError(err) && strings.Contains(err.Error(), "permissions to run")
}
