package grpclimit

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// A Call is a call on which a [Policy] decides, or a message of a stream ([WithMessages]).
type Call struct {
	Context context.Context // has the peer and the metadata
	Method  string          // the full one: "/chat.Chat/Send"

	// Request is the message of a unary call, or a message that a stream has received. It is nil
	// when a stream begins, because it has sent none yet.
	Request any
}

// A Policy limits the rate of calls. Its methods [Policy.Unary] and [Policy.Stream] are the
// interceptors.
type Policy struct {
	policy     *policy.Policy[Call]
	perMessage bool
}

// New returns a policy that asks l to allow each call, by the limit of its key. By default the key
// is the address of the peer (see [ByPeer]), and a call takes one token.
//
// The name of the policy, such as "login", is 1 or more printable ASCII characters. It is part of
// the keys in Redis ([LimitKey], [SlotsKey]): policies of different names share no limit, and
// policies of one name share theirs, over all processes. It is also part of the answer to a limited
// call.
//
// The limit is a [limiter.Limit], or a function that returns the limit of a call: see [LimitFor].
//
// New panics if l is nil, or if the name, the limit or an option is not valid.
func New[L LimitFor](l limiter.Allower, name string, limit L, options ...Option) *Policy {
	var s settings
	for _, option := range options {
		option(&s)
	}
	return &Policy{
		policy:     policy.New("grpclimit", l, name, limit, ByPeer(), s.common...),
		perMessage: s.perMessage,
	}
}

// Unary is the interceptor for unary calls, a [grpc.UnaryServerInterceptor].
func (p *Policy) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (
	any, error) {
	call := Call{Context: ctx, Method: info.FullMethod, Request: request}
	if p.passes(call) {
		return handler(ctx, request)
	}
	admission, err := p.policy.Check(ctx, call)
	err = answer(ctx, &admission, err)
	if err != nil {
		return nil, err
	}
	ctx, end := admission.Begin(ctx)
	defer end()
	return handler(ctx, request)
}

// Stream is the interceptor for streams, a [grpc.StreamServerInterceptor].
func (p *Policy) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	ctx := stream.Context()
	call := Call{Context: ctx, Method: info.FullMethod}
	if p.passes(call) {
		return handler(server, stream)
	}
	admission, err := p.policy.Check(ctx, call)
	err = answer(ctx, &admission, err)
	if err != nil {
		return err
	}
	ctx, end := admission.Begin(ctx)
	defer end()
	return handler(server, &allowedStream{ServerStream: stream, policy: p, call: call, ctx: ctx})
}

// healthService is the prefix of the methods that kubelets and load balancers call to learn whether
// a server is alive. If they were limited, a busy server would be restarted.
const healthService = "/grpc.health.v1.Health/"

// passes reports whether a call passes without a decision.
func (p *Policy) passes(call Call) bool {
	return strings.HasPrefix(call.Method, healthService) || p.policy.Skips(call)
}

// An allowedStream is a stream whose context has the Results, and whose messages may take tokens.
type allowedStream struct {
	grpc.ServerStream
	policy *Policy
	call   Call            // that began the stream
	ctx    context.Context // of the handler
}

func (s *allowedStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message, and asks for its tokens.
func (s *allowedStream) RecvMsg(message any) error {
	err := s.ServerStream.RecvMsg(message)
	if err != nil || !s.policy.perMessage {
		return err
	}
	call := s.call
	call.Request = message
	admission, err := s.policy.policy.CheckTokens(s.ctx, call)
	return answer(s.ctx, &admission, err)
}

// answer returns the error that answers a call, or nil if it is allowed.
func answer(ctx context.Context, admission *policy.Admission, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return answerError(err)
	}
	refusing := admission.Refusing()
	if refusing >= 0 {
		return answerLimited(ctx, admission.Names[refusing], admission.Results[refusing])
	}
	return nil
}

// ResultFrom returns the Result of the policy that let the call with this context through, and
// whether there is one. After several policies, it is the Result of the innermost. A handler can
// settle it by [limiter.Limiter.Settle].
func ResultFrom(ctx context.Context) (result limiter.Result, ok bool) { return policy.ResultFrom(ctx) }

// ResultsFrom returns the Result of [ResultFrom], followed by the Results on the limits of
// [WithAlso] in the order of the options. Without a policy it is empty. A handler can settle each
// of them.
func ResultsFrom(ctx context.Context) limiter.Results { return policy.ResultsFrom(ctx) }
