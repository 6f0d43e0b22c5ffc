// Package service is the rate limit service: the servers for gRPC, for HTTP and for debugging, and
// how a request is answered. Configuration, statistics and health are the reference's,
// github.com/envoyproxy/ratelimit. Package backend decides.
package service

import (
	"context"
	"errors"
	"math"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"funnel/cmd/funnel-ratelimit/backend"
	"funnel/limiter"
)

// A Decider decides on the descriptors of a request, as [backend.Backend] does.
type Decider interface {
	Decide(ctx context.Context, request *pb.RateLimitRequest,
		limits []*config.RateLimit) ([]*pb.RateLimitResponse_DescriptorStatus, error)
	IsSoftBreach(response *pb.RateLimitResponse) bool
}

// A Service answers requests.
type Service struct {
	settings settings.Settings
	current  func() (limits config.RateLimitConfig, globalShadowMode, globalQuotaMode bool)
	decider  Decider
	stats    stats.ServiceStats
}

// NewService returns a Service. Current returns the limits that are loaded now, or nil, and the
// modes of all limits.
func NewService(s settings.Settings, current func() (config.RateLimitConfig, bool, bool), decider Decider,
	counts stats.ServiceStats) *Service {
	return &Service{settings: s, current: current, decider: decider, stats: counts}
}

// The errors of requests that are wrong, in the reference's words, and of a service that has read
// no limits yet.
var (
	errNoDomain      = errors.New("rate limit domain must not be empty")
	errNoDescriptors = errors.New("rate limit descriptor list must not be empty")
	errNoLimits      = errors.New("no rate limit configuration loaded")
)

// ShouldRateLimit answers a request. It counts errors as the reference does, except that a caller
// that has given up is no error.
func (s *Service) ShouldRateLimit(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	response, err := s.answer(ctx, request)
	if logrus.IsLevelEnabled(logrus.DebugLevel) {
		logrus.Debugf("request %v: response %v, error %v", request, response, err)
	}
	switch {
	case err == nil:
		return response, nil
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case isWrong(err) || errors.Is(err, errNoLimits):
		s.stats.ShouldRateLimit.ServiceError.Inc()
	default:
		s.stats.ShouldRateLimit.RedisError.Inc()
		return nil, undecided{err}
	}
	return nil, err
}

// undecided is the error of a request that Redis does not decide. Without a code of its own, gRPC
// would give it the code of what is inside, which may be DEADLINE_EXCEEDED: but that is for callers
// whose own deadline has passed.
type undecided struct{ error }

func (u undecided) Unwrap() error { return u.error }

// GRPCStatus is what gRPC answers.
func (u undecided) GRPCStatus() *status.Status { return status.New(codes.Unavailable, u.Error()) }

// isWrong reports whether an error means that the request is wrong, and would be refused again.
func isWrong(err error) bool {
	for _, wrong := range []error{errNoDomain, errNoDescriptors, backend.ErrWrong, limiter.ErrInvalid} {
		if errors.Is(err, wrong) {
			return true
		}
	}
	return false
}

// answer finds the limits of a request, and lets the decider decide on them.
func (s *Service) answer(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	current, globalShadowMode, globalQuotaMode := s.current()
	switch {
	case request.Domain == "":
		return nil, errNoDomain
	case len(request.Descriptors) == 0:
		return nil, errNoDescriptors
	case current == nil:
		return nil, errNoLimits
	}
	limits := limitsOf(ctx, current, request)
	statuses, err := s.decider.Decide(ctx, request, limits.apply)
	if err != nil {
		return nil, err
	}
	response := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: statuses}
	var violations []int // of quota mode, which refuse no request
	for i, status := range statuses {
		isOverLimit := status.Code == pb.RateLimitResponse_OVER_LIMIT
		switch {
		case limits.isUnlimited[i]:
			status.LimitRemaining = math.MaxUint32
		case isOverLimit && (globalQuotaMode || limits.apply[i].QuotaMode):
			violations = append(violations, i)
			status.Code = pb.RateLimitResponse_OK
		case isOverLimit:
			response.OverallCode = pb.RateLimitResponse_OVER_LIMIT
		}
	}
	if s.settings.RateLimitResponseHeadersEnabled {
		s.addHeaders(response)
	}
	for _, i := range violations { // as the reference: the header alone tells their reset
		statuses[i].DurationUntilReset = nil
	}
	if response.OverallCode == pb.RateLimitResponse_OVER_LIMIT && globalShadowMode {
		response.OverallCode = pb.RateLimitResponse_OK
		s.stats.GlobalShadowMode.Inc()
	}
	if s.settings.ResponseDynamicMetadata {
		response.DynamicMetadata = metadataOf(request, limits.apply, violations)
	}
	if s.decider.IsSoftBreach(response) {
		addSoftBreach(response)
	}
	return response, nil
}

// limits are the limits of a request's descriptors.
type limits struct {
	apply       []*config.RateLimit // nil if none applies
	isUnlimited []bool
}

// limitsOf returns the limits of a request. A limit that another one replaces does not apply.
func limitsOf(ctx context.Context, current config.RateLimitConfig, request *pb.RateLimitRequest) limits {
	l := limits{make([]*config.RateLimit, len(request.Descriptors)), make([]bool, len(request.Descriptors))}
	replaced := map[string]bool{}
	for i, descriptor := range request.Descriptors {
		limit := current.GetLimit(ctx, request.Domain, descriptor)
		if limit == nil {
			continue
		}
		for _, name := range limit.Replaces {
			replaced[name] = true
		}
		l.isUnlimited[i] = limit.Unlimited
		if !limit.Unlimited {
			l.apply[i] = limit
		}
	}
	for i, limit := range l.apply {
		if limit != nil && replaced[limit.Name] {
			l.apply[i] = nil
		}
	}
	return l
}
