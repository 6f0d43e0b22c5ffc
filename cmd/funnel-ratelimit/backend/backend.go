// Package backend decides on Envoy's requests with funnels and quotas, instead of the windows of
// github.com/envoyproxy/ratelimit.
package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	reference "github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/utils"
	"google.golang.org/protobuf/types/known/durationpb"

	"funnel/gcra"
	"funnel/internal/redisclient"
	"funnel/limiter"
)

// A Backend decides on requests. Make one with [New].
type Backend struct {
	settings settings.Settings
	options  options
	quotas   quotas
	client   *redisclient.Client
	limiter  *limiter.Limiter
	single   limiter.Allower // decides on one row: the limiter, or leases
	counts   *reference.BaseRateLimiter
	events   Events
}

// ErrWrong means that a request is wrong, and would be refused again.
var ErrWrong = errors.New("wrong request")

// maxGroups is how many rows a command of Redis takes.
const maxGroups = 64

// Decide decides on a request. Limits has the limit of each descriptor, or nil for a descriptor
// without one. Decide returns [ErrWrong] or limiter.ErrInvalid if the request is wrong, the cause
// of ctx if the caller has given up, and limiter.ErrUnavailable if Redis does not decide. What a
// request has taken before it gets an error is given back in the background, except for tokens that
// were used already.
func (b *Backend) Decide(ctx context.Context, request *pb.RateLimitRequest,
	limits []*config.RateLimit) ([]*pb.RateLimitResponse_DescriptorStatus, error) {
	hits := utils.GetHitsAddends(request)
	groups, groupOf, err := b.groupsOf(request, limits, hits)
	if err != nil {
		return nil, err
	}
	err = b.ask(ctx, groups)
	if err == nil {
		err = context.Cause(ctx) // nobody gets a decision that comes after the caller has given up
	}
	if err != nil {
		for _, g := range groups {
			if !g.used && g.result.Allowed > 0 {
				b.limiter.SettleSoon(ctx, g.result, 0)
			}
		}
		return nil, err
	}
	statuses := make([]*pb.RateLimitResponse_DescriptorStatus, len(limits))
	for i, limit := range limits {
		if limit == nil {
			statuses[i] = &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
		} else {
			statuses[i] = b.status(groupOf[i], limit, hits[i])
		}
	}
	return statuses, nil
}

// A group is the descriptors of a request that share a key, with what they ask and the answer.
// Groups that refuse are decided atomically: if one is limited, none of them takes tokens.
// Descriptors in shadow mode or quota mode refuse no request, and are asked afterwards.
type group struct {
	limiter.Request // the quantity is 0 to look only
	refuses         bool
	used            bool // the tokens were used already
	limited         bool
	result          limiter.Result
}

// groupsOf returns the groups of a request, and for each of its descriptors the group that it is
// in.
func (b *Backend) groupsOf(request *pb.RateLimitRequest, limits []*config.RateLimit,
	hits []uint64) (groups, groupOf []*group, err error) {
	groupOf = make([]*group, len(limits))
	for i, limit := range limits {
		if limit == nil {
			continue
		}
		limit.Stats.TotalHits.Add(hits[i])
		unit, descriptor := limit.Limit.Unit, request.Descriptors[i]
		if unit < pb.RateLimitResponse_RateLimit_SECOND || unit > pb.RateLimitResponse_RateLimit_WEEK {
			return nil, nil, fmt.Errorf("%w: the limit of a descriptor has the unit %v: it must be SECOND to YEAR, or WEEK: "+
				"domain %.100q, %.200q", ErrWrong, unit, request.Domain, descriptor.String())
		}
		g := &group{used: b.options.Charge && descriptor.HitsAddend.GetValue() > 0}
		g.refuses = !g.used && !limit.ShadowMode && !limit.QuotaMode &&
			!b.settings.GlobalShadowMode && !b.settings.GlobalQuotaMode
		g.Key = b.keyOf(request.Domain, descriptor, limit)
		g.Limit = b.limitOf(limit.Limit)
		known := slices.IndexFunc(groups, func(other *group) bool {
			return other.Key == g.Key && other.refuses == g.refuses && other.used == g.used
		})
		if known >= 0 {
			g = groups[known]
		} else {
			groups = append(groups, g)
		}
		if len(groups) > maxGroups {
			return nil, nil, fmt.Errorf("%w: more than %d descriptors of a request have limits: domain %.100q",
				ErrWrong, maxGroups, request.Domain)
		}
		g.Quantity = int(min(uint64(g.Quantity)+min(hits[i], math.MaxInt64), g.most()))
		groupOf[i] = g
	}
	return groups, groupOf, nil
}

