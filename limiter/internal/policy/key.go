package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Secret is the key of a caller by a value that may be secret, such as an API key that it sends
// in a header of that name.
func Secret(name, value string) string {
	key := strings.ToLower(name) + ":"
	if value != "" {
		key += digest(value)
	}
	return key
}

// Path is the key of a path: hashed when it is longer than 64 bytes.
func Path(path string) string {
	if len(path) > maxPath {
		return digest(path)
	}
	return Escape(path)
}

const maxPath = 64

// Escape replaces braces: in a cluster they mark the part of a key that decides on its slot, and
// all routes with {id} would be in one hash slot, or in a slot that a client chooses.
func Escape(text string) string { return braces.Replace(text) }

// Join is one key of several. Different lists of keys are different keys.
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

// digest bounds the length of a value, and keeps secrets out of MONITOR, SLOWLOG and backups.
func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}
