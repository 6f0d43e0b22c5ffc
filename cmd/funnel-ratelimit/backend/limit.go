package backend

import (
	"fmt"
	"math"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/utils"

	"funnel/limiter"
)

// limitOf returns the funnel for a limit, or its quota if FUNNEL_QUOTAS asks for quotas.
func (b *Backend) limitOf(limit *pb.RateLimitResponse_RateLimit) limiter.Limit {
	if b.quotas.has(limit.Unit) {
		return b.quotas.limitOf(limit)
	}
	period := time.Duration(utils.UnitToDivider(limit.Unit)) * time.Second
	count := int(limit.RequestsPerUnit)
	atMost := int(period) // one token leaks per nanosecond
	return limiter.Per(min(count, atMost), period).WithCapacity(capacityOf(count, b.options.BurstRatio))
}

// capacityOf returns a share of a number, rounded up. Ratio and product are each off by up to one
// part in 2^53, so 100 * 0.07 is 7.000000000000001. An excess of that size is not rounded up.
func capacityOf(number int, ratio float64) int {
	const excess = 1e-15
	return int(math.Ceil(float64(number) * ratio * (1 - excess)))
}

// quotas say how limits of a day, a week, a month and a year become quotas of a zone's calendar.
type quotas struct {
	zone *time.Location // nil if all limits are funnels
	base map[pb.RateLimitResponse_RateLimit_Unit]limiter.Limit
	now  func() time.Time
}

// newQuotas returns the quotas of FUNNEL_QUOTAS, the name of a zone. Without a name there are none.
func newQuotas(name string, now func() time.Time) (quotas, error) {
	if name == "" {
		return quotas{}, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == time.Local.String() { // which may differ from one Pod to the next
		return quotas{}, fmt.Errorf("FUNNEL_QUOTAS is '%s': it must be UTC, or the name of a time zone "+
			"such as Europe/Berlin", name)
	}
	return quotas{zone: zone, now: now, base: map[pb.RateLimitResponse_RateLimit_Unit]limiter.Limit{
		pb.RateLimitResponse_RateLimit_DAY:   limiter.Daily(0, zone),
		pb.RateLimitResponse_RateLimit_WEEK:  limiter.Weekly(0, zone),
		pb.RateLimitResponse_RateLimit_MONTH: limiter.Monthly(0, zone),
		pb.RateLimitResponse_RateLimit_YEAR:  limiter.Yearly(0, zone),
	}}, nil
}

// has reports whether limits of a unit are quotas.
func (q *quotas) has(unit pb.RateLimitResponse_RateLimit_Unit) bool {
	if q.zone == nil {
		return false
	}
	_, has := q.base[unit]
	return has
}

func (q *quotas) limitOf(limit *pb.RateLimitResponse_RateLimit) limiter.Limit {
	return q.base[limit.Unit].WithCapacity(int(limit.RequestsPerUnit))
}

// isQuota reports whether a limit is a quota, which has no rate.
func isQuota(limit limiter.Limit) bool { return limit.Period == 0 }
