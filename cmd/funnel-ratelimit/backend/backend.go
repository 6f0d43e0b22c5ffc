// Package backend decides on requests of Envoy by funnels and quotas, in the place of
// github.com/envoyproxy/ratelimit's windows.
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
	failed   func() // counts a failure of Redis
}

// ErrWrong means that a request is wrong, and would be refused again.
var ErrWrong = errors.New("wrong request")

// maxQuestions is how many rows a command of Redis takes.
const maxQuestions = 64

// Decide decides on a request, whose descriptors have a limit each, or nil. It returns [ErrWrong]
// or limiter.ErrInvalid if the request is wrong, the cause of ctx if the caller has given up, and
// limiter.ErrUnavailable if Redis does not decide.
func (b *Backend) Decide(ctx context.Context, request *pb.RateLimitRequest,
	limits []*config.RateLimit) ([]*pb.RateLimitResponse_DescriptorStatus, error) {
	hits := utils.GetHitsAddends(request)
	questions, of, err := b.questions(request, limits, hits)
	if err != nil {
		return nil, err
	}
	err = b.ask(ctx, questions)
	if err != nil {
		return nil, err
	}
	statuses := make([]*pb.RateLimitResponse_DescriptorStatus, len(limits))
	for i, limit := range limits {
		if limit == nil {
			statuses[i] = &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
		} else {
			statuses[i] = b.status(of[i], limit, hits[i])
		}
	}
	return statuses, nil
}

// A question is what the descriptors with one key ask, and the answer. Questions that refuse are
// decided atomically: if one is limited, no question of the request takes tokens. Descriptors in
// shadow mode or quota mode are asked afterwards.
type question struct {
	limiter.Request // the quantity is 0 to look only
	refuses         bool
	used            bool // the tokens were used already
	limited         bool
	result          limiter.Result
}

// questions returns what a request asks, and the question of each descriptor.
func (b *Backend) questions(request *pb.RateLimitRequest, limits []*config.RateLimit,
	hits []uint64) (questions, of []*question, err error) {
	of = make([]*question, len(limits))
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
		q := &question{used: b.options.Charge && descriptor.HitsAddend.GetValue() > 0}
		q.refuses = !q.used && !limit.ShadowMode && !limit.QuotaMode &&
			!b.settings.GlobalShadowMode && !b.settings.GlobalQuotaMode
		q.Key, q.Limit = b.keyOf(request.Domain, descriptor, limit), b.limitOf(limit.Limit)
		known := slices.IndexFunc(questions, func(other *question) bool {
			return other.Key == q.Key && other.refuses == q.refuses && other.used == q.used
		})
		if known >= 0 {
			q = questions[known]
		} else {
			questions = append(questions, q)
		}
		if len(questions) > maxQuestions {
			return nil, nil, fmt.Errorf("%w: more than %d descriptors of a request have limits: domain %.100q",
				ErrWrong, maxQuestions, request.Domain)
		}
		q.Quantity = int(min(uint64(q.Quantity)+min(hits[i], math.MaxInt64), q.most()))
		of[i] = q
	}
	return questions, of, nil
}

// century is how long a report of use may refuse requests.
const century = 876_000 * time.Hour

// most returns the largest quantity to ask about. A larger one would be answered alike: it never
// fits, or it keeps the quota used up until its period ends.
func (q *question) most() uint64 {
	if q.used && !isQuota(q.Limit) {
		return uint64(century / (q.Limit.Period / time.Duration(max(1, q.Limit.Count))))
	}
	return uint64(q.Limit.Capacity) + 1
}

