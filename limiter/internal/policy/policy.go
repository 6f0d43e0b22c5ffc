// Package policy is what httplimit and grpclimit have in common: the question that a policy
// asks a limiter about a call, and the keys of funnels. Both packages write the same keys, so a
// policy of one name is one limit over HTTP and gRPC.
package policy

import (
	"context"
	"fmt"
	"strings"

	"funnel/internal/isnil"
	"funnel/limiter"
)

// A Policy limits the rate of calls. Its funnels have keys of their own: no policy of another
// name has them.
type Policy struct {
	limiter limiter.Allower
	limit   limiter.Limit
	prefix  string
}

// New returns a policy with that name. It panics in the name of a package when l is nil or limit
// is not valid.
func New(caller, name string, l limiter.Allower, limit limiter.Limit) Policy {
	if isnil.Is(l) {
		panic(caller + ": New needs a Limiter, not nil")
	}
	if _, err := limit.Rate(); err != nil {
		panic(fmt.Sprintf("%s: New needs a valid limit, not %v: %v", caller, limit, err))
	}
	return Policy{l, limit, strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(name) + ":"}
}

// Decide asks for the tokens of a call. The zero Limit means the one of New.
func (p *Policy) Decide(ctx context.Context, key string, limit limiter.Limit, cost int) (limiter.Result, error) {
	if limit == (limiter.Limit{}) {
		limit = p.limit
	}
	asked := cost
	if cost > limit.Capacity && limit.Capacity > 0 {
		asked = limit.Capacity + 1 // as little fits, and the Limiter can compute with it
	}
	result, err := p.limiter.AllowN(ctx, p.prefix+key, limit, asked)
	result.Quantity += cost - asked
	return result, err
}

// resultKey is the key of a Result in a context.
type resultKey struct{}

// WithResult returns a context from which ResultFrom returns the Result.
func WithResult(ctx context.Context, result limiter.Result) context.Context {
	return context.WithValue(ctx, resultKey{}, result)
}

// ResultFrom returns the Result that WithResult put there last, and whether there is one.
func ResultFrom(ctx context.Context) (result limiter.Result, ok bool) {
	result, ok = ctx.Value(resultKey{}).(limiter.Result)
	return result, ok
}
