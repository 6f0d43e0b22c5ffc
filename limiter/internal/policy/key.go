package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"funnel/limiter"
)

// LimitKey returns the key under which a policy of that name counts the calls of a key, without the
// prefix of the Limiter: "{NAME:KEY}:KIND".
//
// The kind keeps a rate and a quota apart: neither can be counted under the key of the other, and a
// customer may change from one to the other, even while programs of two versions run.
func LimitKey(name, key string, limit limiter.Limit) string {
	return WithKind(tagged(name, key), limit.Kind())
}

// SlotsKey returns the key of the slots of a policy. In a cluster it is on the node of the policy's
// [LimitKey], since both have one hash tag.
func SlotsKey(name, key string) string { return WithKind(tagged(name, key), "slots") }

func tagged(name, key string) string { return escapeName.Replace(name) + ":" + key }

// WithKind puts a kind behind a key. All kinds of a key have one hash tag: the one in the key, or
// else the whole key.
func WithKind(key, kind string) string {
	if hasTag(key) {
		return key + ":" + kind
	}
	return "{" + key + "}:" + kind
}

// hasTag reports whether a cluster reads a hash tag in the key: text between the first opening
// brace and the next closing brace.
func hasTag(key string) bool {
	_, behind, found := strings.Cut(key, "{")
	return found && strings.Index(behind, "}") > 0
}

// escapeName keeps the names of policies apart from keys, and free of hash tags.
var escapeName = strings.NewReplacer(`\`, `\\`, `:`, `\:`, `{`, `\<`, `}`, `\>`)

// Secret returns the key of a caller from a value that may be secret, such as an API key in a
// header of that name.
func Secret(name, value string) string {
	key := strings.ToLower(name) + ":"
	if value != "" {
		key += digest(value)
	}
	return key
}

// Path returns the key of a path. A path longer than 64 bytes is hashed.
func Path(path string) string {
	if len(path) > maxPath {
		return digest(path)
	}
	return Escape(path)
}

const maxPath = 64

// Escape replaces braces, which mark the hash tag of a key in a cluster. Otherwise all routes with
// {id} would be in one hash slot, and a client could choose the hash slot of its keys.
func Escape(text string) string { return braces.Replace(text) }

// Join makes one key of several keys. Different lists of keys never make the same key.
func Join(keys []string) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = separator.Replace(key)
	}
	return strings.Join(parts, "|")
}

var (
	braces    = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	separator = strings.NewReplacer("%", "%25", "|", "%7C")
)

// digest returns a hash of a value: it bounds the length of keys, and keeps secrets out of MONITOR,
// SLOWLOG and backups.
func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}
