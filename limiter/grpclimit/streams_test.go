// A stream is one call, unless its messages take tokens, too. Health checks take none. A client
// that leaves leaves nothing behind.

package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"funnel/limiter"
	"funnel/limiter/grpclimit"
)

// slow returns a limit whose funnel leaks nothing while a test runs.
func slow(capacity int) limiter.Limit { return limiter.Per(1, 24*time.Hour).WithCapacity(capacity) }

// everybody is a KeyFunc: all calls share one limit.
func everybody(grpclimit.Call) string { return "" }

// With WithMessages, a stream takes its cost when it begins and with each message, from all limits
// of the policy, and one slot. The message that does not fit ends the stream, and the client is
// told why.
func TestMessages(t *testing.T) {
	size := grpclimit.WithCost(func(call grpclimit.Call) int {
		message, isMessage := call.Request.(*testpb.StreamingOutputCallRequest)
		if !isMessage {
			return 1 // the beginning
		}
		return len(message.GetPayload().GetBody())
	})
	for name, c := range map[string]struct {
		options []grpclimit.Option
		answers int    // until the stream ends
		policy  string // that ends it
	}{
		"one call": {answers: 20},
		"each message": {
			options: []grpclimit.Option{grpclimit.WithMessages()}, answers: 9,
			policy: "p"},
		"each message, by its size": {
			options: []grpclimit.Option{grpclimit.WithMessages(), size}, answers: 3,
			policy: "p"},
		"another limit": {
			options: []grpclimit.Option{grpclimit.WithMessages(), grpclimit.WithAlso("all", slow(5), everybody)}, answers: 4,
			policy: "all"},
		"slots": {
			options: []grpclimit.Option{grpclimit.WithMessages(),
				grpclimit.WithSlots(limiter.Slots{Max: 1, TTL: time.Minute})},
			answers: 9, policy: "p"},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter.NewLocal()
			client := serve(t, grpclimit.New(l, "p", slow(10), append(c.options, grpclimit.WithKey(everybody))...))
			stream, err := client.FullDuplexCall(t.Context())
			require.NoError(t, err)
			answers := 0
			for answers < 20 {
				_ = stream.Send(&testpb.StreamingOutputCallRequest{Payload: &testpb.Payload{Body: []byte("abc")}})
				_, err = stream.Recv()
				if err != nil {
					break
				}
				answers++
			}
			require.Equal(t, c.answers, answers)
			if c.policy == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
			text := status.Convert(err).Message()
			require.Regexp(t, `^too many calls: try again in \d+ seconds \(policy "`+c.policy+`"\)$`, text)
			require.NotEmpty(t, stream.Trailer()["grpc-retry-pushback-ms"])
		})
	}
}

// The health service is never limited: a busy server says that it is alive.
func TestHealthChecksPass(t *testing.T) {
	connection := connect(t, grpclimit.New(limiter.NewLocal(), "p", slow(1), grpclimit.WithKey(everybody)))
	call := func() error {
		_, err := testpb.NewTestServiceClient(connection).UnaryCall(t.Context(), &testpb.SimpleRequest{})
		return err
	}
	require.NoError(t, call())
	require.Equal(t, codes.ResourceExhausted, status.Code(call()))
	client := healthpb.NewHealthClient(connection)
	for range 3 {
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = client.List(t.Context(), &healthpb.HealthListRequest{})
		require.NoError(t, err)
		stream, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
	}
}

// A stream whose messages come from a test.
type messages struct {
	grpc.ServerStream
	ctx context.Context
}

func (s messages) Context() context.Context     { return s.ctx }
func (s messages) RecvMsg(any) error            { return nil }
func (s messages) SetTrailer(_ metadata.MD)     {}
func (s messages) SendHeader(metadata.MD) error { return nil }

// A client that leaves while its call is decided, or a message of its stream, gets CANCELED, or
// DEADLINE_EXCEEDED if its deadline has passed. The handler does not run, and tokens and slots are
// given back.
func TestClientsWhoLeave(t *testing.T) {
	for name, c := range map[string]struct {
		leavesAt int // which decision
		deadline bool
		want     codes.Code
		begins   bool // the handler
		used     int
	}{
		"canceled, at the beginning": {leavesAt: 1, want: codes.Canceled},
		"too late, at the beginning": {leavesAt: 1, deadline: true, want: codes.DeadlineExceeded},
		"canceled, at a message":     {leavesAt: 3, want: codes.Canceled, begins: true, used: 2},
		"too late, at a message":     {leavesAt: 3, deadline: true, want: codes.DeadlineExceeded, begins: true, used: 2},
		"nobody leaves, for control": {leavesAt: 9, want: codes.OK, begins: true, used: 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if c.deadline {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Minute)
				defer cancel()
				leave = func() { <-ctx.Done() }
			}
			decisions := 0
			l := limiter.NewLocal(limiter.WithHook(func(_ context.Context, event limiter.Event) {
				if event.Command == "reserve" && event.Result.Slots.Max == 0 {
					decisions++
					if decisions == c.leavesAt {
						leave()
					}
				}
			}))
			slots := limiter.Slots{Max: 1, TTL: time.Hour}
			policy := grpclimit.New(l, "p", slow(9), grpclimit.WithKey(everybody), grpclimit.WithMessages(),
				grpclimit.WithSlots(slots))
			begins := false
			err := policy.Stream(nil, messages{ctx: ctx}, &grpc.StreamServerInfo{}, func(_ any, s grpc.ServerStream) error {
				begins = true
				for range 3 {
					err := s.RecvMsg(nil)
					if err != nil {
						return err
					}
				}
				return nil
			})
			synctest.Wait()
			require.Equal(t, c.want, status.Code(err), name)
			require.Equal(t, c.begins, begins, name)
			tokens, err := l.Peek(t.Context(), grpclimit.LimitKey("p", "", slow(9)), slow(9))
			require.NoError(t, err)
			require.Equal(t, 9-c.used, tokens.Remaining, name)
			free, err := l.PeekAll(t.Context(), slots.At(grpclimit.SlotsKey("p", "")))
			require.NoError(t, err)
			require.Equal(t, 1, free[0].Remaining, name)
		})
	}
}
