// Package otelhook tells OpenTelemetry what a limiter.Limiter has decided: a histogram
// of decisions, and events on the span of the caller. Copy this file, or
// import the package: the README of this Go module says which when.
//
// It makes no spans. github.com/redis/go-redis/extra/redisotel makes one for each command
// that is sent to Redis, which says how long Redis took, and not what was decided.
package otelhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"funnel/limiter"
)

// New makes the instrument, and returns the hook that uses it: for limiter.WithHook. One
// hook may serve several limiters.
//
// The histogram funnel.decision.duration has these attributes, and its count is the number
// of decisions: funnel.command; funnel.outcome (allowed, limited, limited_elsewhere) and funnel.source, unless
// nobody has decided; and error.type, if Redis has not.
//
// The span of the caller, if there is one, gets the event funnel.limited, and an exception
// if Redis has not decided. Keys are left out: in metrics there may be any number
// of them, and they often name a person.
func New(provider metric.MeterProvider) (limiter.Hook, error) {
	durations, err := provider.Meter("funnel/limiter").Float64Histogram("funnel.decision.duration",
		metric.WithUnit("s"),
		metric.WithDescription("Time from call to decision, without the sleep of a Wait."),
		// From a round trip within one machine to the timeout of a patient client.
		metric.WithExplicitBucketBoundaries(.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, event limiter.Event) {
		attributes := attributesOf(event)
		durations.Record(ctx, event.Duration.Seconds(), metric.WithAttributes(attributes...))

		span := trace.SpanFromContext(ctx)
		if !span.IsRecording() {
			return
		}
		if event.Cause != nil {
			span.RecordError(event.Cause, trace.WithAttributes(attributes...))
		}
		if result := event.Result; result.Source != "" && result.Limited() {
			attributes = append(attributes,
				attribute.String("funnel.limit", limitOf(result)),
				attribute.Int("funnel.quantity", result.Quantity))
			if result.RetryAfter != limiter.NoRetry {
				attributes = append(attributes, attribute.Float64("funnel.retry_after", result.RetryAfter.Seconds()))
			}
			span.AddEvent("funnel.limited", trace.WithAttributes(attributes...))
		}
	}, nil
}

// limitOf is the limit or the slots of a result, in words.
func limitOf(result limiter.Result) string {
	if result.Slots.TTL > 0 {
		return fmt.Sprintf("%d at once", result.Slots.Max)
	}
	return result.Limit.String()
}

// attributesOf takes few values: they make time series.
func attributesOf(event limiter.Event) []attribute.KeyValue {
	attributes := []attribute.KeyValue{attribute.String("funnel.command", event.Command)}
	if source := event.Result.Source; source != "" {
		outcome := "allowed"
		switch {
		case event.Result.Limited():
			outcome = "limited"
		case event.Limited: // it fits, and another row limits the call
			outcome = "limited_elsewhere"
		}
		attributes = append(attributes, attribute.String("funnel.outcome", outcome),
			attribute.String("funnel.source", string(source)))
	}
	if event.Cause != nil {
		attributes = append(attributes, errorType(event.Cause))
	}
	return attributes
}

// errorType is the first word of an error reply, such as OOM or READONLY, as the
// conventions for Redis have it; or timeout, invalid or unavailable; or else the Go type.
func errorType(err error) attribute.KeyValue {
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		code, _, _ := strings.Cut(reply.Error(), " ")
		return semconv.ErrorTypeKey.String(code)
	case errors.Is(err, context.DeadlineExceeded):
		return semconv.ErrorTypeKey.String("timeout")
	case errors.Is(err, limiter.ErrInvalid):
		return semconv.ErrorTypeKey.String("invalid")
	case errors.Is(err, limiter.ErrUnavailable):
		return semconv.ErrorTypeKey.String("unavailable")
	}
	return semconv.ErrorType(err)
}
