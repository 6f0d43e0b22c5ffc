package service

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	randv2 "math/rand/v2"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/redis"
	"github.com/envoyproxy/ratelimit/src/server"
	ratelimit "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/envoyproxy/ratelimit/src/utils"
	gostats "github.com/lyft/gostats"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/health"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"funnel/cmd/funnel-ratelimit/backend"
	"funnel/internal/servertest"
)

// The service and the reference get the same 1,000 random configurations, and the same random
// requests.
//
// No time passes, so nothing leaks and no window ends, and both answer alike until a limit is
// reached. A request that goes over a limit is counted by the reference, and not by the service. So
// all fields of the answers and all statistics are compared up to the first request that goes over
// some limit, and of that request the codes.
//
// Left out are:
//
//   - how long until the reset, which depends on the algorithm;
//   - requests that name a counter twice, whose hits the reference counts one after the other, and
//     the service at once;
//   - hits of 0 when nothing remains, which the reference allows;
//   - limits that a request brings along for a descriptor that has another limit, too, because the
//     reference counts both together.
func TestAnswersOfTheReference(t *testing.T) {
	for _, setting := range []string{
		"RESPONSE_DYNAMIC_METADATA=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true", "REDIS_TIMEOUT=5s",
	} {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	rdb, _ := servertest.StartWithClock(t)
	t.Setenv("REDIS_URL", rdb.Options().Addr)
	seed := servertest.Seed(t)
	random := randv2.New(randv2.NewPCG(seed, 0))
	ours := newOurs(t)
	theirs := newTheirs(t, rdb.Options().Addr)
	met := map[string]int{}
	for i := range servertest.QuickOrLong(1000, 20_000) {
		g := &generator{Rand: random, domain: fmt.Sprint("d", i), used: map[string]uint64{}, limits: theirs.load(t, nil)}
		text := g.configuration()
		ours.load(t, text)
		g.limits = theirs.load(t, text)
		for range 20 {
			request := g.request()
			if request == nil {
				continue
			}
			state := fmt.Sprintf("configuration %s\nrequest %v\nused before %v", text, request, g.used)
			exceeds := g.count(request, met)
			got, gotErr := ours.service.ShouldRateLimit(t.Context(), request)
			want, wantErr := theirs.service.ShouldRateLimit(t.Context(), request)
			if wantErr != nil {
				require.EqualError(t, gotErr, wantErr.Error(), state)
				met["error"]++
				continue
			}
			require.NoError(t, gotErr, state)
			requireAlike(t, want, got, exceeds, state)
			if exceeds {
				break
			}
			for _, descriptor := range request.Descriptors {
				counted := theirs.counts(t, request.Domain, descriptor)
				require.Equal(t, counted, ours.counts(t, request.Domain, descriptor), state)
			}
		}
	}
	for _, outcome := range []string{"error", "no limit", "unlimited", "replaced", "within", "hits 0", "over",
		"over in shadow mode", "over in quota mode", "limit of the request", "several limits"} {
		require.Greater(t, met[outcome], 20, "%s: %v", outcome, met)
	}
	t.Log(met)
}

// requireAlike compares two answers. In a request that goes over a limit, the services count
// different things.
func requireAlike(t *testing.T, want, got *pb.RateLimitResponse, exceeds bool, state string) {
	want, got = proto.CloneOf(want), proto.CloneOf(got)
	refusing := 0
	for _, response := range []*pb.RateLimitResponse{want, got} {
		refusing = 0
		for _, status := range response.Statuses {
			if status.DurationUntilReset != nil {
				status.DurationUntilReset.Seconds = 1
			}
			if exceeds && status.CurrentLimit != nil {
				status.LimitRemaining = 0
			}
			if status.Code == pb.RateLimitResponse_OVER_LIMIT {
				refusing++
			}
		}
		for _, header := range response.ResponseHeadersToAdd {
			if header.Key == "RateLimit-Reset" || exceeds && header.Key == "RateLimit-Remaining" {
				header.Value = ""
			}
		}
	}
	if exceeds && refusing != 1 { // which of several the headers describe differs
		want.ResponseHeadersToAdd, got.ResponseHeadersToAdd = nil, nil
	}
	require.Truef(t, proto.Equal(want, got), "the reference: %v\nthe service:   %v\n%s", want, got, state)
}

// A side is the service, or the reference.
type side struct {
	service pb.RateLimitServiceServer
	manager stats.Manager
	set     func(config.RateLimitConfig)
	limits  config.RateLimitConfig
}

// load loads a configuration, or an empty one.
func (s *side) load(t *testing.T, text []byte) config.RateLimitConfig {
	var files []config.RateLimitConfigToLoad
	if text != nil {
		parsed := config.ConfigFileContentToYaml("random", string(text))
		files = append(files, config.RateLimitConfigToLoad{Name: "random", ConfigYaml: parsed})
	}
	s.limits = config.NewRateLimitConfigImpl(files, s.manager, false)
	s.set(s.limits)
	return s.limits
}

// counts returns the statistics of the limit of a descriptor.
func (s *side) counts(t *testing.T, domain string, descriptor *common.RateLimitDescriptor) map[string]uint64 {
	limit := s.limits.GetLimit(t.Context(), domain, descriptor)
	if limit == nil {
		return nil
	}
	counted := limit.Stats
	return map[string]uint64{limit.FullKey: 0, "total": counted.TotalHits.Value(), "within": counted.WithinLimit.Value(),
		"near": counted.NearLimit.Value(), "over": counted.OverLimit.Value(), "shadow": counted.ShadowMode.Value()}
}

func newManager() stats.Manager {
	return stats.NewStatManager(gostats.NewStore(gostats.NewNullSink(), false), settings.Settings{})
}

func newOurs(t *testing.T) *side {
	s := settings.NewSettings()
	ours := &side{manager: newManager()}
	decider, err := backend.New(s, backend.Events{
		Failed:   func() { t.Error("Redis has failed") },
		NotAsked: func() { t.Error("Redis was not asked") },
	})
	require.NoError(t, err)
	t.Cleanup(func() { decider.Close(context.Background()) })
	var current config.RateLimitConfig
	ours.set = func(limits config.RateLimitConfig) { current = limits }
	ours.service = NewService(s, func() (config.RateLimitConfig, bool, bool) { return current, false, false }, decider,
		ours.manager.NewServiceStats())
	return ours
}

func newTheirs(t *testing.T, address string) *side {
	theirs := &side{manager: newManager()}
	client := redis.NewClientImpl(theirs.manager.GetStatsStore(), false, "", "tcp", "single", address, 2, 0, 0, nil,
		false, nil, servertest.Patience, "WAIT", "")
	t.Cleanup(func() { client.Close() })
	cache := redis.NewFixedRateLimitCacheImpl(client, nil, still{}, rand.New(rand.NewSource(1)), 0, nil, 0.8, "",
		theirs.manager, false)
	service := ratelimit.NewService(cache, silent{}, theirs.manager,
		server.NewHealthChecker(health.NewServer(), "ratelimit", false), still{}, false, true, false)
	theirs.set = func(limits config.RateLimitConfig) { service.SetConfig(loaded{limits}, false) }
	theirs.service = service
	return theirs
}

// A still clock stands at the begin of all windows.
type still struct{}

func (still) UnixNow() int64 { return 0 }

// A silent provider has no configurations: the test sets them.
type silent struct{}

func (silent) ConfigUpdateEvent() <-chan provider.ConfigUpdateEvent { return nil }
func (silent) Stop()                                                {}

type loaded struct{ limits config.RateLimitConfig }

func (l loaded) GetConfig() (config.RateLimitConfig, any) { return l.limits, nil }

// A generator makes configurations and requests, and knows what was used of each limit.
type generator struct {
	*randv2.Rand
	domain string
	limits config.RateLimitConfig
	used   map[string]uint64 // by the reference's key
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

var units = []string{"second", "minute", "hour", "day", "week", "month", "year"}

// configuration returns a configuration in JSON, which is YAML.
func (g *generator) configuration() []byte {
	text, err := json.Marshal(map[string]any{"domain": g.domain, "descriptors": g.descriptors(2)})
	if err != nil {
		panic(err)
	}
	return text
}

func (g *generator) descriptors(depth int) (descriptors []map[string]any) {
	known := map[string]bool{}
	for range 2 + g.IntN(5) {
		key, value := g.one("a", "b"), g.one("", "", "x", "y", "x*", "*")
		if known[key+value] {
			continue
		}
		known[key+value] = true
		descriptor := map[string]any{"key": key}
		if value != "" {
			descriptor["value"] = value
		}
		for _, name := range []string{"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric"} {
			if g.chance(20) {
				descriptor[name] = true
			}
		}
		if strings.HasSuffix(value, "*") && g.chance(40) {
			descriptor["share_threshold"] = true
		}
		if g.chance(80) {
			descriptor["rate_limit"] = g.rateLimit()
		}
		if depth > 1 && g.chance(40) {
			descriptor["descriptors"] = g.descriptors(depth - 1)
		}
		descriptors = append(descriptors, descriptor)
	}
	return descriptors
}

func (g *generator) rateLimit() map[string]any {
	if g.chance(15) {
		return map[string]any{"unlimited": true}
	}
	limit := map[string]any{"unit": g.one(units...), "requests_per_unit": g.IntN(9)}
	if g.chance(40) {
		limit["name"] = g.one("one", "two")
	} else if g.chance(40) {
		limit["replaces"] = []map[string]any{{"name": g.one("one", "two")}}
	}
	return limit
}

// request returns a request, or nil if the services mean different things by it.
func (g *generator) request() *pb.RateLimitRequest {
	request := &pb.RateLimitRequest{Domain: g.domain, HitsAddend: uint32(g.IntN(4))}
	switch {
	case g.chance(2):
		return &pb.RateLimitRequest{Domain: g.domain}
	case g.chance(3):
		request.Domain = g.one("", "unknown")
	}
	for range 1 + g.IntN(4) {
		descriptor := &common.RateLimitDescriptor{}
		for range 1 + g.IntN(2) {
			descriptor.Entries = append(descriptor.Entries,
				&common.RateLimitDescriptor_Entry{Key: g.one("a", "a", "b", "b", "none"), Value: g.one("", "x", "y", "xx")})
		}
		if g.chance(30) {
			descriptor.HitsAddend = wrapperspb.UInt64(g.Uint64N(4))
		}
		if g.chance(10) {
			count, unit := 1+g.Uint32N(9), 1+g.Int32N(int32(len(units)))
			descriptor.Entries = []*common.RateLimitDescriptor_Entry{{Key: "own", Value: fmt.Sprint(count, " by ", unit)}}
			descriptor.Limit = &common.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: count, Unit: typev3.RateLimitUnit(unit)}
		}
		request.Descriptors = append(request.Descriptors, descriptor)
	}
	seen := map[string]bool{}
	for _, c := range g.counted(request) {
		if seen[c.key] || c.hits == 0 && g.used[c.key] >= c.most {
			return nil
		}
		seen[c.key] = true
	}
	return request
}

// A counted descriptor has a limit, so the reference counts it.
type counted struct {
	key, mode  string
	hits, most uint64
}

var keys = limiter.NewCacheKeyGenerator("")

// counted returns the descriptors of a request that have limits.
func (g *generator) counted(request *pb.RateLimitRequest) (all []counted) {
	limits := limitsOf(context.Background(), g.limits, request)
	hits := utils.GetHitsAddends(request)
	for i, limit := range limits.apply {
		if limit == nil {
			continue
		}
		c := counted{hits: hits[i], most: uint64(limit.Limit.RequestsPerUnit)}
		c.key = keys.GenerateCacheKey(request.Domain, request.Descriptors[i], limit, 0).Key
		switch {
		case limit.ShadowMode: // in both modes too, shadow mode comes first
			c.mode = " in shadow mode"
		case limit.QuotaMode:
			c.mode = " in quota mode"
		}
		all = append(all, c)
	}
	return all
}

// count counts a request as the reference does, and notes what the request is about. It reports
// whether the request goes over a limit.
func (g *generator) count(request *pb.RateLimitRequest, met map[string]int) (exceeds bool) {
	all := g.counted(request)
	for _, c := range all {
		g.used[c.key] += c.hits
		switch {
		case g.used[c.key] > c.most:
			met["over"+c.mode]++
			exceeds = true
		case c.hits == 0:
			met["hits 0"]++
		default:
			met["within"]++
		}
	}
	if len(all) > 1 {
		met["several limits"]++
	}
	limits := limitsOf(context.Background(), g.limits, request)
	for i, descriptor := range request.Descriptors {
		limit := g.limits.GetLimit(context.Background(), request.Domain, descriptor)
		switch {
		case limit == nil:
			met["no limit"]++
		case limits.isUnlimited[i]:
			met["unlimited"]++
		case limits.apply[i] == nil:
			met["replaced"]++
		case descriptor.Limit != nil:
			met["limit of the request"]++
		}
	}
	return exceeds
}
