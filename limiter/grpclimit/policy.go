package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// A Call is what a [Policy] decides on.
type Call struct {
	Method  string // the full one: "/grpc.health.v1.Health/Check"
	Request any    // the message of a unary call; nil for streams, which have not sent one yet
}

// A Policy limits the rate of calls. Its methods [Policy.Unary] and [Policy.Stream] are the
// interceptors.
type Policy struct {
	policy policy.Policy
	name   string
	key    KeyFunc

	// nil for what New says
	limitOf func(context.Context, Call) limiter.Limit
	cost    func(context.Context, Call) int
	skip    func(context.Context, Call) bool
}

// New returns a policy that asks l to allow each call, by the funnel of its key. By default
// the key is the address of the peer (see [ByPeer]), a call takes one token, and the policy
// is called "default".
//
// New panics when l is nil, limit is not valid, or an option is not.
func New(l limiter.Allower, limit limiter.Limit, options ...Option) *Policy {
	p := &Policy{name: "default", key: ByPeer()}
	for _, option := range options {
		option(p)
	}
	if p.key == nil {
		panic("grpclimit: WithKey needs a KeyFunc, not nil")
	}
	p.policy = policy.New("grpclimit", p.name, l, limit)
	return p
}

// Unary is the interceptor for unary calls, a [grpc.UnaryServerInterceptor].
func (p *Policy) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := p.decide(ctx, Call{info.FullMethod, request}); err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

// Stream is the interceptor for streams, a [grpc.StreamServerInterceptor].
func (p *Policy) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := p.decide(stream.Context(), Call{info.FullMethod, nil}); err != nil {
		return err
	}
	return handler(server, stream)
}

// decide returns nil if the call goes to its handler.
func (p *Policy) decide(ctx context.Context, call Call) error {
	if p.skip != nil && p.skip(ctx, call) {
		return nil
	}
	limit, cost := limiter.Limit{}, 1
	if p.limitOf != nil {
		limit = p.limitOf(ctx, call)
	}
	if p.cost != nil {
		cost = p.cost(ctx, call)
	}
	result, err := p.policy.Decide(ctx, p.key(ctx, call), limit, cost)
	switch {
	case err == nil && !result.Limited():
		return nil
	case err == nil:
		return p.answerLimited(ctx, result)
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	return p.answerError(ctx, err)
}
