package backend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A tested Backend has its own statistics.
type tested struct {
	*Backend
	stats      stats.Manager
	failed     atomic.Int64
	notAsked   atomic.Int64
	whenFailed func() // or nil
}

// newTested returns a Backend that asks the server at an address. The environment has further
// settings.
func newTested(t *testing.T, address string, environment ...string) *tested {
	t.Setenv("REDIS_URL", address)
	t.Setenv("REDIS_TIMEOUT", "5s")
	for _, setting := range environment {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	store := gostats.NewStore(gostats.NewNullSink(), false)
	b := &tested{stats: stats.NewStatManager(store, settings.Settings{})}
	var err error
	b.Backend, err = New(settings.NewSettings(), Events{
		Failed: func() {
			b.failed.Add(1)
			if b.whenFailed != nil {
				b.whenFailed()
			}
		},
		NotAsked: func() { b.notAsked.Add(1) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

// A descriptor is a descriptor of a request, with its limit.
type descriptor struct {
	name  string // of a key without a value
	limit string // such as "10/HOUR", with " shadow" or " quota" behind it, or empty
	hits  uint64
}

// read reads the limit of a descriptor.
func (b *tested) read(d descriptor) *config.RateLimit {
	if d.limit == "" {
		return nil
	}
	text, mode, _ := strings.Cut(d.limit, " ")
	count, unit, _ := strings.Cut(text, "/")
	number, err := strconv.ParseUint(count, 10, 32)
	if err != nil {
		panic(err)
	}
	return config.NewRateLimit(uint32(number), unitOf(unit), b.stats.NewStats(d.name), false,
		mode == "shadow", mode == "quota", "", nil, false)
}

func unitOf(name string) pb.RateLimitResponse_RateLimit_Unit {
	return pb.RateLimitResponse_RateLimit_Unit(pb.RateLimitResponse_RateLimit_Unit_value[name])
}

// decide returns the statuses of a request as "OK 9 360s, OVER_LIMIT 0 60s".
func (b *tested) decide(ctx context.Context, descriptors ...descriptor) (string, error) {
	request := &pb.RateLimitRequest{Domain: "d"}
	limits := make([]*config.RateLimit, len(descriptors))
	for i, d := range descriptors {
		limits[i] = b.read(d)
		request.Descriptors = append(request.Descriptors, &common.RateLimitDescriptor{
			Entries:    []*common.RateLimitDescriptor_Entry{{Key: d.name}},
			HitsAddend: wrapperspb.UInt64(d.hits)})
	}
	statuses, err := b.Decide(ctx, request, limits)
	words := make([]string, len(statuses))
	for i, status := range statuses {
		words[i] = fmt.Sprint(status.Code, " ", status.LimitRemaining)
		if status.DurationUntilReset != nil {
			words[i] += fmt.Sprint(" ", status.DurationUntilReset.Seconds, "s")
		}
	}
	return strings.Join(words, ", "), err
}

// Each request is decided on funnels and quotas as the one before it left them. No time passes: it
// is a Saturday of 2100, 12:00 in UTC.
func TestDecide(t *testing.T) {
	rdb, clock := servertest.StartWithClock(t)
	noon := time.Date(2100, time.January, 2, 12, 0, 0, 0, time.UTC)
	clock.Set(t, noon)
	type step struct {
		descriptors []descriptor
		statuses    string
	}
	of := func(statuses string, descriptors ...descriptor) step { return step{descriptors, statuses} }
	for _, c := range []struct {
		environment []string
		steps       []step
	}{
		{[]string{"FUNNEL_LEASE=0s"}, []step{
			of("OK 0", descriptor{"none", "", 1}),
			of("OK 9 360s", descriptor{"a", "10/HOUR", 1}),
			of("OK 9 360s", descriptor{"a", "10/HOUR", 0}),
			of("OVER_LIMIT 9 360s", descriptor{"a", "10/HOUR", 10}),
			of("OVER_LIMIT 9 360s", descriptor{"a", "10/HOUR", math.MaxUint64}),
			of("OK 0 360s", descriptor{"a", "10/HOUR", 9}),
			of("OVER_LIMIT 0 360s", descriptor{"a", "10/HOUR", 0}),
			// At most one token leaks per nanosecond.
			of("OK 4294967294 1s", descriptor{"most", "4294967295/SECOND", 1}),
			of("OK 0 1s", descriptor{"one", "1/SECOND", 1}),
			// The hits of one key add up, however many they are.
			of("OVER_LIMIT 10 0s, OVER_LIMIT 10 0s",
				descriptor{"sum", "10/HOUR", 5}, descriptor{"sum", "10/HOUR", math.MaxUint64}),
			of("OVER_LIMIT 10 0s, OVER_LIMIT 10 0s", descriptor{"sum", "10/HOUR", 5}, descriptor{"sum", "10/HOUR", 6}),
			of("OK 0 360s, OK 0 360s", descriptor{"sum", "10/HOUR", 5}, descriptor{"sum", "10/HOUR", 5}),
			// All or none.
			of("OK 2 0s, OVER_LIMIT 0 360s", descriptor{"b", "2/HOUR", 1}, descriptor{"a", "10/HOUR", 1}),
			of("OK 2 0s, OVER_LIMIT 0 60s", descriptor{"b", "2/HOUR", 1}, descriptor{"no", "0/MINUTE", 1}),
			of("OK 1 1800s, OK 5 600s", descriptor{"b", "2/HOUR", 1}, descriptor{"c", "6/HOUR", 1}),
			of("OK 1 1800s, OVER_LIMIT 0 360s", descriptor{"b", "2/HOUR", 1}, descriptor{"a", "10/HOUR", 0}),
			// These refuse nothing, and count no request that is refused.
			of("OK 1 0s, OVER_LIMIT 0 360s", descriptor{"s", "1/HOUR shadow", 1}, descriptor{"a", "10/HOUR", 1}),
			of("OK 0 3600s, OVER_LIMIT 1 0s", descriptor{"s", "1/HOUR shadow", 1}, descriptor{"q", "1/HOUR quota", 2}),
			of("OK 0 3600s, OK 0 3600s", descriptor{"s", "1/HOUR shadow", 1}, descriptor{"q", "1/HOUR quota", 1}),
			// Units that are no calendar's.
			of("OK 0 86400s", descriptor{"day", "1/DAY", 1}),
			of("OK 0 2592000s", descriptor{"month", "1/MONTH", 1}),
			of("OK 0 31536000s", descriptor{"year", "1/YEAR", 1}),
		}},
		{[]string{"FUNNEL_LEASE=1h"}, []step{
			of("OK 8 360s, OK 0 3600s", descriptor{"l", "10/HOUR", 2}, descriptor{"m", "1/HOUR", 1}),
			of("OK 8 360s, OVER_LIMIT 0 3600s", descriptor{"l", "10/HOUR", 3}, descriptor{"m", "1/HOUR", 1}), // given back
			of("OVER_LIMIT 0 3600s, OK 8 360s", descriptor{"m", "1/HOUR", 1}, descriptor{"l", "10/HOUR", 3}),
			of("OK 5 360s, OK 2 600s", descriptor{"l", "10/HOUR", 3}, descriptor{"n", "6/HOUR", 4}),
		}},
		{[]string{"FUNNEL_LEASE=0s", "FUNNEL_CHARGE=true", "FUNNEL_BURST_RATIO=0.5"}, []step{
			of("OK 0 360s", descriptor{"ratio", "10/HOUR", 5}),
			of("OVER_LIMIT 0 720s", descriptor{"ratio", "10/HOUR", 2}), // 7 of 5
			of("OVER_LIMIT 0 1080s", descriptor{"ratio", "10/HOUR", 0}),
			of("OK 1 1200s", descriptor{"odd", "3/HOUR", 1}), // rounded up
			of("OVER_LIMIT 0 3153598200s", descriptor{"report", "6/HOUR", math.MaxUint64}),
			of("OVER_LIMIT 0 60s", descriptor{"no", "0/MINUTE", 3}),
		}},
		{[]string{"FUNNEL_CHARGE=false", "FUNNEL_BURST_RATIO=0.5", "FUNNEL_QUOTAS=Europe/Berlin"}, []step{
			of("OK 4 360s", descriptor{"a2", "10/HOUR", 1}), // a funnel as before
			of("OK 10 0s", descriptor{"day", "10/DAY", 0}),
			of("OK 9 39600s", descriptor{"day", "10/DAY", 1}), // 11 hours: midnight in Berlin is 23:00 in UTC
			of("OVER_LIMIT 9 39600s", descriptor{"day", "10/DAY", 11}),
			of("OK 0 39600s", descriptor{"day", "10/DAY", 9}),
			of("OVER_LIMIT 0 39600s", descriptor{"day", "10/DAY", 0}),
			of("OK 9 126000s", descriptor{"week", "10/WEEK", 1}), // Saturday: until Monday
			of("OK 9 2545200s", descriptor{"month", "10/MONTH", 1}),
			of("OK 9 31402800s", descriptor{"year", "10/YEAR", 1}),
			of("OK 9 2545200s, OVER_LIMIT 0 39600s", descriptor{"month", "10/MONTH", 1}, descriptor{"day", "10/DAY", 1}),
			of("OK 8 2545200s, OK 8 31402800s", descriptor{"month", "10/MONTH", 1}, descriptor{"year", "10/YEAR", 1}),
		}},
		{[]string{"FUNNEL_CHARGE=true", "FUNNEL_BURST_RATIO=1"}, []step{
			of("OVER_LIMIT 0 2545200s", descriptor{"month", "10/MONTH", math.MaxUint64}),
			of("OVER_LIMIT 0 2545200s", descriptor{"month", "10/MONTH", 5}),
			of("OVER_LIMIT 0 39600s", descriptor{"no", "0/DAY", 1}),
		}},
	} {
		b := newTested(t, rdb.Options().Addr, c.environment...)
		b.quotas.now = func() time.Time { return noon }
		for _, step := range c.steps {
			statuses, err := b.decide(t.Context(), step.descriptors...)
			require.NoError(t, err, "%v: %v", c.environment, step.descriptors)
			assert.Equal(t, step.statuses, statuses, "%v: %v", c.environment, step.descriptors)
		}
	}
}

// The capacity is the exact product, rounded up.
func TestCapacity(t *testing.T) {
	for ratio := 1; ratio <= 100; ratio++ {
		for _, number := range []int{0, 1, 7, 10, 50, 99, 100, 1000, 99_999, math.MaxUint32} {
			exact := (number*ratio + 99) / 100
			require.Equal(t, exact, capacityOf(number, float64(ratio)/100), "%d per cent of %d", ratio, number)
		}
	}
}

// Keys hold the limit and the kind. They have no hash tag, whatever callers send, and a bounded
// length.
func TestKeys(t *testing.T) {
	ofBerlin, err := newQuotas("Europe/Berlin", time.Now)
	require.NoError(t, err)
	long := strings.Repeat("x", 397) // and "a=" before it, and "," behind
	for _, c := range []struct {
		domain, entries, limit, key string
		quotas                      quotas
	}{
		{domain: "shop", entries: "user=1", limit: "20/MINUTE", key: "shop:user=1:20/MINUTE"},
		{domain: "shop", entries: "user=1,path=/a", limit: "20/MINUTE", key: "shop:user=1,path=%2Fa:20/MINUTE"},
		{domain: "a}{b", entries: "u{1}=2:3", limit: "1/DAY", key: "a%7D%7Bb:u%7B1%7D=2%3A3:1/DAY"},
		{domain: "shop", entries: "user=", limit: "20/HOUR", key: "shop:user=:20/HOUR"},
		{domain: "shop", entries: "a=" + long + "x", limit: "1/HOUR", key: "shop:a=" + long + "x:1/HOUR"},
		{domain: "shop", entries: "a=" + long + "xx", limit: "1/HOUR",
			key: "shop:" + hexOfHash("a="+long+"xx") + ":1/HOUR"},
		{domain: "shop", entries: "file=/a/1", limit: "2/HOUR /a/*", key: "shop:file=%2Fa%2F%2A:2/HOUR"}, // share_threshold
		{domain: "shop", entries: "user=1", limit: "20/HOUR", quotas: ofBerlin, key: "shop:user=1:20/HOUR"},
		{domain: "shop", entries: "user=1", limit: "20/DAY", quotas: ofBerlin, key: "shop:user=1:20/DAY/Europe/Berlin"},
		{domain: "shop", entries: "user=1", limit: "20/WEEK", quotas: ofBerlin, key: "shop:user=1:20/WEEK/Europe/Berlin"},
		{domain: "shop", entries: "user=1", limit: "20/MONTH", quotas: ofBerlin, key: "shop:user=1:20/MONTH/Europe/Berlin"},
		{domain: "shop", entries: "user=1", limit: "20/YEAR", quotas: ofBerlin, key: "shop:user=1:20/YEAR/Europe/Berlin"},
	} {
		descriptor := &common.RateLimitDescriptor{}
		for entry := range strings.SplitSeq(c.entries, ",") {
			key, value, _ := strings.Cut(entry, "=")
			descriptor.Entries = append(descriptor.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		text, pattern, isShared := strings.Cut(c.limit, " ")
		count, unit, _ := strings.Cut(text, "/")
		number, err := strconv.ParseUint(count, 10, 32)
		require.NoError(t, err)
		limit := &config.RateLimit{}
		limit.Limit = &pb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(number), Unit: unitOf(unit)}
		if isShared {
			limit.ShareThresholdKeyPattern = []string{pattern}
		}
		b := &Backend{quotas: c.quotas}
		require.Equal(t, c.key, b.keyOf(c.domain, descriptor, limit))
	}
}

func hexOfHash(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// If Redis does not decide, that is an error if the answer could refuse the request. Otherwise it
// is only counted. A caller who gives up is neither.
func TestFailures(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	b := newTested(t, server.Addr(), "SOFT_BREACH_HEADER_RATIO=0.9")
	rate, shadow := descriptor{"a", "10/HOUR", 1}, descriptor{"s", "10/HOUR shadow", 1}
	_, err := b.decide(t.Context(), rate, shadow)
	require.NoError(t, err)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, descriptors := range [][]descriptor{{rate}, {shadow}, {rate, shadow}, {rate, {"b", "10/HOUR", 1}}} {
		_, err = b.decide(canceled, descriptors...)
		require.ErrorIs(t, err, context.Canceled, descriptors)
	}
	require.Zero(t, b.failed.Load())
	require.Zero(t, b.notAsked.Load())
	server.Kill()
	for _, descriptors := range [][]descriptor{
		{rate}, {rate, shadow}, {rate, {"b", "10/HOUR", 1}}, {{"a", "10/HOUR", 0}},
	} {
		_, err = b.decide(t.Context(), descriptors...)
		require.ErrorIs(t, err, limiter.ErrUnavailable, descriptors)
	}
	require.Zero(t, b.failed.Load())
	require.NotZero(t, b.notAsked.Load(), "Redis has not answered three calls, and the fourth was sent")
	statuses, err := b.decide(t.Context(), shadow)
	require.NoError(t, err)
	require.Equal(t, "OK 10 0s", statuses)
	require.EqualValues(t, 1, b.failed.Load())
	statuses, err = b.decide(t.Context(), descriptor{"no", "0/MINUTE", 1}, rate)
	require.NoError(t, err)
	require.Equal(t, "OVER_LIMIT 0 60s, OK 10 0s", statuses)
	require.EqualValues(t, 2, b.failed.Load())
	_, err = b.decide(t.Context(), descriptor{"a", "10/UNKNOWN", 1})
	require.ErrorIs(t, err, ErrWrong)
	many := make([]descriptor, 65)
	for i := range many {
		many[i] = descriptor{strconv.Itoa(i), "10/HOUR", 0}
	}
	_, err = b.decide(t.Context(), many...)
	require.ErrorIs(t, err, ErrWrong)
	_, err = b.decide(t.Context(), many[:64]...)
	require.ErrorIs(t, err, limiter.ErrUnavailable)
}

// A caller who gives up is not charged, whatever the request has taken already. What Redis grants
// and what this process grants is given back. Only the tokens of the last command may stay with the
// lease that has sent it, for other callers.
func TestCallersWhoGiveUp(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	giveUp := &atomic.Pointer[context.CancelFunc]{} // of the caller, when the request in shadow mode is sent
	proxy := servertest.Proxy(t, server.Addr, func(sent []byte) bool {
		cancel := giveUp.Load()
		if cancel != nil && bytes.Contains(sent, []byte("d:s=:")) {
			(*cancel)()
		}
		return false
	})
	a, c, shadow := descriptor{"a", "10/HOUR", 3}, descriptor{"c", "10/HOUR", 3}, descriptor{"s", "10/HOUR shadow", 1}
	rdb := server.Client(t)
	for _, lease := range []string{"0s", "1h"} {
		for _, descriptors := range [][]descriptor{{shadow}, {a, shadow}, {a, c, shadow}} {
			b := newTested(t, proxy, "FUNNEL_LEASE="+lease)
			ctx, cancel := context.WithCancel(t.Context())
			giveUp.Store(&cancel)
			_, err := b.decide(ctx, descriptors...)
			require.ErrorIs(t, err, context.Canceled, "%s: %v", lease, descriptors)
			giveUp.Store(nil)
			servertest.Eventually(t, fmt.Sprintf("that nothing is taken: %s: %v", lease, descriptors), func() bool {
				return len(rdb.Keys(t.Context(), "d:[ac]=*").Val()) == 0
			})
		}
	}
	server.Kill()
	b := newTested(t, server.Addr(), "FUNNEL_ON_FAILURE=local")
	ctx, cancel := context.WithCancel(t.Context())
	b.whenFailed = cancel // the caller gives up in the instant of the decision
	_, err := b.decide(ctx, a)
	require.ErrorIs(t, err, context.Canceled)
	servertest.Eventually(t, "that nothing is taken in this process", func() bool {
		statuses, err := b.decide(t.Context(), descriptor{"a", "10/HOUR", 0})
		return err == nil && statuses == "OK 10 0s"
	})
}

// What leases give back decides no descriptor, so it does not count if Redis is not asked.
func TestFailuresWithLeases(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	b := newTested(t, server.Addr(), "FUNNEL_ON_FAILURE=open", "FUNNEL_LEASE=1h", "REDIS_TIMEOUT=1s")
	decide := func(descriptors ...descriptor) string {
		statuses, err := b.decide(t.Context(), descriptors...)
		require.NoError(t, err)
		return statuses
	}
	ahead, used := descriptor{"ahead", "1000000/SECOND", 1}, descriptor{"used", "1/HOUR", 1}
	servertest.Eventually(t, "tokens ahead", func() bool {
		decide(ahead)
		return strings.Contains(server.Client(t).Info(t.Context(), "commandstats").Val(), "cl.take")
	})
	decide(used)
	decide(used)
	server.Kill()
	for b.notAsked.Load() == 0 {
		decide(descriptor{"other", "10/HOUR", 1})
	}
	failed, notAsked := b.failed.Load(), b.notAsked.Load()
	require.Contains(t, decide(ahead, used), "OVER_LIMIT", "the lease knows that it is used up")
	require.Equal(t, failed, b.failed.Load())
	require.Equal(t, notAsked, b.notAsked.Load())
}

// A request whose answer is lost is not repeated: it would take its tokens twice.
func TestLostAnswer(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	b := newTested(t, servertest.LoseAnswer(t, server.Addr(), "cl.reserve"))
	_, err := b.decide(t.Context(), descriptor{"a", "10/HOUR", 1})
	require.ErrorIs(t, err, limiter.ErrUnavailable)
	statuses, err := b.decide(t.Context(), descriptor{"a", "10/HOUR", 0})
	require.NoError(t, err)
	require.Regexp(t, "OK 9 ", statuses)
}

// A request is a soft breach if it is allowed and one of its descriptors has less than that share
// remaining.
func TestSoftBreach(t *testing.T) {
	status := func(remaining uint32, count uint32) *pb.RateLimitResponse_DescriptorStatus {
		return &pb.RateLimitResponse_DescriptorStatus{LimitRemaining: remaining,
			CurrentLimit: &pb.RateLimitResponse_RateLimit{RequestsPerUnit: count, Unit: unitOf("HOUR")}}
	}
	b := &Backend{options: options{SoftBreach: 0.2, BurstRatio: 0.5}}
	ok, over := pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT
	type statuses = []*pb.RateLimitResponse_DescriptorStatus
	for _, c := range []struct {
		code     pb.RateLimitResponse_Code
		statuses statuses
		isSoft   bool
	}{
		{ok, statuses{status(10, 100)}, false}, // of 50
		{ok, statuses{status(9, 100)}, true},
		{over, statuses{status(9, 100)}, false},
		{ok, statuses{{}, status(40, 100), status(9, 100)}, true},
		{ok, statuses{{}}, false},
	} {
		response := &pb.RateLimitResponse{OverallCode: c.code, Statuses: c.statuses}
		require.Equal(t, c.isSoft, b.IsSoftBreach(response), response)
	}
	b.options.SoftBreach = 0
	require.False(t, b.IsSoftBreach(&pb.RateLimitResponse{OverallCode: ok, Statuses: statuses{status(0, 100)}}))
}

// Limits count as the reference counts them: by the capacity, and refused requests as a whole.
func TestStatistics(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	b := newTested(t, server.Addr(), "FUNNEL_BURST_RATIO=0.5", "NEAR_LIMIT_RATIO=0.8")
	for _, hits := range []uint64{7, 2, 1, 2, 1} { // of 10, from 8 on near the limit
		_, err := b.decide(t.Context(), descriptor{"a", "20/HOUR", hits})
		require.NoError(t, err)
	}
	counted := b.stats.NewStats("a")
	require.Equal(t, []uint64{13, 10, 3, 2}, []uint64{counted.TotalHits.Value(), counted.WithinLimit.Value(),
		counted.OverLimit.Value(), counted.NearLimit.Value()})
}
