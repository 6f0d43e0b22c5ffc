package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// A Call is a call on which a [Policy] decides.
type Call struct {
	Method  string // the full one: "/grpc.health.v1.Health/Check"
	Request any    // the message of a unary call; nil for streams, which have not sent one yet
}

// A Policy limits the rate of calls. Its methods [Policy.Unary] and [Policy.Stream] are the interceptors.
type Policy struct {
	policy policy.Policy
	name   string
	key    KeyFunc

	// nil for the defaults of New
	limitOf func(context.Context, Call) limiter.Limit
	cost    func(context.Context, Call) int
	skip    func(context.Context, Call) bool
	slots   *limiter.Slots

	also     []policy.Also
	alsoKeys []KeyFunc // the keys for also, in the same order
}

// New returns a policy that asks l to allow each call, by the funnel of its key. By default the key is the address of
// the peer (see [ByPeer]), a call takes one token, and the policy is called "default".
//
// New panics if l is nil, or if limit or an option is not valid.
func New(l limiter.Allower, limit limiter.Limit, options ...Option) *Policy {
	p := &Policy{name: "default", key: ByPeer()}
	for _, option := range options {
		option(p)
	}
	if p.key == nil {
		panic("grpclimit: WithKey needs a KeyFunc, not nil")
	}
	p.policy = policy.New("grpclimit", p.name, l, limit, p.slots, p.also)
	return p
}

// Unary is the interceptor for unary calls, a [grpc.UnaryServerInterceptor].
func (p *Policy) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (
	any, error) {
	ctx, end, err := p.admit(ctx, Call{info.FullMethod, request})
	if err != nil {
		return nil, err
	}
	defer end()
	return handler(ctx, request)
}

// Stream is the interceptor for streams, a [grpc.StreamServerInterceptor].
func (p *Policy) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	ctx, end, err := p.admit(stream.Context(), Call{info.FullMethod, nil})
	if err != nil {
		return err
	}
	defer end()
	return handler(server, allowedStream{stream, ctx})
}

// An allowedStream is a stream whose context has the Result.
type allowedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s allowedStream) Context() context.Context { return s.ctx }

// ResultFrom returns the Result of the policy that let the call with this context through, and whether there is one.
// After several policies, it is the Result of the innermost. A handler can settle it by [limiter.Limiter.Settle].
func ResultFrom(ctx context.Context) (result limiter.Result, ok bool) { return policy.ResultFrom(ctx) }

// ResultsFrom returns the Result of [ResultFrom], followed by the Results on the limits of [WithAlso] in the order of
// the options. Without a policy it is empty. A handler can settle each of them.
func ResultsFrom(ctx context.Context) limiter.Results { return policy.ResultsFrom(ctx) }

// admit returns the context for the handler of an allowed call and a function to call when the handler has returned, or
// the error that answers the call.
func (p *Policy) admit(ctx context.Context, call Call) (handler context.Context, end func(), err error) {
	if p.skip != nil && p.skip(ctx, call) {
		return ctx, func() {}, nil
	}
	limit, cost := limiter.Limit{}, 1
	if p.limitOf != nil {
		limit = p.limitOf(ctx, call)
	}
	if p.cost != nil {
		cost = p.cost(ctx, call)
	}
	var also []string
	for _, key := range p.alsoKeys {
		also = append(also, key(ctx, call))
	}
	decision, err := p.policy.Check(ctx, p.key(ctx, call), limit, cost, also)
	result, other, limited := decision.Limiting()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return nil, nil, p.answerError(ctx, err)
	case limited:
		name := p.name
		if other >= 0 {
			name = p.also[other].Name
		}
		return nil, nil, answerLimited(ctx, name, result)
	}
	handler, end = decision.Begin(ctx)
	return handler, end, nil
}
