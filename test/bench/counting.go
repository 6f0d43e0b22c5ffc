package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A localCounter decides by the calls that this process has counted, and by the sum over all
// processes that it last read. From time to time it adds its count to Redis and reads the sum.
// Kong (rate-limiting-advanced, with a sync_rate) and Limitador (redis_cached) document this:
//
//	https://docs.konghq.com/gateway/latest/reference/rate-limiting/
//	https://github.com/Kuadrant/limitador/blob/main/doc/server/configuration.md
//
// The window is Kong's sliding one: the window before this one counts by the share of it that
// is left. Limitador's begins anew, and so allows more around its border. Limited calls are not
// counted, as in Limitador, and in Kong with disable_penalty: a demand above the rate would
// otherwise get nothing. The shortest window of both is a second.
type localCounter struct {
	key      string
	capacity float64
	window   time.Duration

	mutex  sync.Mutex
	counts map[int64]*count // by the number of the window
	err    error            // of the last call to Redis
}

func newLocalCounter(key string, capacity float64, window time.Duration) *localCounter {
	return &localCounter{key: key, capacity: capacity, window: window, counts: map[int64]*count{}}
}

// A count is that of one window: the sum that was read, and calls that are not in it.
type count struct{ shared, unsent int64 }

// windows returns the counts of this window and of the one before, and how much the latter
// weighs. The caller holds the mutex.
func (c *localCounter) windows(now time.Time) (number int64, current, before *count, weight float64) {
	number = now.UnixNano() / int64(c.window)
	for other := range c.counts {
		if other < number-1 {
			delete(c.counts, other)
		}
	}
	for _, missing := range []int64{number - 1, number} {
		if c.counts[missing] == nil {
			c.counts[missing] = &count{}
		}
	}
	return number, c.counts[number], c.counts[number-1], 1 - float64(now.UnixNano()%int64(c.window))/float64(c.window)
}

func (c *localCounter) allow(now time.Time) (bool, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	_, current, before, weight := c.windows(now)
	if float64(current.shared+current.unsent)+float64(before.shared+before.unsent)*weight+1 > c.capacity {
		return false, c.err
	}
	current.unsent++
	return true, c.err
}

// addAndRead is one call to the server for both windows.
var addAndRead = redis.NewScript(`
local sums = {}
for i, key in ipairs(KEYS) do
  sums[i] = redis.call('INCRBY', key, ARGV[i])
  redis.call('PEXPIRE', key, ARGV[#KEYS + 1])
end
return sums`)

// reconcile adds what this process counted, and reads the sums.
func (c *localCounter) reconcile(ctx context.Context, rdb redis.Scripter, now time.Time) {
	c.mutex.Lock()
	number, current, before, _ := c.windows(now)
	sent := []int64{before.unsent, current.unsent}
	c.mutex.Unlock()
	names := []string{fmt.Sprintf("%s:%d", c.key, number-1), fmt.Sprintf("%s:%d", c.key, number)}
	sums, err := addAndRead.Run(ctx, rdb, names, sent[0], sent[1], (3 * c.window).Milliseconds()).Int64Slice()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.err = err; err != nil {
		return
	}
	for i, of := range []*count{before, current} {
		of.shared, of.unsent = sums[i], of.unsent-sent[i]
	}
}