// most returns the largest quantity to ask about. A larger one would get the same answer: it never
// fits, or it keeps the quota used up until its period ends.
func (g *group) most() uint64 {
	if g.used && !isQuota(g.Limit) {
		return maxReported(g.Limit)
	}
	return uint64(g.Limit.Capacity) + 1
}

// century is how long the tokens of a report may take to leak. Redis refuses reports whose tokens
// would take 292 years or more.
const century = 876_000 * time.Hour

// maxReported returns how many tokens a funnel leaks in a century.
func maxReported(limit limiter.Limit) uint64 {
	return uint64(century / (limit.Period / time.Duration(max(1, limit.Count))))
}

// ask asks the groups of a request, in three steps:
//
//  1. what only looks, and tokens that were used already;
//  2. tokens that are taken atomically;
//  3. what refuses no request.
func (b *Backend) ask(ctx context.Context, groups []*group) error {
	if len(groups) == 1 {
		return b.askOne(ctx, groups[0], false)
	}
	var first, together, last []*group
	for _, g := range groups {
		switch {
		case g.used || g.refuses && (g.Quantity == 0 || g.Limit.Capacity == 0):
			first = append(first, g)
		case g.refuses:
			together = append(together, g)
		default:
			last = append(last, g)
		}
	}
	err := b.askEach(ctx, first, false)
	if err != nil {
		return err
	}
	refused := slices.ContainsFunc(first, (*group).hasRefused)
	switch {
	case refused || len(together) < 2:
		err = b.askEach(ctx, together, refused)
	case b.options.Lease > 0:
		err = b.takeInTurn(ctx, together)
	default:
		err = b.takeAll(ctx, together)
	}
	if err != nil {
		return err
	}
	return b.askEach(ctx, last, slices.ContainsFunc(groups, (*group).hasRefused))
}

func (g *group) hasRefused() bool { return g.refuses && g.limited }

// takeAll takes the tokens of all groups, or of none.
func (b *Backend) takeAll(ctx context.Context, groups []*group) error {
	requests := make([]limiter.Request, len(groups))
	for i, g := range groups {
		requests[i] = g.Request
	}
	results, err := b.limiter.AllowAll(ctx, requests...)
	if err != nil {
		return err
	}
	for i := range results {
		groups[i].result = results[i]
		groups[i].limited = results[i].Limited()
	}
	return nil
}

// takeInTurn takes the tokens of all groups from leases, mostly without Redis. If one group is
// limited, it gives back what the groups before it took.
func (b *Backend) takeInTurn(ctx context.Context, groups []*group) error {
	for i, g := range groups {
		err := b.askOne(ctx, g, false)
		if err != nil {
			return err
		}
		if g.limited {
			b.giveBack(ctx, groups[:i])
			return b.askEach(ctx, groups[i+1:], true)
		}
	}
	return nil
}

// giveBack gives back what the groups took, all at once, and notes what remains then. If an answer
// is lost, tokens stay taken until they leak.
func (b *Backend) giveBack(ctx context.Context, groups []*group) {
	var giving sync.WaitGroup
	for _, g := range groups {
		giving.Go(func() {
			after, err := b.limiter.Settle(context.WithoutCancel(ctx), &g.result, 0)
			if err == nil {
				g.result = after
			}
		})
	}
	giving.Wait()
}

// askEach asks about each group alone, all at once. In a refused request they only look.
func (b *Backend) askEach(ctx context.Context, groups []*group, refused bool) error {
	if len(groups) == 1 {
		return b.askOne(ctx, groups[0], refused)
	}
	errs := make([]error, len(groups))
	var asking sync.WaitGroup
	for i, g := range groups {
		asking.Go(func() { errs[i] = b.askOne(ctx, g, refused) })
	}
	asking.Wait()
	return errors.Join(errs...)
}

