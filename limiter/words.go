package limiter

import (
	"sync"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// wordsCache keeps the words of rates, which take 10 allocations to make. Programs have few limits.
type wordsCache struct {
	mutex sync.RWMutex
	known map[Limit]*backend.Words
}

// maxLimits bounds the memory if a program makes up new limits all the time: the words of 1,000
// limits take less than 1 MB. Beyond it, all are forgotten, and made again when they are needed.
const maxLimits = 1000

// fill fills in the limit of a row, or returns why the limit is not valid.
func (w *wordsCache) fill(row *backend.AskedRow, limit Limit) (err error) {
	if limit.isQuota() {
		row.Kind, row.Quota = call.Quota, backend.QuotaLimit{Limit: limit.Capacity, Calendar: limit.calendar, Of: limit}
		return limit.Validate()
	}
	row.Words, err = w.get(limit)
	return err
}

// get returns the words of a rate, or why it is not valid.
func (w *wordsCache) get(limit Limit) (*backend.Words, error) {
	w.mutex.RLock()
	words := w.known[limit]
	w.mutex.RUnlock()
	if words != nil {
		return words, nil
	}
	rate, err := limit.Rate()
	if err != nil {
		return nil, err
	}
	words = &backend.Words{Limit: limit.Capacity, Count: limit.Count, Period: backend.Seconds(limit.Period),
		Tolerance: rate.Tolerance(), Interval: rate.EmissionInterval(), Rate: rate, Of: limit}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.known == nil || len(w.known) >= maxLimits {
		w.known = map[Limit]*backend.Words{}
	}
	w.known[limit] = words
	return words, nil
}
