package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Secret returns the key of a caller from a value that may be secret, such as an API key in a header of that name.
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

// Escape replaces braces, which mark the hash tag of a key in a cluster. Otherwise all routes with {id} would be in one
// hash slot, and a client could choose the hash slot of its keys.
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

// digest returns a hash of a value: it bounds the length of keys, and keeps secrets out of MONITOR, SLOWLOG and
// backups.
func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}