// askOne asks about one group. If Redis fails, that is an error only if the answer could have
// refused the request. It could not if the request is refused already, or if the group refuses
// none: then askOne counts the failure.
func (b *Backend) askOne(ctx context.Context, g *group, refused bool) (err error) {
	switch {
	case g.Limit.Capacity == 0:
		g.limited = true
		g.result.RetryAfter = b.period(g.Limit)
	case g.used:
		g.result, err = b.limiter.Charge(ctx, g.Key, g.Limit, g.Quantity)
		g.limited = g.result.RetryAfter > 0
		if errors.Is(err, limiter.ErrInvalid) { // the funnel already limits for a century
			err = b.look(ctx, g)
		}
	case refused || g.Quantity == 0:
		err = b.look(ctx, g)
	default:
		g.result, err = b.single.AllowN(ctx, g.Key, g.Limit, g.Quantity)
		g.limited = g.result.Limited()
	}
	if err != nil && ctx.Err() == nil && (refused || !g.refuses && !g.used) {
		b.events.Failed()
		g.limited, err = false, nil
		g.result.Remaining = g.Limit.Capacity // unknown: taken to be neither a soft breach nor near the limit
	}
	return err
}

// look finds out whether the tokens fit, or one token if the group asks for none.
func (b *Backend) look(ctx context.Context, g *group) error {
	results, err := b.limiter.PeekAll(ctx, limiter.Request{Key: g.Key, Limit: g.Limit, Quantity: max(g.Quantity, 1)})
	g.result = results[0]
	g.limited = results.Limited()
	return err
}

// period returns the period of a funnel, or how long the period of a quota still lasts.
func (b *Backend) period(limit limiter.Limit) time.Duration {
	if !isQuota(limit) {
		return limit.Period
	}
	now := b.quotas.now()
	_, end := limit.PeriodAt(now)
	return end.Sub(now)
}

// status counts the decision, and describes it.
func (b *Backend) status(g *group, limit *config.RateLimit, hits uint64) *pb.RateLimitResponse_DescriptorStatus {
	most := uint64(g.Limit.Capacity)
	counted := limit
	if most != uint64(limit.Limit.RequestsPerUnit) { // by which the reference counts near_limit
		funnel := *limit
		funnel.Limit = &pb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(most), Unit: limit.Limit.Unit}
		counted = &funnel
	}
	after := most - uint64(g.result.Remaining)
	before := after - min(after, hits)
	if g.limited {
		before, after = most, most+1
	}
	info := reference.NewRateLimitInfo(counted, before, after, 0, 0)
	status := b.counts.GetResponseDescriptorStatus(g.Key, info, false, hits)
	status.CurrentLimit, status.LimitRemaining = limit.Limit, uint32(g.result.Remaining)
	status.DurationUntilReset = durationpb.New(time.Duration(gcra.Seconds(int64(g.untilMore()))) * time.Second)
	return status
}

// untilMore returns how long it takes until the request fits, or if it fitted, until more remains.
func (g *group) untilMore() time.Duration {
	if g.limited && g.result.RetryAfter > 0 && g.result.RetryAfter != limiter.NoRetry {
		return g.result.RetryAfter
	}
	if isQuota(g.Limit) {
		return g.result.ResetAfter
	}
	later := time.Duration(g.Limit.Capacity-g.result.Remaining-1) * (g.Limit.Period / time.Duration(g.Limit.Count))
	return max(0, min(g.result.ResetAfter, g.result.ResetAfter-later))
}

// IsSoftBreach reports whether a request is allowed, and a descriptor has less than
// SOFT_BREACH_HEADER_RATIO of its capacity remaining.
func (b *Backend) IsSoftBreach(response *pb.RateLimitResponse) bool {
	if b.options.SoftBreach == 0 || response.OverallCode != pb.RateLimitResponse_OK {
		return false
	}
	return slices.ContainsFunc(response.Statuses, func(status *pb.RateLimitResponse_DescriptorStatus) bool {
		limit := status.CurrentLimit
		return limit != nil && float64(status.LimitRemaining) < b.options.SoftBreach*float64(b.limitOf(limit).Capacity)
	})
}
