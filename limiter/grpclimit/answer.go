package grpclimit

import (
	"context"
	"errors"
	"fmt"
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

// pushback is the trailer of gRFC A6 that tells retrying clients when to retry. A negative number
// means never.
const pushback = "grpc-retry-pushback-ms"

// answerLimited returns the answer to a call that the limit of that name refuses.
func answerLimited(ctx context.Context, name string, result limiter.Result) error {
	if result.Slots.Max > 0 {
		most := result.Slots.Max
		return limited("too many calls at once: try again in a moment", name, fmt.Sprintf("%d at once", most), most)
	}
	text := "too many calls: the quota has ended"
	if result.Quantity > result.Limit.Capacity {
		text = fmt.Sprintf("call too large: it costs %d, and at most %d can be granted",
			result.Quantity, result.Limit.Capacity)
	}
	milliseconds := int64(-1)
	var details []protoadapt.MessageV1
	if result.RetryAfter != limiter.NoRetry {
		seconds := gcra.Seconds(int64(result.RetryAfter))
		text = fmt.Sprintf("too many calls: try again in %d seconds", seconds)
		if seconds == 1 {
			text = "too many calls: try again in 1 second"
		}
		milliseconds = int64((result.RetryAfter + time.Millisecond - 1) / time.Millisecond)
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(result.RetryAfter)})
	}
	// SetTrailer fails outside of a gRPC server, where no client reads it.
	_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, strconv.FormatInt(milliseconds, 10)))
	return limited(text, name, result.Limit.String(), result.Limit.Max(), details...)
}

// limited returns the status of a call that a limit refuses.
func limited(text, name, limit string, most int, details ...protoadapt.MessageV1) error {
	answer := status.New(codes.ResourceExhausted, fmt.Sprintf("%s (policy %q)", text, name))
	violation := &errdetails.QuotaFailure_Violation{
		Subject:     name,
		Description: limit,
		QuotaId:     name,
		QuotaValue:  int64(most),
	}
	details = append([]protoadapt.MessageV1{
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{violation}},
	}, details...)
	detailed, err := answer.WithDetails(details...)
	if err != nil {
		return answer.Err()
	}
	return detailed.Err()
}

// answerError does not send the cause: it may contain the address of Redis.
func answerError(err error) error {
	if errors.Is(err, limiter.ErrInvalid) { // asking again does not help
		return status.Error(codes.Internal, "the limit, the cost or the key of this call is not valid")
	}
	return status.Error(codes.Unavailable, "rate limits cannot be checked: try again later")
}
