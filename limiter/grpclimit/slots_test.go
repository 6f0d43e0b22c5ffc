// Calls and streams hold their slots until the handlers return.

package grpclimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/grpclimit"
)

// Clients with deadlines of some milliseconds take no slot from others: when they have gone, all
// slots are free, and no connection to Redis was closed by them.
func TestSlotsOfHastyClients(t *testing.T) {
	for _, honors := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled %v", honors), func(t *testing.T) {
			rdb := servertest.StartModule(t).Client(t, func(options *redis.Options) {
				options.ContextTimeoutEnabled, options.MinIdleConns = honors, 10
			})
			l := limiter.New(rdb, limiter.WithTimeout(servertest.Patience))
			slots := limiter.Slots{Max: 8, TTL: time.Minute}
			client := serve(t, grpclimit.New(l, "p", limiter.PerSecond(1_000_000), grpclimit.WithSlots(slots)))
			check := func(within time.Duration) error {
				ctx, cancel := context.WithTimeout(context.Background(), within)
				defer cancel()
				_, err := client.UnaryCall(ctx, &testpb.SimpleRequest{})
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
				return err == nil && left == 0 && rdb.Exists(t.Context(), grpclimit.SlotsKey("p", "127.0.0.1")).Val() == 0
			})
			require.GreaterOrEqual(t, rdb.PoolStats().TotalConns, before, "no connection was closed")
			t.Logf("%d calls gave up", gaveUp.Load())
		})
	}
}

// A bareStream has a context and nothing else.
type bareStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s bareStream) Context() context.Context { return s.ctx }

func TestSlots(t *testing.T) {
	l := limiter.NewLocal()
	limited := grpclimit.New(l, "p", limiter.PerSecond(1000), grpclimit.WithSlots(limiter.Slots{Max: 1, TTL: time.Minute}))
	client := serve(t, limited)
	call := func(trailer *metadata.MD) error {
		_, err := client.UnaryCall(t.Context(), &testpb.SimpleRequest{}, grpc.Trailer(trailer))
		return err
	}

	ctx, cancel := context.WithCancel(t.Context())
	stream, err := client.FullDuplexCall(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&testpb.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	require.NoError(t, err)
	for range 2 {
		var trailer metadata.MD
		err = call(&trailer)
		require.Equal(t, `ResourceExhausted too many calls at once: try again in a moment (policy "p") [] p p 1 at once 1`,
			told(err, trailer))
	}
	cancel()
	for range 3 {
		servertest.Eventually(t, "the slot is back", func() bool { return call(&metadata.MD{}) == nil })
	}

	// The context of a stream ends with its slot, and has the Result on the tokens.
	lost := grpclimit.New(l, "lost", limiter.PerSecond(1000),
		grpclimit.WithKey(func(grpclimit.Call) string { return "key" }),
		grpclimit.WithSlots(limiter.Slots{Max: 1, TTL: time.Millisecond}))
	err = lost.Stream(nil, bareStream{ctx: t.Context()}, &grpc.StreamServerInfo{}, func(_ any, s grpc.ServerStream) error {
		ctx := s.Context()
		result, ok := grpclimit.ResultFrom(ctx)
		require.True(t, ok)
		require.Equal(t, grpclimit.LimitKey("lost", "key", result.Limit), result.Key)
		require.NoError(t, l.Reset(ctx, grpclimit.SlotsKey("lost", "key")))
		<-ctx.Done()
		return status.Error(codes.Aborted, context.Cause(ctx).Error())
	})
	require.ErrorContains(t, err, limiter.ErrSlotLost.Error())
}
