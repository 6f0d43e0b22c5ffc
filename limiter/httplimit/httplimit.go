package httplimit

import (
	"context"
	"net/http"

	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// New returns middleware that asks l to allow each request, by the limit of its key. By default the
// key is the address of the peer (see [ByIP]), and a request takes one token.
//
// The name of the policy, such as "login", is 1 or more printable ASCII characters. It is part of
// the keys in Redis ([LimitKey], [SlotsKey]): policies of different names share no limit, and
// policies of one name share theirs, over all processes. It is also part of the headers, and of the
// answer to a limited request.
//
// The limit is a [limiter.Limit], or a function that returns the limit of a request: see
// [LimitFor].
//
// New panics if l is nil, or if the name, the limit or an option is not valid.
func New[L LimitFor](l limiter.Allower, name string, limit L, options ...Option) func(http.Handler) http.Handler {
	s := settings{limited: answerLimited, failed: answerError}
	for _, option := range options {
		option(&s)
	}
	switch {
	case s.limited == nil:
		panic("httplimit: OnLimited needs an answer, not nil")
	case s.failed == nil:
		panic("httplimit: OnError needs an answer, not nil")
	}
	m := &middleware{
		policy:  policy.New("httplimit", l, name, limit, ByIP(), s.common...),
		limited: s.limited,
		failed:  s.failed,
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	policy  *policy.Policy[*http.Request]
	limited func(http.ResponseWriter, *http.Request, Refusal)
	failed  func(http.ResponseWriter, *http.Request, error)
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.policy.Skips(r) {
		next.ServeHTTP(w, r)
		return
	}
	admission, err := m.policy.Check(r.Context(), r)
	switch {
	case err != nil && policy.StatusOf(r.Context(), err) == policy.StatusClientClosedRequest:
		w.WriteHeader(policy.StatusClientClosedRequest)
		return
	case err != nil:
		m.failed(w, r, err)
		return
	}
	SetHeaders(w.Header(), admission.Results, admission.Names...)
	refusing := admission.Refusing()
	if refusing >= 0 {
		result := admission.Results[refusing]
		m.limited(w, r, Refusal{admission.Names[refusing], result, policy.RetryAfter(result)})
		return
	}
	ctx, end := admission.Begin(r.Context())
	defer end()
	inner := r.WithContext(ctx)
	defer func() { r.MultipartForm = inner.MultipartForm }() // whose files the server removes
	out, unite := Unite(w)
	next.ServeHTTP(out, inner)
	unite() // a handler that writes nothing leaves the headers to the server
}

// ResultFrom returns the Result of the middleware that let the request with this context through,
// and whether there is one. After several middlewares, it is the Result of the innermost. A handler
// can settle it:
//
//	result, ok := httplimit.ResultFrom(r.Context())
//	...
//	l.Settle(ctx, &result, used)
func ResultFrom(ctx context.Context) (result limiter.Result, ok bool) { return policy.ResultFrom(ctx) }

// ResultsFrom returns the Result of [ResultFrom], followed by the Results on the limits of
// [WithAlso] in the order of the options. Without a middleware it is empty. A handler can settle
// each of them.
func ResultsFrom(ctx context.Context) limiter.Results { return policy.ResultsFrom(ctx) }
