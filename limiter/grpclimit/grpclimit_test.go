// A limited call tells its client when to try again, and which policy refuses it. Other errors tell
// a client no more than it needs.

package grpclimit_test

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"funnel/gcra"
	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/grpclimit"
)

// At one instant both kinds of call are allowed as often as their funnel has tokens. Then the
// answer says when the next call is allowed. A stream takes one token, however many messages it
// sends. A call that never fits tells the client not to retry, by gRFC A6.
func TestLimitedCalls(t *testing.T) {
	const by, policy = ` (policy "v2:re") `, "v2:re v2:re 30 per minute, capacity 2 2"
	rdb, clock := servertest.StartWithClock(t)
	l := limiter.New(rdb, limiter.WithPrefix("app:"))
	limited := grpclimit.New(l, "v2:re", limiter.PerMinute(30).WithCapacity(2),
		grpclimit.WithKey(grpclimit.Join(grpclimit.ByMethod(), grpclimit.ByPeer())),
		grpclimit.WithCost(func(call grpclimit.Call) int {
			request, _ := call.Request.(*testpb.SimpleRequest) // nil for a stream
			return 1 + len(request.GetPayload().GetBody())
		}))
	client := serve(t, limited)
	for _, call := range []func(grpc.CallOption) error{func(trailer grpc.CallOption) error {
		_, err := client.UnaryCall(t.Context(), &testpb.SimpleRequest{}, trailer)
		return err
	}, func(trailer grpc.CallOption) error {
		stream, err := client.FullDuplexCall(t.Context(), trailer)
		for i := 0; err == nil && i < 4; i++ {
			_ = stream.Send(&testpb.StreamingOutputCallRequest{}) // Recv says what is wrong
			_, err = stream.Recv()
		}
		return err
	}} {
		for _, step := range []struct {
			after time.Duration
			told  string
		}{
			{0, "OK  []"},
			{0, "OK  []"},
			{0, "ResourceExhausted too many calls: try again in 2 seconds" + by + "[2000] " + policy + " 2s"},
			{2*time.Second - 1, "ResourceExhausted too many calls: try again in 1 second" + by + "[1] " + policy + " 1ns"},
			{2 * time.Second, "OK  []"},
		} {
			clock.Set(t, servertest.Epoch.Add(step.after))
			var trailer metadata.MD
			require.Equal(t, step.told, told(call(grpc.Trailer(&trailer)), trailer))
		}
	}
	var trailer metadata.MD
	_, err := client.UnaryCall(t.Context(), &testpb.SimpleRequest{Payload: &testpb.Payload{Body: []byte("xx")}},
		grpc.Trailer(&trailer))
	require.Equal(t, "ResourceExhausted call too large: it costs 3, and at most 2 can be granted"+by+"[-1] "+policy,
		told(err, trailer))
	require.ElementsMatch(t, []string{
		`app:{v2\:re:/grpc.testing.TestService/UnaryCall|127.0.0.1}:rate`,
		`app:{v2\:re:/grpc.testing.TestService/FullDuplexCall|127.0.0.1}:rate`,
	}, rdb.Keys(t.Context(), "*").Val())
}

// The log gets the cause of an error, and clients do not. In shadow mode all calls get to their
// handlers. A handler gets the Result.
func TestAnswers(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	one := limiter.PerSecond(1)
	cost := func(n int) grpclimit.Option {
		return grpclimit.WithCost(func(grpclimit.Call) int { return n })
	}
	skip := grpclimit.WithSkip(func(call grpclimit.Call) bool { return call.Method == "/m" })
	log, previous := new(strings.Builder), slog.Default()
	defer slog.SetDefault(previous)
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	const tooLarge = "ResourceExhausted call too large: it costs 9223372036854775807, " +
		"and at most 1 can be granted (policy \"reply\") []" +
		" reply reply 1 per second, capacity 1 1"
	const over = "ResourceExhausted too many calls: the quota has ended (policy \"reply\") []" +
		" reply reply 1 until 2026-11-01T00:00:00Z 1"
	ended := limiter.Until(1, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	const none = "ResourceExhausted call too large: it costs 1, and at most 0 can be granted (policy \"all\") []" +
		" all all 0 per day in UTC 0"
	also := grpclimit.WithAlso("all", limiter.Daily(0, time.UTC), func(grpclimit.Call) string { return "" })
	const outOfRange = "Internal the limit, the cost or the key of this call is not valid []"
	const unchecked = "Unavailable rate limits cannot be checked: try again later []"
	for name, test := range map[string]struct {
		ctx       context.Context
		isDown    bool // Redis is
		limit     limiter.Limit
		option    grpclimit.Option
		told, log string
	}{
		"allowed":       {ctx: t.Context(), limit: limiter.PerSecond(9), option: cost(1), told: "OK  []"},
		"skipped":       {ctx: t.Context(), isDown: true, limit: one, option: skip, told: "OK  []"},
		"too large":     {ctx: t.Context(), limit: one, option: cost(math.MaxInt), told: tooLarge},
		"ended":         {ctx: t.Context(), limit: ended, option: cost(1), told: over},
		"another limit": {ctx: t.Context(), limit: one, option: also, told: none},
		"no Redis":      {ctx: t.Context(), isDown: true, limit: one, option: cost(1), told: unchecked, log: "127.0.0.1:1"},
		"negative cost": {ctx: t.Context(), limit: one, option: cost(-1), told: outOfRange, log: gcra.ErrQuantity.Error()},
		"invalid limit": {
			ctx: t.Context(), limit: limiter.PerSecond(-1), option: cost(1), told: outOfRange, log: "-1 per second"},
		"gone": {ctx: gone, limit: one, option: cost(1), told: "Canceled context canceled []"},
		"late": {ctx: late, limit: one, option: cost(1), told: "DeadlineExceeded context deadline exceeded []"},
	} {
		var l limiter.Allower = limiter.NewLocal()
		if test.isDown {
			l = limiter.New(rdb)
		}
		call := func(l limiter.Allower) (reached bool, err error) {
			policy := grpclimit.New(l, "reply", func(grpclimit.Call) limiter.Limit { return test.limit }, test.option)
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

// New panics in the name of its package. Package httplimit tests the same options.
func TestPanics(t *testing.T) {
	l := limiter.NewLocal()
	for want, make := range map[string]func(){
		"New needs a Limiter, not nil": func() { grpclimit.New((*limiter.Limiter)(nil), "p", limiter.PerSecond(1)) },
		`New needs a name for the policy, such as "login", not "": it is part of the keys in Redis, so that no two ` +
			"policies share a limit by accident, and of what clients are told": func() {
			grpclimit.New(l, "", limiter.PerSecond(1))
		},
		"WithKey needs a function, not nil": func() { grpclimit.New(l, "p", limiter.PerSecond(1), grpclimit.WithKey(nil)) },
		"WithSlots needs a Limiter with TryAcquire": func() {
			slots := limiter.Slots{Max: 1, TTL: time.Second}
			grpclimit.New(limiter.Shadow(l, nil), "p", limiter.PerSecond(1), grpclimit.WithSlots(slots))
		},
	} {
		require.PanicsWithValue(t, "grpclimit: "+want, make)
	}
}
