package grpclimit

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"funnel/limiter"
)

// A Limiter decides on calls: a [limiter.Limiter], or what takes its place in tests.
type Limiter interface {
	AllowN(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error)
}

// A Call is what a [Policy] decides on.
type Call struct {
	Method  string // the full one: "/grpc.health.v1.Health/Check"
	Request any    // the message of a unary call; nil for streams, which have not sent one yet
}

// A Policy limits the rate of calls. Its methods [Policy.Unary] and [Policy.Stream] are the
// interceptors.
type Policy struct {
	limiter Limiter
	limit   limiter.Limit
	name    string
	key     KeyFunc

	// nil for what New says
	limitOf func(context.Context, Call) limiter.Limit
	cost    func(context.Context, Call) int
	skip    func(context.Context, Call) bool
	shadow  func(context.Context, string, limiter.Result, error)

	keyPrefix string
}

// New returns a policy that asks l to allow each call, by the funnel of its key. By default
// the key is the address of the peer (see [ByPeer]), a call takes one token, and the policy
// is called "default".
//
// New panics when l is nil, limit is not valid, or an option is not.
func New(l Limiter, limit limiter.Limit, options ...Option) *Policy {
	p := &Policy{limiter: l, limit: limit, name: "default", key: ByPeer()}
	for _, option := range options {
		option(p)
	}
	if v := reflect.ValueOf(l); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("grpclimit: New needs a Limiter, not nil")
	}
	if p.key == nil {
		panic("grpclimit: WithKey needs a KeyFunc, not nil")
	}
	if _, err := limit.Rate(); err != nil {
		panic(fmt.Sprintf("grpclimit: New needs a valid limit, not %v: %v", limit, err))
	}
	// As in package httplimit: both have the same funnels.
	p.keyPrefix = strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(p.name) + ":"
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
	limit, cost := p.limit, 1
	if p.limitOf != nil {
		if own := p.limitOf(ctx, call); own != (limiter.Limit{}) {
			limit = own
		}
	}
	if p.cost != nil {
		cost = p.cost(ctx, call)
	}
	key := p.keyPrefix + p.key(ctx, call)
	asked := cost
	if cost > limit.Capacity {
		asked = limit.Capacity + 1 // as little fits, and the Limiter can compute with it
	}
	result, err := p.limiter.AllowN(ctx, key, limit, asked)
	result.Quantity += cost - asked
	switch {
	case err == nil && !result.Limited():
		return nil
	case p.shadow != nil:
		if err == nil || ctx.Err() == nil {
			p.shadow(ctx, key, result, err)
		}
		return nil
	case err == nil:
		return p.answerLimited(ctx, result)
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	return p.answerError(ctx, err)
}
