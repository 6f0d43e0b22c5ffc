package limiter

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// faultWords are the first words of the errors that the module and the complete script reply to a
// call that is wrong: the argument, the key, the row, or the number of arguments.
var faultWords = []string{
	"capacity", "count", "period", "quantity", "limit", "ttl", "holder", "max_wait", "tat", "the", "key", "row", "wrong",
}

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

// isReply reports whether an error is a reply of the server.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
