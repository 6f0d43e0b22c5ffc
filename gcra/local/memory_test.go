package local_test

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"funnel/gcra"
	"funnel/gcra/local"
)

// heap returns the bytes in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var statistics runtime.MemStats
	runtime.ReadMemStats(&statistics)
	return int64(statistics.HeapAlloc)
}

const megabyte = 1 << 20

// pourOnce pours one token into each of count new funnels.
func pourOnce(t *testing.T, funnels *local.Funnels, rate gcra.Rate, from, count int) {
	t.Helper()
	for i := from; i < from+count; i++ {
		// 16 bytes: the allocator adds nothing to that.
		key := "user:" + strconv.Itoa(1e10+i)
		if decision, err := funnels.Water(key, rate, 1); err != nil || decision.Limited {
			t.Fatalf("%s: %+v, %v", key, decision, err)
		}
	}
}

func TestBytesPerFunnel(t *testing.T) {
	const keyBytes = 16
	var clock fakeClock
	rate := mustRate(t, 15, 30, time.Minute)
	before := heap()
	funnels := local.New(clock.now)
	count := 0
	for _, next := range []int{1000, 3000, 10_000, 30_000, 60_000, 100_000, 150_000, 200_000, 300_000} {
		pourOnce(t, funnels, rate, count, next-count)
		count = next
		bytes := float64(heap()-before)/float64(count) - keyBytes
		t.Logf("%7d funnels: %.0f bytes each and the key", count, bytes)
		if bytes > 100 {
			t.Errorf("%d funnels take %.0f bytes each and the key; the documentation says 60 to 90", count, bytes)
		}
	}
	runtime.KeepAlive(funnels)
}

// A million funnels, each used once, drain and leave nothing behind.
func TestMemoryReturns(t *testing.T) {
	const million = 1_000_000
	var clock fakeClock
	rate := mustRate(t, 15, 30, time.Minute)
	funnels := local.New(clock.now)
	before := heap()
	pourOnce(t, funnels, rate, 0, million)
	full := heap() - before
	if full < 50*megabyte {
		t.Fatalf("a million funnels take %d MB only, so this test measures nothing", full/megabyte)
	}

	clock.advance(time.Minute)
	calls, longest := 0, time.Duration(0)
	for kept := funnels.Len(); kept > 0; kept = funnels.Len() {
		start := time.Now()
		if _, err := funnels.Water("another", rate, 0); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(start))
		calls++
		if funnels.Len() >= kept {
			t.Fatalf("a call removed nothing of %d drained funnels", kept)
		}
	}
	left := heap() - before
	t.Logf("%d MB became %d KB in %d calls, the longest of which took %v",
		full/megabyte, left/1024, calls, longest)
	if left > megabyte {
		t.Errorf("%d MB of %d MB are still there", left/megabyte, full/megabyte)
	}
	runtime.KeepAlive(funnels)
}

// Funnels that come and go one after the other never pile up.
func TestMemoryStaysBoundedInPassing(t *testing.T) {
	var clock fakeClock
	rate := mustRate(t, 1, 1, time.Millisecond)
	funnels := local.New(clock.now)
	for i := range 200_000 {
		clock.advance(10 * time.Microsecond)
		pourOnce(t, funnels, rate, i, 1)
		// Each drains in a hundred steps.
		if kept := funnels.Len(); kept > 100 {
			t.Fatalf("%d funnels are kept, but 100 are not empty", kept)
		}
	}
}

// No token is lost when the tables shrink.
func TestShrinkingKeepsFunnels(t *testing.T) {
	const many, every = 20_000, 100
	var clock fakeClock
	short, long := mustRate(t, 2, 1, time.Second), mustRate(t, 2, 1, time.Hour)
	funnels := local.New(clock.now)
	for i := range many {
		rate := short
		if i%every == 0 {
			rate = long
		}
		pourOnce(t, funnels, rate, i, 1)
	}
	clock.advance(time.Minute)
	forgetDrained(t, funnels, many)
	if funnels.Len() != many/every {
		t.Errorf("%d funnels are kept, %d are not empty", funnels.Len(), many/every)
	}
	// Shrinking copies what is left, so it must not happen at every call.
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := funnels.Water("another", short, 0); err != nil {
			t.Error(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations per call once the tables have shrunk", allocations)
	}
	for i := 0; i < many; i += every {
		decision, err := funnels.Water("user:"+strconv.Itoa(1e10+i), long, 0)
		if err != nil || decision.Remaining != 1 || decision.ResetAfter != int64(59*time.Minute) {
			t.Fatalf("funnel %d: %+v, %v; want a level of 59 minutes", i, decision, err)
		}
	}
}

func TestKeysDoNotKeepTheStringThatTheyArePartOf(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	rate := mustRate(t, 15, 30, time.Minute)
	before := heap()
	request := strings.Repeat("x", 64*megabyte)
	if _, err := funnels.Water(request[:10], rate, 1); err != nil {
		t.Fatal(err)
	}
	if heap()-before < 60*megabyte {
		t.Fatal("the request is gone already, so this test measures nothing")
	}
	runtime.KeepAlive(request) // and no longer
	if left := heap() - before; left > megabyte {
		t.Errorf("a key of 10 bytes keeps %d MB", left/megabyte)
	}
	runtime.KeepAlive(funnels)
}

func TestRemovedKeysAreFreed(t *testing.T) {
	var clock fakeClock
	funnels := local.New(clock.now)
	rate := mustRate(t, 15, 30, time.Minute)
	before := heap()
	// Two, so that one of them leaves from the end of the heap and one from its
	// top.
	for _, letter := range []string{"a", "b"} {
		if _, err := funnels.Water(strings.Repeat(letter, 32*megabyte), rate, 1); err != nil {
			t.Fatal(err)
		}
	}
	if heap()-before < 60*megabyte {
		t.Fatal("the keys are gone already, so this test measures nothing")
	}
	clock.advance(time.Minute)
	if _, err := funnels.Water("another", rate, 0); err != nil {
		t.Fatal(err)
	}
	if left := heap() - before; left > megabyte {
		t.Errorf("removed keys keep %d MB", left/megabyte)
	}
	runtime.KeepAlive(funnels)
}
