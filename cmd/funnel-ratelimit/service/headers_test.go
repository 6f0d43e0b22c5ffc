package service

import (
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
)

// All headers describe one descriptor. If some refuse, it is the refusing one with the longest
// wait, and otherwise the one with the least remaining. If several are equal, it is the first.
func TestHeaders(t *testing.T) {
	ok, over := pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT
	type statuses = []*pb.RateLimitResponse_DescriptorStatus
	of := func(
		code pb.RateLimitResponse_Code, limit, remaining uint32, reset int64,
	) *pb.RateLimitResponse_DescriptorStatus {
		return &pb.RateLimitResponse_DescriptorStatus{Code: code, LimitRemaining: remaining,
			CurrentLimit:       &pb.RateLimitResponse_RateLimit{RequestsPerUnit: limit},
			DurationUntilReset: &durationpb.Duration{Seconds: reset}}
	}
	unlimited := &pb.RateLimitResponse_DescriptorStatus{Code: ok}
	for _, c := range []struct {
		statuses statuses
		headers  string
	}{
		{statuses{unlimited}, ""},
		{statuses{unlimited, of(ok, 10, 9, 360)}, "limit 10 remaining 9 reset 360"},
		{statuses{of(ok, 10, 9, 360), of(ok, 20, 3, 60)}, "limit 20 remaining 3 reset 60"},
		{statuses{of(ok, 20, 3, 60), of(ok, 10, 9, 360)}, "limit 20 remaining 3 reset 60"},
		{statuses{of(ok, 10, 3, 360), of(ok, 20, 3, 60)}, "limit 10 remaining 3 reset 360"},
		{statuses{of(ok, 10, 0, 360), of(over, 20, 3, 60)}, "limit 20 remaining 3 reset 60"},
		{statuses{of(over, 20, 3, 60), of(ok, 10, 0, 360)}, "limit 20 remaining 3 reset 60"},
		{statuses{of(over, 20, 0, 60), of(over, 10, 5, 360)}, "limit 10 remaining 5 reset 360"},
		{statuses{of(over, 10, 5, 360), of(over, 20, 0, 60)}, "limit 10 remaining 5 reset 360"},
		{statuses{of(over, 10, 5, 60), of(over, 20, 0, 60)}, "limit 10 remaining 5 reset 60"},
	} {
		s := &Service{settings: settings.Settings{HeaderRatelimitLimit: "limit", HeaderRatelimitRemaining: "remaining",
			HeaderRatelimitReset: "reset"}}
		response := &pb.RateLimitResponse{Statuses: c.statuses}
		s.addHeaders(response)
		var words []string
		for _, header := range response.ResponseHeadersToAdd {
			words = append(words, header.Key, header.Value)
		}
		require.Equal(t, c.headers, strings.Join(words, " "), c.statuses)
	}
}
