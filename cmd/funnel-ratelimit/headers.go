package main

import (
	"context"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"funnel/cmd/funnel-ratelimit/backend"
)

// A described service sets headers that describe funnels.
type described struct {
	pb.RateLimitServiceServer
	limits *backend.Backend
	reset  string // the name of the header for the time until the request fits, or until more remains if it was allowed
}

func (d described) ShouldRateLimit(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	response, err := d.RateLimitServiceServer.ShouldRateLimit(ctx, request)
	if err != nil {
		return nil, err
	}
	reset := int64(0)
	for _, status := range response.Statuses {
		if status.Code == response.OverallCode {
			reset = max(reset, status.DurationUntilReset.GetSeconds())
		}
	}
	for _, header := range response.ResponseHeadersToAdd {
		if header.Key == d.reset {
			header.Value = strconv.FormatInt(reset, 10)
		}
	}
	if d.limits.IsSoftBreach(response) {
		response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd,
			&core.HeaderValue{Key: "x-ratelimit-soft-breach", Value: "1"})
	}
	return response, nil
}
