package service

import (
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// addHeaders adds the three headers, all of which describe one descriptor.
func (s *Service) addHeaders(response *pb.RateLimitResponse) {
	described := fullest(response.Statuses)
	if described == nil {
		return
	}
	add := func(name string, value uint64) {
		header := &core.HeaderValue{Key: name, Value: strconv.FormatUint(value, 10)}
		response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd, header)
	}
	add(s.settings.HeaderRatelimitLimit, uint64(described.CurrentLimit.RequestsPerUnit))
	add(s.settings.HeaderRatelimitRemaining, uint64(described.LimitRemaining))
	add(s.settings.HeaderRatelimitReset, uint64(described.DurationUntilReset.GetSeconds()))
}

// fullest returns the descriptor that a client should know about. If some descriptors refuse, it is
// the refusing one with the longest wait. Otherwise it is the one with the least remaining. It is
// nil if no descriptor has a limit.
func fullest(statuses []*pb.RateLimitResponse_DescriptorStatus) (fullest *pb.RateLimitResponse_DescriptorStatus) {
	for _, status := range statuses {
		if status.CurrentLimit != nil && (fullest == nil || isFuller(status, fullest)) {
			fullest = status
		}
	}
	return fullest
}

func isFuller(a, b *pb.RateLimitResponse_DescriptorStatus) bool {
	refuses := func(status *pb.RateLimitResponse_DescriptorStatus) bool {
		return status.Code == pb.RateLimitResponse_OVER_LIMIT
	}
	switch {
	case refuses(a) && refuses(b):
		return a.DurationUntilReset.GetSeconds() > b.DurationUntilReset.GetSeconds()
	case refuses(a) != refuses(b):
		return refuses(a)
	}
	return a.LimitRemaining < b.LimitRemaining
}

// addSoftBreach tells the client of an allowed request that little remains.
func addSoftBreach(response *pb.RateLimitResponse) {
	response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd,
		&core.HeaderValue{Key: "x-ratelimit-soft-breach", Value: "1"})
}
