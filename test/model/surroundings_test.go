// The other steps of the fuzzer: it moves the clock, makes the server read its files again, and
// changes settings and connections.

package model_test

import (
	"math"
	"strconv"
	"time"

	"funnel/internal/servertest"
)

// settle deletes keys that expire about now by the server's clock. Otherwise the speed of the test
// would decide whether such a key still exists.
func (f *fuzzer) settle() {
	for key, entry := range f.model.keys {
		if entry.Expiry > f.model.instant-60_000 && entry.Expiry < f.model.instant+600_000 {
			f.send(anything{}, "del", key)
			delete(f.model.keys, key)
		}
	}
}

// lookAtAll compares all keys with the model, sometimes after the server has read its snapshot or
// its log of effects again.
func (f *fuzzer) lookAtAll() {
	switch f.random.IntN(3) {
	case 0:
		f.send("OK", "debug", "reload")
	case 1:
		f.send("OK", "debug", "loadaof")
	}
	count := 0
	for key := range f.model.keys {
		f.touched[key] = true
		_, found := f.model.get(key)
		if found {
			count++
		}
	}
	f.send(int64(count), "dbsize")
}

func (f *fuzzer) moveClock() {
	now := f.model.now
	switch f.random.IntN(13) {
	case 5: // when a key expires
		expiry := f.model.keys[pick(f.words, fuzzKeys)].Expiry
		if expiry > 0 && expiry < 9e12 {
			now = expiry*1e6 + pick(f.words, []int64{0, 0, -1000, 1000})
		}
	case 0:
		now = pick(f.words, []int64{0, 1, 1e9, 1 << 53, 1 << 62, math.MaxInt64 - 1, math.MaxInt64})
	case 1:
		now = f.random.Int64()
	case 2, 6:
		now = servertest.Epoch.UnixNano()
	case 3:
		now = max(0, now-int64(time.Hour))
	case 4:
		now += min(int64(time.Hour), math.MaxInt64-now)
	default:
		now += min(f.random.Int64N(int64(3*time.Second)), math.MaxInt64-now)
	}
	f.setClock(now)
}

func (f *fuzzer) setClock(now int64) {
	f.model.now = now
	if !f.alone {
		f.send(now, "funnel.debug", "clock", strconv.FormatInt(now, 10))
	}
}

// session changes a setting of the connection or of the server that must make no difference to
// calls.
func (f *fuzzer) session() {
	switch f.random.IntN(4) {
	case 0:
		f.send(anything{}, "hello", pick(f.words, []string{"2", "3"}))
		f.send(anything{}, "client", "tracking", "off")
	case 1: // pushes need RESP3
		f.send(anything{}, "hello", "3")
		f.send("OK", "client", "tracking", "on")
	default:
		setting := pick(f.words, [][]string{
			{"slowlog-log-slower-than", "0"}, {"slowlog-log-slower-than", "10000"},
			{"notify-keyspace-events", "KEA"}, {"notify-keyspace-events", ""},
			{"maxmemory-policy", "allkeys-lfu"}, {"maxmemory-policy", "noeviction"},
			{"tracking-table-max-keys", "1"}, {"tracking-table-max-keys", "1000000"},
		})
		f.send("OK", append([]string{"config", "set"}, setting...)...)
	}
}
