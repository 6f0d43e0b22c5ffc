package service

import (
	"context"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/stretchr/testify/require"
)

// A configuration has one limit, which replaces another one.
type replacing struct{ config.RateLimitConfig }

func (replacing) GetLimit(context.Context, string, *common.RateLimitDescriptor) *config.RateLimit {
	return &config.RateLimit{Name: "its own", Replaces: []string{"another"}}
}

// A message has room for 200,000 descriptors. If the cost grew with the square of their number, a
// single request would keep a core busy for minutes.
func TestCostOfReplacedLimits(t *testing.T) {
	cost := func(descriptors int) time.Duration {
		request := &pb.RateLimitRequest{Descriptors: make([]*common.RateLimitDescriptor, descriptors)}
		shortest := time.Hour
		for range 5 {
			began := time.Now()
			limitsOf(t.Context(), replacing{}, request)
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	require.Less(t, cost(10_000), 200*cost(250), "40 times the descriptors cost far below 1,600 times as much")
}
