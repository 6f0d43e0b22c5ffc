// Package backend decides on requests of Envoy by funnels, in the place of github.com/envoyproxy/ratelimit's windows.
package backend

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	reference "github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/envoyproxy/ratelimit/src/redis"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/utils"
	"google.golang.org/protobuf/types/known/durationpb"

	"funnel/gcra"
	"funnel/limiter"
)

// A Backend is a RateLimitCache of the reference. Make one with [New].
type Backend struct {
	settings settings.Settings
	options  options
	limiter  *limiter.Limiter
	single   limiter.Allower // decides on one funnel: the limiter, or leases
	counts   *reference.BaseRateLimiter
	failed   func() // counts a failure of Redis
}

// DoLimit decides on a request, whose descriptors have a limit each, or nil. It panics as [panicIf] does.
func (b *Backend) DoLimit(ctx context.Context, request *pb.RateLimitRequest,
	limits []*config.RateLimit) []*pb.RateLimitResponse_DescriptorStatus {
	hits := utils.GetHitsAddends(request)
	questions, of := b.questions(request, limits, hits)
	b.ask(ctx, questions)
	statuses := make([]*pb.RateLimitResponse_DescriptorStatus, len(limits))
	for i, limit := range limits {
		statuses[i] = &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
		if limit != nil {
			statuses[i] = b.status(of[i], limit, hits[i])
		}
	}
	return statuses
}

func (b *Backend) Flush() {}

// A question is what the descriptors with one key ask, and the answer. Questions that refuse are decided atomically: if
// one is limited, no question of the request takes tokens. Descriptors in shadow mode or quota mode are asked
// afterwards.
type question struct {
	limiter.Request // the quantity is 0 to look only
	refuses         bool
	used            bool // the tokens were used already
	limited         bool
	result          limiter.Result
}

// questions returns what a request asks, and the question of each descriptor.
func (b *Backend) questions(request *pb.RateLimitRequest, limits []*config.RateLimit,
	hits []uint64) (questions, of []*question) {
	of = make([]*question, len(limits))
	for i, limit := range limits {
		if limit == nil {
			continue
		}
		limit.Stats.TotalHits.Add(hits[i])
		unit, descriptor := limit.Limit.Unit, request.Descriptors[i]
		if unit < pb.RateLimitResponse_RateLimit_SECOND || unit > pb.RateLimitResponse_RateLimit_WEEK {
			panicIf(fmt.Errorf("the limit of a descriptor has the unit %v: it must be SECOND to YEAR, or WEEK: domain %.100q, %.200q",
				unit, request.Domain, descriptor.String()))
		}
		q := &question{used: b.options.Charge && descriptor.HitsAddend.GetValue() > 0}
		q.refuses = !q.used && !limit.ShadowMode && !limit.QuotaMode &&
			!b.settings.GlobalShadowMode && !b.settings.GlobalQuotaMode
		q.Key, q.Limit = keyOf(request.Domain, descriptor, limit), b.limitOf(limit.Limit)
		known := slices.IndexFunc(questions, func(other *question) bool {
			return other.Key == q.Key && other.refuses == q.refuses && other.used == q.used
		})
		if known >= 0 {
			q = questions[known]
		} else if questions = append(questions, q); len(questions) > 64 { // as many as a command takes
			panicIf(fmt.Errorf("more than 64 descriptors of a request have limits: domain %.100q", request.Domain))
		}
		most := uint64(876_000 * time.Hour / (q.Limit.Period / time.Duration(max(1, q.Limit.Count)))) // leak in 100 years
		if !q.used {
			most = uint64(q.Limit.Capacity) + 1 // which never fits
		}
		q.Quantity = int(min(uint64(q.Quantity)+min(hits[i], math.MaxInt64), most))
		of[i] = q
	}
	return questions, of
}

// limitOf returns the funnel of a limit. It leaks at most one token per nanosecond.
func (b *Backend) limitOf(limit *pb.RateLimitResponse_RateLimit) limiter.Limit {
	period := time.Duration(utils.UnitToDivider(limit.Unit)) * time.Second
	count := int(limit.RequestsPerUnit)
	return limiter.Per(min(count, int(period)), period).WithCapacity(int(math.Ceil(float64(count) * b.options.BurstRatio)))
}

// keyOf returns the key of a descriptor: domain:key=value,key=value:20/MINUTE. Names and values are escaped, and hashed
// if they are long. No key has a hash tag, so the nodes of a cluster share the descriptors of a domain.
func keyOf(domain string, descriptor *common.RateLimitDescriptor, limit *config.RateLimit) string {
	words := make([]string, len(descriptor.Entries))
	for i, entry := range descriptor.Entries {
		value := entry.Value
		if i < len(limit.ShareThresholdKeyPattern) && limit.ShareThresholdKeyPattern[i] != "" {
			value = limit.ShareThresholdKeyPattern[i]
		}
		words[i] = url.QueryEscape(entry.Key) + "=" + url.QueryEscape(value)
	}
	entries := strings.Join(words, ",")
	if len(entries) > 400 {
		entries = fmt.Sprintf("%x", sha256.Sum256([]byte(entries)))
	}
	return fmt.Sprintf("%s:%s:%d/%v", url.QueryEscape(domain), entries, limit.Limit.RequestsPerUnit, limit.Limit.Unit)
}

