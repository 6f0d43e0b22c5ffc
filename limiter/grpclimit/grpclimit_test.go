// A limited call tells its client when to try again. Other errors tell a client no more than it needs.
// Calls and streams hold their slots until the handlers return.

package grpclimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/grpclimit"
)

// told returns all that a client learns from an answer.
func told(err error, trailer metadata.MD) string {
	answer := status.Convert(err)
	words := []any{answer.Code(), answer.Message(), trailer["grpc-retry-pushback-ms"]}
	for _, detail := range answer.Details() {
		switch detail := detail.(type) {
		case *errdetails.RetryInfo:
			words = append(words, detail.RetryDelay.AsDuration())
		case *errdetails.QuotaFailure:
			v := detail.Violations[0]
			words = append(words, v.Subject, v.QuotaId, v.Description, v.QuotaValue)
		}
	}
	return strings.TrimSpace(fmt.Sprintln(words...))
}

// serve starts a service behind a policy, and connects to it.
func serve(t *testing.T, limited *grpclimit.Policy) (healthpb.HealthClient, *health.Server) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(limited.Unary), grpc.StreamInterceptor(limited.Stream))
	service := health.NewServer()
	t.Cleanup(server.Stop)
	healthpb.RegisterHealthServer(server, service)
	go server.Serve(listener)
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return healthpb.NewHealthClient(connection), service
}

// At one instant both kinds of call are allowed as often as their funnel has tokens. Then the answer says when the next
// call is allowed. A stream takes one token, however many messages it sends. A call that never fits tells the client
// not to retry, by gRFC A6.
func TestLimitedCalls(t *testing.T) {
	const policy = "v2:re v2:re 30 per minute, capacity 2 2"
	rdb, clock := servertest.StartWithClock(t)
	l := limiter.New(rdb, limiter.WithPrefix("app:"))
	limited := grpclimit.New(l, limiter.PerMinute(30).WithCapacity(2), grpclimit.WithName("v2:re"),
		grpclimit.WithKey(grpclimit.Join(grpclimit.ByMethod(), grpclimit.ByPeer())),
		grpclimit.WithCost(func(_ context.Context, call grpclimit.Call) int {
			request, _ := call.Request.(*healthpb.HealthCheckRequest) // nil for a stream
			return 1 + len(request.GetService())
		}))
	client, service := serve(t, limited)
	for _, call := range []func(grpc.CallOption) error{func(trailer grpc.CallOption) error {
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}, trailer)
		return err
	}, func(trailer grpc.CallOption) error {
		stream, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{}, trailer)
		for i := 0; err == nil && i < 4; i++ {
			service.SetServingStatus("", healthpb.HealthCheckResponse_ServingStatus(1+i%2))
			_, err = stream.Recv()
		}
		service.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
		return err
	}} {
		for _, step := range []struct {
			after time.Duration
			told  string
		}{
			{0, "OK  []"},
			{0, "OK  []"},
			{0, "ResourceExhausted too many calls: try again in 2 seconds [2000] " + policy + " 2s"},
			{2*time.Second - 1, "ResourceExhausted too many calls: try again in 1 seconds [1] " + policy + " 1ns"},
			{2 * time.Second, "OK  []"},
		} {
			clock.Set(t, servertest.Epoch.Add(step.after))
			var trailer metadata.MD
			require.Equal(t, step.told, told(call(grpc.Trailer(&trailer)), trailer))
		}
	}
	var trailer metadata.MD
	_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "xx"}, grpc.Trailer(&trailer))
	require.Equal(t, "ResourceExhausted call too large: it costs 3, and at most 2 can be granted [-1] "+policy,
		told(err, trailer))
	require.ElementsMatch(t, []string{
		`app:v2\:re:/grpc.health.v1.Health/Check|127.0.0.1`,
		`app:v2\:re:/grpc.health.v1.Health/Watch|127.0.0.1`,
	}, rdb.Keys(t.Context(), "*").Val())
}

