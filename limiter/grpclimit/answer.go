package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"funnel/gcra"
	"funnel/limiter"
)

// pushback is the trailer of gRFC A6 that tells retrying clients when to retry. A negative number means never.
const pushback = "grpc-retry-pushback-ms"

// answerLimited returns the answer to a call that the limit of that name refuses.
func answerLimited(ctx context.Context, name string, result limiter.Result) error {
	if result.Slots.Max > 0 {
		return status.Error(codes.ResourceExhausted, "too many calls at once: try again in a moment")
	}
	text := "too many calls: the quota has ended"
	if result.Quantity > result.Limit.Capacity {
		text = fmt.Sprintf("call too large: it costs %d, and at most %d can be granted",
			result.Quantity, result.Limit.Capacity)
	}
	milliseconds := int64(-1)
	details := []protoadapt.MessageV1{&errdetails.QuotaFailure{
		Violations: []*errdetails.QuotaFailure_Violation{{
			Subject:     name,
			Description: result.Limit.String(),
			QuotaId:     name,
			QuotaValue:  int64(result.Limit.Capacity),
		}},
	}}
	if result.RetryAfter != limiter.NoRetry {
		text = fmt.Sprintf("too many calls: try again in %d seconds", gcra.Seconds(int64(result.RetryAfter)))
		milliseconds = int64((result.RetryAfter + time.Millisecond - 1) / time.Millisecond)
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(result.RetryAfter)})
	}
	// SetTrailer fails outside of a gRPC server, where no client reads it.
	_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, strconv.FormatInt(milliseconds, 10)))
	answer := status.New(codes.ResourceExhausted, text)
	if detailed, err := answer.WithDetails(details...); err == nil {
		answer = detailed
	}
	return answer.Err()
}

// answerError logs the cause instead of sending it: it may contain the address of Redis.
func (p *Policy) answerError(ctx context.Context, err error) error {
	slog.ErrorContext(ctx, "no decision about the rate limit of a call", "policy", p.name, "error", err)
	if errors.Is(err, limiter.ErrInvalid) { // asking again does not help
		return status.Error(codes.Internal, "the limit, the cost or the key of this call is not valid")
	}
	return status.Error(codes.Unavailable, "rate limits cannot be checked: try again later")
}