// ask asks the questions of a request, in three steps: for what only looks, and for tokens that were
// used; for tokens that are taken atomically; and for what refuses no request.
func (b *Backend) ask(ctx context.Context, questions []*question) {
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
	refuses := func(q *question) bool { return q.refuses && q.limited }
	b.askEach(ctx, first, false)
	switch refused := slices.ContainsFunc(first, refuses); {
	case refused || len(together) < 2:
		b.askEach(ctx, together, refused)
	case b.options.Lease > 0:
		b.takeInTurn(ctx, together)
	default:
		b.takeAll(ctx, together)
	}
	b.askEach(ctx, last, slices.ContainsFunc(questions, refuses))
}

// takeAll takes the tokens of all questions, or of none.
func (b *Backend) takeAll(ctx context.Context, questions []*question) {
	requests := make([]limiter.Request, len(questions))
	for i, q := range questions {
		requests[i] = q.Request
	}
	results, err := b.limiter.AllowAll(ctx, requests...)
	panicIf(err)
	for i := range results {
		questions[i].result, questions[i].limited = results[i], results[i].Limited()
	}
}

// takeInTurn takes the tokens of all questions by leases, mostly without Redis. If one is limited, it gives back what
// the questions before it took.
func (b *Backend) takeInTurn(ctx context.Context, questions []*question) {
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
		panicIf(err)
		b.askEach(ctx, questions[i+1:], true)
		return
	}
}

// askEach asks each question alone, all at once. In a refused request they only look.
func (b *Backend) askEach(ctx context.Context, questions []*question, refused bool) {
	if len(questions) == 1 {
		panicIf(b.askOne(ctx, questions[0], refused))
		return
	}
	errs := make([]error, len(questions))
	var group sync.WaitGroup
	for i, q := range questions {
		group.Go(func() { errs[i] = b.askOne(ctx, q, refused) })
	}
	group.Wait()
	panicIf(errors.Join(errs...))
}

// askOne asks one question. If Redis fails, and the answer cannot refuse the request, because the request is refused
// already or the question refuses none, askOne counts the failure and returns no error.
func (b *Backend) askOne(ctx context.Context, q *question, refused bool) (err error) {
	switch {
	case q.Limit.Capacity == 0:
		q.limited, q.result.RetryAfter = true, q.Limit.Period
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
	if err != nil && (refused || !q.refuses && !q.used) {
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

// status counts the decision, and describes it.
func (b *Backend) status(q *question, limit *config.RateLimit, hits uint64) *pb.RateLimitResponse_DescriptorStatus {
	most, funnel := uint64(q.Limit.Capacity), *limit // the reference counts near_limit by requests_per_unit
	funnel.Limit = &pb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(most), Unit: limit.Limit.Unit}
	after := most - uint64(q.result.Remaining)
	before := after - min(after, hits)
	if q.limited {
		before, after = most, most+1
	}
	info := reference.NewRateLimitInfo(&funnel, before, after, 0, 0)
	status := b.counts.GetResponseDescriptorStatus(q.Key, info, false, hits)
	status.CurrentLimit, status.LimitRemaining = limit.Limit, uint32(q.result.Remaining)
	status.DurationUntilReset = durationpb.New(time.Duration(gcra.Seconds(int64(q.untilMore()))) * time.Second)
	return status
}

// untilMore returns how long it takes until the request fits, or where it did, until more remains.
func (q *question) untilMore() time.Duration {
	if q.limited && q.result.RetryAfter > 0 && q.result.RetryAfter != limiter.NoRetry {
		return q.result.RetryAfter
	}
	later := time.Duration(q.Limit.Capacity-q.result.Remaining-1) * (q.Limit.Period / time.Duration(q.Limit.Count))
	return max(0, min(q.result.ResetAfter, q.result.ResetAfter-later))
}

// IsSoftBreach reports whether a request is allowed, and a descriptor has less than SOFT_BREACH_HEADER_RATIO of its
// capacity remaining.
func (b *Backend) IsSoftBreach(response *pb.RateLimitResponse) bool {
	isSoft := func(status *pb.RateLimitResponse_DescriptorStatus) bool {
		limit := status.CurrentLimit
		return limit != nil && float64(status.LimitRemaining) < b.options.SoftBreach*float64(b.limitOf(limit).Capacity)
	}
	return response.OverallCode == pb.RateLimitResponse_OK && slices.ContainsFunc(response.Statuses, isSoft)
}

// panicIf panics with what the service returns as an error. Another panic would end the process.
func panicIf(err error) {
	if err != nil {
		panic(redis.RedisError(err.Error()))
	}
}
