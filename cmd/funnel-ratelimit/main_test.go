// The service gets requests by gRPC, and asks real servers: what it answers, what it counts, and
// what it does if it cannot decide.

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"funnel/internal/servertest"
)

type served struct {
	client pb.RateLimitServiceClient
	config string // the folder of the configuration
}

// serve starts the service with the configuration in testdata.
func serve(t testing.TB, redis string, environment ...string) served {
	return serveBy(t, func(s settings.Settings) (stop func()) {
		srv, err := newServer(s)
		require.NoError(t, err)
		go func() { assert.NoError(t, srv.Start()) }()
		return srv.Stop
	}, redis, environment...)
}

func serveBy(t testing.TB, start func(settings.Settings) (stop func()), redis string,
	environment ...string) served {
	folder := t.TempDir()
	port := strconv.Itoa(servertest.FreePort(t))
	service := served{config: filepath.Join(folder, "config")}
	require.NoError(t, os.CopyFS(service.config, os.DirFS("testdata")))
	for _, setting := range append([]string{
		"HOST=127.0.0.1", "PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port,
		"RUNTIME_ROOT=" + folder, "RUNTIME_WATCH_ROOT=false", "DISABLE_STATS=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "REDIS_TIMEOUT=5s",
	}, environment...) {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	t.Cleanup(start(settings.NewSettings()))
	connection, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	service.client = pb.NewRateLimitServiceClient(connection)
	return service
}

// onPage returns what the group of an expression matches on a page in docs.
func onPage(t *testing.T, page, expression string) string {
	text, err := os.ReadFile("../../docs/" + page)
	require.NoError(t, err)
	match := regexp.MustCompile(expression).FindSubmatch(text)
	require.NotNil(t, match, "%s: %s", page, expression)
	return string(match[1])
}

// request reads "domain: key=value,key=value key=value#5", where #5 is the descriptor's
// hits_addend.
func request(text string) *pb.RateLimitRequest {
	domain, descriptors, _ := strings.Cut(text, ": ")
	request := &pb.RateLimitRequest{Domain: domain}
	for word := range strings.SplitSeq(descriptors, " ") {
		descriptor := &common.RateLimitDescriptor{}
		word, hits, found := strings.Cut(word, "#")
		number, err := strconv.ParseUint(hits, 10, 64)
		if found && err == nil {
			descriptor.HitsAddend = wrapperspb.UInt64(number)
		}
		for pair := range strings.SplitSeq(word, ",") {
			key, value, _ := strings.Cut(pair, "=")
			descriptor.Entries = append(descriptor.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		request.Descriptors = append(request.Descriptors, descriptor)
	}
	return request
}

// ask returns the answer as "OVER_LIMIT: OK 9 360s, OVER_LIMIT 0 1200s", or the error.
func (s served) ask(t *testing.T, text string) string {
	response, err := s.client.ShouldRateLimit(t.Context(), request(text))
	if err != nil {
		return err.Error()
	}
	answer := response.OverallCode.String()
	separator := ": "
	for _, status := range response.Statuses {
		answer += fmt.Sprint(separator, status.Code, " ", status.LimitRemaining)
		separator = ", "
		if status.DurationUntilReset != nil {
			answer += fmt.Sprint(" ", status.DurationUntilReset.Seconds, "s")
		}
	}
	return answer
}

// A step is a request, and how the service answers it if no time passes.
type step struct{ ask, answer string }

// A funnel of 10 an hour leaks a token in 360 s, one of 3 in 1200 s.
func TestAnswers(t *testing.T) {
	steps := []step{
		{"shop: user=1", "OK: OK 9 360s"},
		{"shop: user=1#5", "OK: OK 4 360s"},
		{"shop: user=1#5", "OVER_LIMIT: OVER_LIMIT 4 360s"},
		{"shop: user=1#18446744073709551615", "OVER_LIMIT: OVER_LIMIT 4 360s"}, // never fits
		{"shop: user=1#0", "OK: OK 4 360s"},
		{"shop: user=1 tenant=1#3", "OK: OK 3 360s, OK 0 1200s"},
		// One refuses: no other counts the request.
		{"shop: user=1 tenant=1 shadow=1 quota=1", "OVER_LIMIT: OK 3 360s, OVER_LIMIT 0 1200s, OK 1 0s, OK 1 0s"},
		{"shop: user=1 tenant=1#0", "OVER_LIMIT: OK 3 360s, OVER_LIMIT 0 1200s"},
		{"shop: user=1#5 closed=1", "OVER_LIMIT: OVER_LIMIT 3 720s, OVER_LIMIT 0 60s"},
		// The same key twice is one funnel.
		{"shop: user=1 user=1", "OK: OK 1 360s, OK 1 360s"},
		// These refuse no request. The service does not tell the reset of a quota.
		{"shop: user=2 shadow=1 quota=1", "OK: OK 9 360s, OK 0 3600s, OK 0 3600s"},
		{"shop: user=2 shadow=1 quota=1", "OK: OK 8 360s, OK 0 3600s, OK 0"},
		{"shop: free=1 other=1 user=2", "OK: OK 4294967295, OK 0, OK 7 360s"},
		{"none: user=1", "OK: OK 0"},
		{"shop: named=1", "OK: OK 0 3600s"},
		{"shop: named=1 replacing=1", "OK: OK 0, OK 4 720s"},
		{"shop: file=/a/1#2", "OK: OK 0 1800s"},
		{"shop: file=/a/2", "OVER_LIMIT: OVER_LIMIT 0 1800s"},
	}
	t.Run("module", func(t *testing.T) {
		rdb, clock := servertest.StartWithClock(t)
		clock.Set(t, servertest.Epoch)
		for _, setting := range []string{"FUNNEL_LEASE=0s", "FUNNEL_LEASE=1h"} {
			service := serve(t, rdb.Options().Addr, setting)
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			for _, step := range steps {
				require.Equal(t, step.answer, service.ask(t, step.ask), "%s: %s", setting, step.ask)
			}
		}
		service := serve(t, rdb.Options().Addr, "SOFT_BREACH_HEADER_RATIO=0.3", "FUNNEL_BURST_RATIO=0.5")
		for _, step := range []struct{ ask, headers string }{
			{"user=2 tenant=1", `Limit.*"3".*Remaining.*"0".*Reset.*"2400"[^-]*$`},
			{"user=3#3 tenant=3", `Limit.*"3".*Remaining.*"1".*Reset.*"1200"[^-]*$`}, // 2 of 5, and 1 of 2
			{"user=3 tenant=4", `Limit.*"10".*Remaining.*"1".*Reset.*"360".*x-ratelimit-soft-breach.*"1"`},
			{"user=3#2 tenant=3#0", `Limit.*"10".*Remaining.*"1".*Reset.*"360"[^-]*$`},
		} {
			response, err := service.client.ShouldRateLimit(t.Context(), request("shop: "+step.ask))
			require.NoError(t, err)
			require.Regexp(t, step.headers, fmt.Sprint(response.ResponseHeadersToAdd), step.ask)
		}
	})
	t.Run("script", func(t *testing.T) {
		service := serve(t, servertest.Start(t, servertest.Options{}).Client(t).Options().Addr)
		service.requireDecisions(t, steps)
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := servertest.StartCluster(t, 3, time.Second, servertest.Options{Module: servertest.Module(t)})
		rules := onPage(t, "operations.md", `acl setuser app on '>secret' '~user:\*' (.*)\n`)
		rules = onPage(t, "envoy.md", "`(~shop:\\*)`") + " " + strings.ReplaceAll(rules, "'", "")
		for _, node := range cluster.Nodes() {
			node.ClientOfUser(t, rules)
		}
		addresses := cluster.Primaries[0].Addr() + "," + cluster.Primaries[1].Addr()
		service := serve(t, addresses, "REDIS_TYPE=cluster", "REDIS_AUTH=user:secret")
		service.requireDecisions(t, steps)
		took := cluster.FailOver(t, "shop:hot=1:100000/SECOND", func() error {
			_, err := service.client.ShouldRateLimit(context.Background(), request("shop: hot=1"))
			return err
		})
		require.Less(t, took, 5*time.Second, "it is served again after a failover")
	})
	t.Run("sentinel", func(t *testing.T) {
		primary := servertest.Start(t, servertest.Options{})
		sentinel := servertest.StartSentinel(t, primary, "mymaster")
		serve(t, "mymaster,"+sentinel.Addr(), "REDIS_TYPE=sentinel").requireDecisions(t, steps)
	})
}

// requireDecisions asks step by step, and requires the overall code of each answer.
func (s served) requireDecisions(t *testing.T, steps []step) {
	for _, step := range steps {
		answer, _, _ := strings.Cut(s.ask(t, step.ask), " ")
		require.Equal(t, strings.Split(step.answer, " ")[0], answer, step.ask)
	}
}

// Descriptors with separators in them have keys of their own, and no key has a hash tag.
func TestKeys(t *testing.T) {
	rdb := servertest.Start(t, servertest.Options{Module: servertest.Module(t)}).Client(t)
	service := serve(t, rdb.Options().Addr, "CACHE_KEY_PREFIX=envoy:")
	hostile := request("a}{b: user=1")
	hostile.Descriptors[0].Entries[0].Value = "1,path=2:10/HOUR"
	_, err := service.client.ShouldRateLimit(t.Context(), hostile)
	require.NoError(t, err)
	long := strings.Repeat("x", 1_000_000)
	for _, text := range []string{"a}{b: user=1", "a}{b: user=1,path=2", "a}{b: user=" + long} {
		require.Equal(t, "OK: OK 9 360s", service.ask(t, text))
	}
	require.ElementsMatch(t, []string{
		"envoy:a%7D%7Bb:user=1%2Cpath%3D2%3A10%2FHOUR:10/HOUR",
		"envoy:a%7D%7Bb:user=1:10/HOUR",
		"envoy:a%7D%7Bb:user=1,path=2:10/HOUR",
		fmt.Sprintf("envoy:a%%7D%%7Bb:%x:10/HOUR", sha256.Sum256([]byte("user="+long))),
	}, rdb.Keys(t.Context(), "*").Val())
}

// These settings are not in the reference. The configuration changes while the service runs.
func TestSettings(t *testing.T) {
	rdb, clock := servertest.StartWithClock(t)
	clock.Set(t, servertest.Epoch)
	service := serve(t, rdb.Options().Addr, "FUNNEL_CHARGE=true", "FUNNEL_BURST_RATIO=0.5", "FUNNEL_LEASE=200ms")
	require.Equal(t, "OK: OK 5 0s", service.ask(t, "shop: user=1#0"))
	require.Equal(t, "OVER_LIMIT: OVER_LIMIT 0 2520s", service.ask(t, "shop: user=1#12")) // 7 more than the capacity
	require.Equal(t, "OVER_LIMIT: OVER_LIMIT 0 2880s", service.ask(t, "shop: user=1#0"))
	for _, seconds := range []int{3153598200, 3153598560} { // the second report would leak after 2262
		answer := service.ask(t, "shop: user=2#18446744073709551615")
		require.Equal(t, fmt.Sprintf("OVER_LIMIT: OVER_LIMIT 0 %ds", seconds), answer)
	}
	servertest.Eventually(t, "a lease that takes tokens ahead", func() bool {
		service.ask(t, "shop: hot=1")
		return strings.Contains(rdb.Info(t.Context(), "commandstats").Val(), "cl.take")
	})
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	require.Contains(t, service.ask(t, "shop: hot=1 user=1"), "OVER_LIMIT: OK 49")
	stats := rdb.Info(t.Context(), "commandstats").Val()
	require.Contains(t, stats, "cl.refund:calls=1,")
	require.NotContains(t, stats, "cl.peek", "the refund says what remains")
	file := filepath.Join(service.config, "shop.yaml")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(content, []byte("10"), []byte("40")), 0o644))
	servertest.Eventually(t, "the new limit", func() bool { return service.ask(t, "shop: user=1") == "OK: OK 19 90s" })
}

// Callers make up 100,000 descriptors, and domains with long names. Statistics of all of them would
// take over 200 MB.
func TestCallersDoNotFillTheMemory(t *testing.T) {
	service := serve(t, "127.0.0.1:1", "FUNNEL_DIAL_TIMEOUT=10ms")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 100 {
		many := request("shop:" + strings.Repeat(" x=", 1000))
		for j, descriptor := range many.Descriptors {
			descriptor.Entries[0].Value = fmt.Sprint(i, j)
			descriptor.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: 1}
		}
		_, err := service.client.ShouldRateLimit(t.Context(), many)
		require.ErrorContains(t, err, "more than 64 descriptors")
		require.Equal(t, "OK: OK 0", service.ask(t, fmt.Sprint(i, strings.Repeat("x", 1_000_000), ": x=")))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, after.HeapAlloc, before.HeapAlloc+25<<20)
}

