// The benchmark compares the cost of requests with the reference, and counts how many requests of a
// limit of 1,000 a second are let through. It takes five minutes: go -C cmd/funnel-ratelimit test
// -run '^$' -bench . -benchtime 1x

package main

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/stretchr/testify/assert"

	"funnel/internal/servertest"
)

func BenchmarkBesideReference(b *testing.B) {
	redis := servertest.Start(b, servertest.Options{Module: servertest.Module(b)}).Client(b).Options().Addr
	services := []served{ // each adds settings to those above it
		serveBy(b, startReference, redis, "LOG_LEVEL=error", "REDIS_POOL_SIZE=64"),
		serve(b, redis, "FUNNEL_BURST_RATIO=0.1"),
		serve(b, redis, "FUNNEL_LEASE=50ms"),
	}
	steady := func(i int) time.Duration { return time.Duration(i) * time.Second / 2000 }
	var speeds, p99s [3][]int
	for range 5 {
		for i, service := range services {
			calls := service.load(b, "shop: hot=1", 5*time.Second, func(int) time.Duration { return 0 })
			speeds[i], p99s[i] = append(speeds[i], len(calls)/5), append(p99s[i], p99(calls))
		}
	}
	fmt.Print("\n| service | requests a second | p99 µs | p99 µs at 2,000 a second | fullest second |\n| --- | ---: | ---: | ---: | ---: |\n")
	for i, name := range []string{"the reference", "funnel-ratelimit", "with `FUNNEL_LEASE=50ms`"} {
		slices.Sort(speeds[i])
		slices.Sort(p99s[i])
		calls := services[i].load(b, "shop: thousand=1", time.Minute, steady)
		certain, possible := fullest(calls)
		fmt.Printf("| %s | %d | %d | %d | %d to %d |\n", name, speeds[i][2], p99s[i][2], p99(calls), certain, possible)
	}
}

func startReference(s settings.Settings) (stop func()) {
	reference := runner.NewRunner(s)
	go reference.Run()
	return reference.Stop
}

// A call was decided between its start and its end, however late the answer came.
type call struct {
	start, took time.Duration
	allowed     bool
}

// load makes calls by 64 callers, the i-th when it is due. It begins in the middle of a window of
// the reference.
func (s served) load(b *testing.B, text string, length time.Duration, due func(i int) time.Duration) []call {
	var callers sync.WaitGroup
	var calls [64][]call
	begin := time.Now().Truncate(time.Second).Add(1500 * time.Millisecond)
	for caller := range calls {
		callers.Go(func() {
			for i := caller; max(due(i), time.Since(begin)) < length; i += len(calls) {
				time.Sleep(time.Until(begin.Add(due(i))))
				c := call{start: time.Since(begin)}
				response, err := s.client.ShouldRateLimit(b.Context(), request(text))
				assert.NoError(b, err)
				c.took, c.allowed = time.Since(begin)-c.start, response.GetOverallCode() == pb.RateLimitResponse_OK
				calls[caller] = append(calls[caller], c)
			}
		})
	}
	callers.Wait()
	return slices.Concat(calls[:]...)
}

func p99(calls []call) int {
	slices.SortFunc(calls, func(a, b call) int { return int(a.took - b.took) })
	return int(calls[len(calls)*99/100].took.Microseconds())
}

// fullest returns how many calls were certainly allowed within the fullest second, and how many may
// have been allowed.
func fullest(calls []call) (certain, possible int) {
	var starts, ends []time.Duration
	for _, c := range calls {
		if c.allowed {
			starts, ends = append(starts, c.start), append(ends, c.start+c.took)
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	for before := range starts {
		ended, _ := slices.BinarySearch(ends, starts[before]+time.Second)
		started, _ := slices.BinarySearch(starts, ends[before]+time.Second)
		certain, possible = max(certain, ended-before), max(possible, started-before)
	}
	return certain, possible
}