// The log gets the cause of an error, and clients do not. In shadow mode all calls get to their handlers. A handler
// gets the Result.
func TestAnswers(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	cost := func(n int) grpclimit.Option {
		return grpclimit.WithCost(func(context.Context, grpclimit.Call) int { return n })
	}
	perSecond := func(n int) grpclimit.Option {
		return grpclimit.WithLimit(func(context.Context, grpclimit.Call) limiter.Limit { return limiter.PerSecond(n) })
	}
	skip := grpclimit.WithSkip(func(_ context.Context, call grpclimit.Call) bool { return call.Method == "/m" })
	log, previous := new(strings.Builder), slog.Default()
	defer slog.SetDefault(previous)
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	const tooLarge = "ResourceExhausted call too large: it costs 9223372036854775807, and at most 1 can be granted []"
	const over = "ResourceExhausted too many calls: the quota has ended [] reply reply 1 until 2026-11-01T00:00:00Z 1"
	ended := grpclimit.WithLimit(func(context.Context, grpclimit.Call) limiter.Limit {
		return limiter.Until(1, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	})
	const none = "ResourceExhausted call too large: it costs 1, and at most 0 can be granted [] all all 0 per day in UTC 0"
	also := grpclimit.WithAlso("all", limiter.Daily(0, time.UTC), func(context.Context, grpclimit.Call) string { return "" })
	const outOfRange = "Internal the limit, the cost or the key of this call is not valid []"
	const unchecked = "Unavailable rate limits cannot be checked: try again later []"
	for name, test := range map[string]struct {
		ctx       context.Context
		redis     bool // which is down
		option    grpclimit.Option
		told, log string
	}{
		"its own limit": {t.Context(), false, perSecond(9), "OK  []", ""},
		"skipped":       {t.Context(), true, skip, "OK  []", ""},
		"too large":     {t.Context(), false, cost(math.MaxInt), tooLarge + " reply reply 1 per second, capacity 1 1", ""},
		"ended":         {t.Context(), false, ended, over, ""},
		"another limit": {t.Context(), false, also, none, ""},
		"no Redis":      {t.Context(), true, cost(1), unchecked, "127.0.0.1:1"},
		"negative cost": {t.Context(), false, cost(-1), outOfRange, gcra.ErrQuantity.Error()},
		"invalid limit": {t.Context(), false, perSecond(-1), outOfRange, "-1 per second"},
		"gone":          {gone, false, cost(1), "Canceled context canceled []", ""},
	} {
		var l limiter.Allower = limiter.NewLocal()
		if test.redis {
			l = limiter.New(rdb)
		}
		call := func(l limiter.Allower) (reached bool, err error) {
			policy := grpclimit.New(l, limiter.PerSecond(1), grpclimit.WithName("reply"), test.option)
			handler := func(ctx context.Context, _ any) (any, error) {
				_, hasResult := grpclimit.ResultFrom(ctx)
				require.Equal(t, name != "skipped", hasResult, name)
				reached = true
				return nil, nil
			}
			_, err = policy.Unary(test.ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/m"}, handler)
			return reached, err
		}
		log.Reset()
		reached, err := call(l)
		require.Equal(t, test.told, told(err, nil), name)
		require.Equal(t, err == nil, reached, name)
		require.Equal(t, test.log == "", log.Len() == 0, name)
		require.Contains(t, log.String(), test.log)
		if name == "another limit" { // Shadow has no AllowAll
			continue
		}
		reached, err = call(limiter.Shadow(l, nil))
		isGone := test.ctx.Err() != nil // then nobody waits for the handler, even in Shadow
		require.Equal(t, !isGone, reached, name)
		require.Equal(t, isGone, err != nil, "%s: %v", name, err)
	}
}

// Clients with deadlines of some milliseconds take no slot from others: when they have gone, all slots are
// free, and no connection to Redis was closed by them.
func TestSlotsOfHastyClients(t *testing.T) {
	for _, honors := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled %v", honors), func(t *testing.T) {
			rdb := servertest.StartModule(t).Client(t, func(options *redis.Options) {
				options.ContextTimeoutEnabled, options.MinIdleConns = honors, 10
			})
			l := limiter.New(rdb, limiter.WithTimeout(servertest.Patience))
			slots := limiter.Slots{Max: 8, TTL: time.Minute}
			client, _ := serve(t, grpclimit.New(l, limiter.PerSecond(1_000_000), grpclimit.WithName("p"), grpclimit.WithSlots(slots)))
			check := func(within time.Duration) error {
				ctx, cancel := context.WithTimeout(context.Background(), within)
				defer cancel()
				_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
				return err
			}
			require.NoError(t, check(time.Minute))
			servertest.Eventually(t, "the pool is warm", func() bool { return rdb.PoolStats().IdleConns >= 10 })
			before := rdb.PoolStats().TotalConns
			ends := time.Now().Add(servertest.QuickOrLong(time.Second, 10*time.Second))
			var group sync.WaitGroup
			var gaveUp atomic.Int64
			for range 6 {
				group.Go(func() {
					for time.Now().Before(ends) {
						if check(100*time.Microsecond+rand.N(3900*time.Microsecond)) != nil {
							gaveUp.Add(1)
						}
					}
				})
			}
			group.Wait()
			require.Positive(t, gaveUp.Load())
			servertest.Eventually(t, "the handlers have returned, and nothing is under way", func() bool {
				left, err := l.Drain(t.Context())
				return err == nil && left == 0 && rdb.Exists(t.Context(), "{p:127.0.0.1}:slots").Val() == 0
			})
			require.GreaterOrEqual(t, rdb.PoolStats().TotalConns, before, "no connection was closed")
			t.Logf("%d calls gave up", gaveUp.Load())
		})
	}
}