func TestErrors(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	redis := server.Client(t).Options().Addr
	service := serve(t, redis)
	many := "shop: user=0"
	for i := range 64 {
		many += fmt.Sprint(" user=", 1+i)
	}
	require.Contains(t, service.ask(t, many), "more than 64 descriptors")
	override := request("shop: user=1")
	override.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}
	_, err := service.client.ShouldRateLimit(t.Context(), override)
	require.ErrorContains(t, err, "the limit of a descriptor has the unit UNKNOWN")
	server.Kill()
	require.Regexp(t, "EOF|connection refused", service.ask(t, "shop: user=1"))
	require.Equal(t, "OVER_LIMIT: OVER_LIMIT 0 60s, OK 10 0s", service.ask(t, "shop: closed=1 user=1"),
		"user is only looked at")
	require.Equal(t, "OK: OK 1 0s", service.ask(t, "shop: shadow=1"), "refuses no request")
	service = serve(t, redis, "FUNNEL_ON_FAILURE=local", "FUNNEL_DIAL_TIMEOUT=10ms")
	require.Equal(t, "OK: OK 9 360s", service.ask(t, "shop: user=1"))
	// The service checks these in the opposite order.
	for _, name := range []string{"REDIS_TYPE", "FUNNEL_BURST_RATIO", "FUNNEL_ON_FAILURE"} {
		t.Setenv(name, "7")
		_, err := newServer(settings.NewSettings())
		require.ErrorContains(t, err, name)
	}
}

