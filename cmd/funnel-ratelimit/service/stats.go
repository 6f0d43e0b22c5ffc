package service

import (
	"sync"
	"sync/atomic"

	"github.com/envoyproxy/ratelimit/src/stats"
)

// A bounded Manager keeps statistics of up to 10,000 domains and descriptors, and counts all others
// together. Callers make up domains, overrides and values, and the reference never removes a
// counter: without a bound, statistics of 100,000 descriptors would take over 200 MB.
type bounded struct {
	stats.Manager
	known sync.Map
	count atomic.Int64
}

func (b *bounded) NewStats(of string) stats.RateLimitStats { return b.Manager.NewStats(b.name(of)) }
func (b *bounded) NewDomainStats(of string) stats.DomainStats {
	return b.Manager.NewDomainStats(b.name(of))
}

func (b *bounded) name(of string) string {
	_, known := b.known.Load(of)
	if !known && (len(of) > 1000 || b.count.Add(1) > 10_000) {
		return "other"
	}
	b.known.Store(of, nil)
	return of
}
