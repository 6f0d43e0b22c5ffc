package local_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra/local"
)

const megabyte = 1 << 20

// heap returns the bytes in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var statistics runtime.MemStats
	runtime.ReadMemStats(&statistics)
	return int64(statistics.HeapAlloc)
}

// What a funnel takes is what the package comment says, and of funnels that have
// drained, each used once, nothing is left. FUNNEL_LONG makes it a million.
func TestBytesPerFunnel(t *testing.T) {
	const keyBytes = 16 // the allocator adds nothing to that
	counts := []int{1000, 3000, 10_000, 30_000, 60_000, 100_000, 150_000, 200_000}
	if os.Getenv("FUNNEL_LONG") != "" {
		counts = append(counts, 300_000, 1_000_000)
	}
	var clock fakeClock
	rate := mustRate(t, 15, 30, time.Minute)
	before := heap()
	funnels, count := local.New(clock.now), 0
	for _, next := range counts {
		for ; count < next; count++ {
			_, err := funnels.Take("user:"+strconv.Itoa(1e10+count), rate, 1)
			require.NoError(t, err)
		}
		bytes := float64(heap()-before)/float64(count) - keyBytes
		t.Logf("%7d funnels: %.0f bytes each and the key", count, bytes)
		require.InDelta(t, 75, bytes, 25, "the package comment says 60 to 90")
	}

	clock.advance(time.Minute)
	for range count / 100 {
		_, err := funnels.Take("still used", mustRate(t, int64(count), 1, time.Second), 1)
		require.NoError(t, err)
	}
	require.Equal(t, 1, funnels.Len())
	require.Less(t, heap()-before, int64(megabyte/10))
	runtime.KeepAlive(funnels)
}

// Many funnels, which drain one after the other while the tables shrink, and grow
// again, still decide like a plain map.
func TestShrinking(t *testing.T) {
	const many = 5000
	var clock fakeClock
	funnels, model := local.New(clock.now), model{}
	rate := mustRate(t, 3, 1, time.Second)
	take := func(i int) {
		t.Helper()
		key := strconv.Itoa(i)
		want, wantErr := model.take(key, rate, clock.nanoseconds(), 1)
		got, err := funnels.Take(key, rate, 1)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
	}
	for range 2 {
		for i := range many {
			clock.advance(100 * time.Microsecond)
			for range i%3 + 1 {
				take(i)
			}
		}
		for i := 0; model.forget(clock.nanoseconds()) > 0; i++ {
			clock.advance(50 * time.Millisecond)
			forgetDrained(t, funnels, many)
			require.Equal(t, model.forget(clock.nanoseconds()), funnels.Len())
			if i < 20 {
				take(100 * i)
			}
		}
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_, _ = local.SetOf(funnels).Peek("another", rate, 0)
		}), "shrinking copies what is left, so it must not happen at every call")
	}
}

// No key is kept longer than its funnel, be it removed from the top or the end of the
// heap, and one that is part of a larger string does not keep that in memory.
func TestKeysAreFreed(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	rate := mustRate(t, 15, 30, time.Minute)
	before := heap()
	take := func(letter string, length int) {
		_, err := funnels.Take(strings.Repeat(letter, 32*megabyte)[:length], rate, 1)
		require.NoError(t, err)
	}
	take("a", 32*megabyte)
	take("b", 32*megabyte)
	require.Greater(t, heap()-before, int64(60*megabyte), "or this test measures nothing")
	clock.advance(time.Minute)
	take("c", 10)
	require.Equal(t, 1, funnels.Len())
	require.Less(t, heap()-before, int64(megabyte))
	runtime.KeepAlive(funnels)
}