// ask asks the questions of a request, in three steps: for what only looks, and for tokens that
// were used; for tokens that are taken atomically; and for what refuses no request.
func (b *Backend) ask(ctx context.Context, questions []*question) error {
	if len(questions) == 1 {
		return b.askOne(ctx, questions[0], false)
	}
	var first, together, last []*question
	for _, q := range questions {
		switch {
		case q.used || q.refuses && (q.Quantity == 0 || q.Limit.Capacity == 0):
			first = append(first, q)
		case q.refuses:
			together = append(together, q)
		default:
			last = append(last, q)
		}
	}
	err := b.askEach(ctx, first, false)
	if err != nil {
		return err
	}
	switch refused := slices.ContainsFunc(first, (*question).hasRefused); {
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
	return b.askEach(ctx, last, slices.ContainsFunc(questions, (*question).hasRefused))
}

func (q *question) hasRefused() bool { return q.refuses && q.limited }

// takeAll takes the tokens of all questions, or of none.
func (b *Backend) takeAll(ctx context.Context, questions []*question) error {
	requests := make([]limiter.Request, len(questions))
	for i, q := range questions {
		requests[i] = q.Request
	}
	results, err := b.limiter.AllowAll(ctx, requests...)
	if err != nil {
		return err
	}
	for i := range results {
		questions[i].result, questions[i].limited = results[i], results[i].Limited()
	}
	return nil
}

// takeInTurn takes the tokens of all questions by leases, mostly without Redis. If one is limited,
// it gives back what the questions before it took.
func (b *Backend) takeInTurn(ctx context.Context, questions []*question) error {
	for i, q := range questions {
		err := b.askOne(ctx, q, false)
		if err == nil && !q.limited {
			continue
		}
		for _, taken := range questions[:i] {
			// If the answer is lost, the tokens stay taken until they leak.
			after, lost := b.limiter.Settle(context.WithoutCancel(ctx), &taken.result, 0)
			if lost == nil {
				taken.result = after
			}
		}
		if err != nil {
			return err
		}
		return b.askEach(ctx, questions[i+1:], true)
	}
	return nil
}

// askEach asks each question alone, all at once. In a refused request they only look.
func (b *Backend) askEach(ctx context.Context, questions []*question, refused bool) error {
	if len(questions) == 1 {
		return b.askOne(ctx, questions[0], refused)
	}
	errs := make([]error, len(questions))
	var group sync.WaitGroup
	for i, q := range questions {
		group.Go(func() { errs[i] = b.askOne(ctx, q, refused) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// askOne asks one question. If Redis fails, and the answer cannot refuse the request, because the
// request is refused already or the question refuses none, askOne counts the failure and returns no
// error.
func (b *Backend) askOne(ctx context.Context, q *question, refused bool) (err error) {
	switch {
	case q.Limit.Capacity == 0:
		q.limited, q.result.RetryAfter = true, b.period(q.Limit)
	case q.used:
		q.result, err = b.limiter.Charge(ctx, q.Key, q.Limit, q.Quantity)
		q.limited = q.result.RetryAfter > 0
		if errors.Is(err, limiter.ErrInvalid) { // the funnel already limits for a century
			err = b.look(ctx, q)
		}
	case refused || q.Quantity == 0:
		err = b.look(ctx, q)
	default:
		q.result, err = b.single.AllowN(ctx, q.Key, q.Limit, q.Quantity)
		q.limited = q.result.Limited()
	}
	if err != nil && ctx.Err() == nil && (refused || !q.refuses && !q.used) {
		b.failed()
		q.limited, err = false, nil
		q.result.Remaining = q.Limit.Capacity // which is not known: no soft breach, and not near the limit
	}
	return err
}

// look finds out whether the tokens fit, or one token if the question asks for none.
func (b *Backend) look(ctx context.Context, q *question) error {
	results, err := b.limiter.PeekAll(ctx, limiter.Request{Key: q.Key, Limit: q.Limit, Quantity: max(q.Quantity, 1)})
	q.result, q.limited = results[0], results.Limited()
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
func (b *Backend) status(q *question, limit *config.RateLimit, hits uint64) *pb.RateLimitResponse_DescriptorStatus {
	most := uint64(q.Limit.Capacity)
	counted := limit
	if most != uint64(limit.Limit.RequestsPerUnit) { // by which the reference counts near_limit
		funnel := *limit
		funnel.Limit = &pb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(most), Unit: limit.Limit.Unit}
		counted = &funnel
	}
	after := most - uint64(q.result.Remaining)
	before := after - min(after, hits)
	if q.limited {
		before, after = most, most+1
	}
	info := reference.NewRateLimitInfo(counted, before, after, 0, 0)
	status := b.counts.GetResponseDescriptorStatus(q.Key, info, false, hits)
	status.CurrentLimit, status.LimitRemaining = limit.Limit, uint32(q.result.Remaining)
	status.DurationUntilReset = durationpb.New(time.Duration(gcra.Seconds(int64(q.untilMore()))) * time.Second)
	return status
}

// untilMore returns how long it takes until the request fits, or if it did, until more remains.
func (q *question) untilMore() time.Duration {
	if q.limited && q.result.RetryAfter > 0 && q.result.RetryAfter != limiter.NoRetry {
		return q.result.RetryAfter
	}
	if isQuota(q.Limit) {
		return q.result.ResetAfter
	}
	later := time.Duration(q.Limit.Capacity-q.result.Remaining-1) * (q.Limit.Period / time.Duration(q.Limit.Count))
	return max(0, min(q.result.ResetAfter, q.result.ResetAfter-later))
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
