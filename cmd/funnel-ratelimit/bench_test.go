// The benchmark compares the cost of requests with the reference, and counts how many requests of a
// limit of 1,000 a second are let through. It takes nine minutes:
//
//	go -C cmd/funnel-ratelimit test -run '^$' -bench . -benchtime 1x -timeout 20m

package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

const (
	benchRounds = 5
	benchLength = 5 * time.Second // of a round in which callers wait for nothing but answers

	// At a fixed rate a machine that pauses for some milliseconds makes the tail of a short round.
	// In 25 s it is one per cent of 500 requests.
	benchSteadyLength = 25 * time.Second
	benchSteadyRate   = 2000 // requests a second
)

// The services take turns, so whatever else the machine does affects all of them. The figures are
// the medians of the rounds.
func BenchmarkBesideReference(b *testing.B) {
	redis := servertest.Start(b, servertest.Options{Module: servertest.Module(b)}).Client(b).Options().Addr
	services := []served{ // each adds settings to those above it
		serveBy(b, startReference, redis, "LOG_LEVEL=error", "REDIS_POOL_SIZE=64"),
		serve(b, redis, "FUNNEL_BURST_RATIO=0.1"),
		serve(b, redis, "FUNNEL_LEASE=50ms"),
	}
	names := []string{"the reference", "funnel-ratelimit", "with `FUNNEL_LEASE=50ms`"}
	var figures [3]struct{ speed, p99, steadyP50, steadyP99, certain, possible []int }
	before, err := servertest.ReadMachine()
	require.NoError(b, err)
	for range benchRounds {
		for i, service := range services {
			f := &figures[i]
			calls := service.load(b, "shop: hot=1", benchLength, 0)
			f.speed = append(f.speed, len(calls)*int(time.Second)/int(benchLength))
			f.p99 = append(f.p99, quantile(calls, 99))
			steady := service.load(b, "shop: thousand=1", benchSteadyLength, benchSteadyRate)
			f.steadyP50 = append(f.steadyP50, quantile(steady, 50))
			f.steadyP99 = append(f.steadyP99, quantile(steady, 99))
			certain, possible := fullest(steady)
			f.certain, f.possible = append(f.certain, certain), append(f.possible, possible)
		}
	}
	fmt.Print("\n| service | requests a second | p99 µs | ",
		"p50 µs at 2,000 a second | p99 µs at 2,000 a second | fullest second |\n",
		"| --- | ---: | ---: | ---: | ---: | ---: |\n")
	for i, f := range figures {
		fmt.Printf("| %s | %d | %d | %d | %d | %d to %d |\n", names[i], median(f.speed), median(f.p99), median(f.steadyP50),
			median(f.steadyP99), slices.Max(f.certain), slices.Max(f.possible))
	}
	for i, f := range figures {
		fmt.Printf("%s: %d a second, p99 at 2,000 a second %d µs, round by round\n", names[i], f.speed, f.steadyP99)
	}
	after, err := servertest.ReadMachine()
	require.NoError(b, err)
	fmt.Println(after.Since(before))
}

func median(figures []int) int {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[len(sorted)/2]
}

func startReference(s settings.Settings) (stop func()) {
	reference := runner.NewRunner(s)
	go reference.Run()
	return reference.Stop
}

// A call was decided between its start and its end, however late the answer came.
type call struct {
	start, end time.Duration
	took       time.Duration // from the instant that it was due, if the caller was busy then
	allowed    bool
}

// load makes calls by 64 callers, at a rate: see [servertest.Pace]. It begins in the middle of a
// window of the reference.
func (s served) load(b *testing.B, text string, length time.Duration, rate int) []call {
	var calls [64][]call
	begin := time.Now().Truncate(time.Second).Add(1500 * time.Millisecond)
	time.Sleep(time.Until(begin))
	servertest.Pace(len(calls), rate, length, func(caller int, due time.Time) bool {
		start := time.Since(begin)
		response, err := s.client.ShouldRateLimit(b.Context(), request(text))
		isAllowed := response.GetOverallCode() == pb.RateLimitResponse_OK
		calls[caller] = append(calls[caller], call{start, time.Since(begin), time.Since(due), isAllowed})
		return assert.NoError(b, err)
	})
	return slices.Concat(calls[:]...)
}

// quantile returns the time in µs within which a percentage of calls were answered.
func quantile(calls []call, percent int) int {
	slices.SortFunc(calls, func(a, b call) int { return int(a.took - b.took) })
	return int(calls[len(calls)*percent/100].took.Microseconds())
}

// fullest returns how many calls were certainly allowed within the fullest second, and how many may
// have been allowed.
func fullest(calls []call) (certain, possible int) {
	var starts, ends []time.Duration
	for _, c := range calls {
		if c.allowed {
			starts, ends = append(starts, c.start), append(ends, c.end)
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
