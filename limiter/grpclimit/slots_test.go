// Calls and streams hold their slots until the handlers return. A call for which only a slot is missing
// is not told when to come again.

package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"funnel/limiter"
	"funnel/limiter/grpclimit"
)

func TestSlots(t *testing.T) {
	l := limiter.NewLocal()
	limited := grpclimit.New(l, limiter.PerSecond(1000), grpclimit.WithSlots(limiter.Slots{Limit: 1, TTL: time.Minute}))
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

	// The context of a handler ends with its slot, and has the Result on the tokens.
	lost := grpclimit.New(l, limiter.PerSecond(1000), grpclimit.WithName("lost"),
		grpclimit.WithKey(func(context.Context, grpclimit.Call) string { return "key" }),
		grpclimit.WithSlots(limiter.Slots{Limit: 1, TTL: time.Millisecond}))
	_, err = lost.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) {
		result, ok := grpclimit.ResultFrom(ctx)
		require.True(t, ok)
		require.Equal(t, "{lost:key}", result.Key)
		require.NoError(t, l.Reset(ctx, "{lost:key}:slots"))
		<-ctx.Done()
		return nil, status.Error(codes.Aborted, context.Cause(ctx).Error())
	})
	require.ErrorContains(t, err, limiter.ErrSlotLost.Error())
	require.Panics(t, func() {
		grpclimit.New(limiter.Shadow(l, nil), limiter.PerSecond(1), grpclimit.WithSlots(limiter.Slots{Limit: 1, TTL: time.Second}))
	})
}
