package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
)

// maxEntries is how many bytes the entries of a descriptor may take in a key. Longer entries are
// hashed, because callers choose their values, and Redis keeps each key in memory.
const maxEntries = 400

// keyOf returns the key of a descriptor: domain:key=value,key=value:20/MINUTE, and for a quota
// domain:key=value:20/MONTH/Europe/Berlin. Names and values are escaped as in a URL. No key has a
// hash tag, so the nodes of a cluster share the descriptors of a domain. The limit is in the key,
// because a key keeps one limit, and so is the kind, because funnel and quota refuse each other's
// keys.
func (b *Backend) keyOf(domain string, descriptor *common.RateLimitDescriptor, limit *config.RateLimit) string {
	key := append(make([]byte, 0, 128), url.QueryEscape(domain)...)
	key = append(key, ':')
	begin := len(key)
	for i, entry := range descriptor.Entries {
		value := entry.Value
		if i < len(limit.ShareThresholdKeyPattern) && limit.ShareThresholdKeyPattern[i] != "" {
			value = limit.ShareThresholdKeyPattern[i]
		}
		if i > 0 {
			key = append(key, ',')
		}
		key = append(key, url.QueryEscape(entry.Key)...)
		key = append(key, '=')
		key = append(key, url.QueryEscape(value)...)
	}
	if len(key)-begin > maxEntries {
		hash := sha256.Sum256(key[begin:])
		key = hex.AppendEncode(key[:begin], hash[:])
	}
	key = append(key, ':')
	key = strconv.AppendUint(key, uint64(limit.Limit.RequestsPerUnit), 10)
	key = append(key, '/')
	key = append(key, limit.Limit.Unit.String()...)
	if b.quotas.has(limit.Limit.Unit) {
		key = append(key, '/')
		key = append(key, b.quotas.zone.String()...)
	}
	return string(key)
}