// The page's commands show what remains of a customer's funnel and quota, and reset it. The keys in
// its table are the keys that the service writes.
func TestOneCustomer(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	service := serve(t, server.Addr(), "FUNNEL_QUOTAS=UTC")
	for _, c := range []struct {
		ask   string
		count uint32
		unit  typev3.RateLimitUnit
	}{
		{"shop: user=1#3", 100, typev3.RateLimitUnit_MINUTE},
		{"shop: user=1#3", 5000, typev3.RateLimitUnit_MONTH},
		{"shop: tenant=a b,path=/x", 10, typev3.RateLimitUnit_SECOND},
		{"shop: file=/a/1", 0, 0},
	} {
		asked := request(strings.ReplaceAll(c.ask, "a b", "a_b"))
		for _, entry := range asked.Descriptors[0].Entries {
			entry.Value = strings.ReplaceAll(entry.Value, "a_b", "a b")
		}
		if c.count > 0 {
			asked.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: c.count, Unit: c.unit}
		}
		_, err := service.client.ShouldRateLimit(t.Context(), asked)
		require.NoError(t, err)
	}
	for _, key := range server.Client(t).Keys(t.Context(), "*").Val() {
		onPage(t, "envoy.md", "(?m)^\\| .*\\| `("+regexp.QuoteMeta(key)+")` \\|$")
	}
	run := func(line string) string {
		line = onPage(t, "envoy.md", "(?m)^    (redis-cli "+line+".*)$")
		line = strings.Replace(line, "redis-cli", fmt.Sprint("redis-cli -p ", server.Port), 1)
		output, err := exec.Command("sh", "-c", line).Output()
		require.NoError(t, err)
		return string(output)
	}
	require.Regexp(t, `^0\n0\n0\n100\n9[78]\n`, run("cl.peek .*MINUTE"))
	require.Regexp(t, `^0\n0\n0\n5000\n4997\n`, run("cl.peek .*MONTH"))
	require.Equal(t, "1\n", run("del"))
	require.Regexp(t, `^0\n0\n0\n100\n100\n`, run("cl.peek .*MINUTE"))
}
