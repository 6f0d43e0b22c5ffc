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
			_, err := funnels.Water("user:"+strconv.Itoa(1e10+count), rate, 1)
			require.NoError(t, err)
		}
		bytes := float64(heap()-before)/float64(count) - keyBytes
		t.Logf("%7d funnels: %.0f bytes each and the key", count, bytes)
		require.InDelta(t, 75, bytes, 25, "the package comment says 60 to 90")
	}

	clock.advance(time.Minute)
	forgetDrained(t, funnels, count)
	require.Zero(t, funnels.Len())
	require.Less(t, heap()-before, int64(megabyte/10))
	runtime.KeepAlive(funnels)
}

// Many funnels, most of which drain together so that the tables shrink and grow,
// still decide like a plain map.
func TestShrinking(t *testing.T) {
	const many, every = 5000, 20
	var clock fakeClock
	funnels, model := local.New(clock.now), model{}
	rate := mustRate(t, 3, 1, time.Second)
	water := func(i int) {
		t.Helper()
		key := strconv.Itoa(i)
		want, wantErr := model.water(key, rate, clock.nanoseconds(), 1)
		got, err := funnels.Water(key, rate, 1)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
	}
	for range 4 {
		for i := range many {
			for range i%3 + 1 {
				water(i)
			}
		}
		// Of one, two and three tokens, those of one have drained.
		clock.advance(1500 * time.Millisecond)
		forgetDrained(t, funnels, many)
		for i := 0; i < many; i += every {
			clock.advance(8 * time.Millisecond)
			water(i)
		}
		// Of those, few are left, and only they.
		clock.advance(500 * time.Millisecond)
		forgetDrained(t, funnels, many)
		model.forget(clock.nanoseconds())
		require.Len(t, model, funnels.Len())
		require.NotEmpty(t, model)
		require.Less(t, len(model), many/every)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_, _ = funnels.Look("another", rate, 0)
		}), "shrinking copies what is left, so it must not happen at every call")
	}
}

// A key that is part of a larger string does not keep that in memory, and no key is
// kept longer than its funnel, be it removed from the top or the end of the heap.
func TestKeysAreFreed(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	rate := mustRate(t, 15, 30, time.Minute)
	before := heap()
	for _, letter := range []string{"a", "b"} {
		request := strings.Repeat(letter, 32*megabyte)
		for _, key := range []string{request, request[:10]} {
			_, err := funnels.Water(key, rate, 1)
			require.NoError(t, err)
		}
	}
	require.Greater(t, heap()-before, int64(60*megabyte), "or this test measures nothing")
	clock.advance(time.Second)
	for _, letter := range []string{"a", "b"} {
		_, err := funnels.Water(strings.Repeat(letter, 10), rate, 1)
		require.NoError(t, err)
	}
	clock.advance(2 * time.Second)
	_, err := funnels.Water("another", rate, 0)
	require.NoError(t, err)
	require.Equal(t, 2, funnels.Len(), "the short ones")
	require.Less(t, heap()-before, int64(megabyte))
	runtime.KeepAlive(funnels)
}