// grpclimit and httplimit make the same keys from the same addresses, values and paths.
func TestKeys(t *testing.T) {
	byPeer := grpclimit.ByPeer(netip.MustParsePrefix("10.0.0.0/8"))
	key := grpclimit.Join(grpclimit.ByMetadata("X-Api-Key", byPeer), grpclimit.ByMethod())
	for _, test := range []struct{ address, forwarded, secret, method, key string }{
		{"192.0.2.1:80", "198.51.100.1", "", "/s/{m}", "192.0.2.1|/s/%257Bm%257D"},
		{"10.0.0.7:80", "203.0.113.9, 2001:db8:1:2:3:4:5:6", "", "/s/m", "2001:db8:1:2::/64|/s/m"},
		{"10.0.0.7:80", "", "secret", "/s/m", "x-api-key:2bb80d537b1da3e38bd30361aa855686|/s/m"},
	} {
		client := &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(test.address))}
		ctx := metadata.NewIncomingContext(peer.NewContext(t.Context(), client),
			metadata.Pairs("x-forwarded-for", test.forwarded, "x-api-key", test.secret))
		require.Equal(t, test.key, key(ctx, grpclimit.Call{Method: test.method}))
	}
	ofClient := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "10.0.0.7", Net: "unix"}}) // as it says
	require.Equal(t, "unknown", grpclimit.ByPeer()(ofClient, grpclimit.Call{}))
	require.Equal(t, "x-api-key:", grpclimit.ByMetadata("X-Api-Key", nil)(t.Context(), grpclimit.Call{}))
}

func TestPanics(t *testing.T) {
	require.Panics(t, func() { grpclimit.New((*limiter.Limiter)(nil), limiter.PerSecond(1)) })
	require.Panics(t, func() { grpclimit.New(limiter.NewLocal(), limiter.PerSecond(0)) })
	require.Panics(t, func() { grpclimit.New(limiter.NewLocal(), limiter.PerSecond(1), grpclimit.WithKey(nil)) })
	require.Panics(t, func() { grpclimit.WithName("") })
	require.Panics(t, func() { grpclimit.WithName("\xff") })
}

// A bareStream has a context and nothing else.
type bareStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s bareStream) Context() context.Context { return s.ctx }

func TestSlots(t *testing.T) {
	l := limiter.NewLocal()
	limited := grpclimit.New(l, limiter.PerSecond(1000), grpclimit.WithSlots(limiter.Slots{Max: 1, TTL: time.Minute}))
	client, _ := serve(t, limited)
	check := func(trailer *metadata.MD) error {
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Trailer(trailer))
		return err
	}

	ctx, cancel := context.WithCancel(t.Context())
	stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	for range 2 {
		var trailer metadata.MD
		err = check(&trailer)
		require.Equal(t, "ResourceExhausted too many calls at once: try again in a moment []", told(err, trailer))
	}
	cancel()
	for range 3 {
		require.Eventually(t, func() bool { return check(&metadata.MD{}) == nil }, 10*time.Second, time.Millisecond)
	}

	// The context of a stream ends with its slot, and has the Result on the tokens.
	lost := grpclimit.New(l, limiter.PerSecond(1000), grpclimit.WithName("lost"),
		grpclimit.WithKey(func(context.Context, grpclimit.Call) string { return "key" }),
		grpclimit.WithSlots(limiter.Slots{Max: 1, TTL: time.Millisecond}))
	err = lost.Stream(nil, bareStream{ctx: t.Context()}, &grpc.StreamServerInfo{}, func(_ any, s grpc.ServerStream) error {
		ctx := s.Context()
		result, ok := grpclimit.ResultFrom(ctx)
		require.True(t, ok)
		require.Equal(t, "{lost:key}", result.Key)
		require.NoError(t, l.Reset(ctx, "{lost:key}:slots"))
		<-ctx.Done()
		return status.Error(codes.Aborted, context.Cause(ctx).Error())
	})
	require.ErrorContains(t, err, limiter.ErrSlotLost.Error())
	require.Panics(t, func() {
		second := limiter.Slots{Max: 1, TTL: time.Second}
		grpclimit.New(limiter.Shadow(l, nil), limiter.PerSecond(1), grpclimit.WithSlots(second))
	})
}
