// What was decided is in the histogram, and on the span of the caller.

package otelhook

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// still is a limit whose funnel leaks nothing during a test.
var still = limiter.Per(1, servertest.StillPeriod*time.Second).WithCapacity(1)

// A decision is counted by its attributes. The span of the caller is told that it was limited,
// and why Redis has not decided, even if another has decided then.
func TestHookTellsWhatWasDecided(t *testing.T) {
	metrics, spans := metric.NewManualReader(), tracetest.NewInMemoryExporter()
	hook, err := New(metric.NewMeterProvider(metric.WithReader(metrics)))
	require.NoError(t, err)
	tracer := trace.NewTracerProvider(trace.WithSyncer(spans)).Tracer("test")
	server := servertest.StartModule(t)
	rdb := server.Client(t, func(options *redis.Options) { options.DialerRetries = 1 })
	limit := still
	// events are the events of a span around a call for tokens.
	events := func(quantity int, options ...limiter.Option) []trace.Event {
		spans.Reset()
		ctx, span := tracer.Start(t.Context(), "request")
		limiter.New(rdb, append(options, limiter.WithHook(hook))...).AllowN(ctx, limit.String(), limit, quantity)
		span.End()
		require.Len(t, spans.GetSpans(), 1)
		return spans.GetSpans()[0].Events
	}

	require.Empty(t, events(1), "it was allowed")
	limited := events(2) // more than fits, ever
	require.Len(t, limited, 1)
	require.Equal(t, "funnel.limited", limited[0].Name)
	require.Equal(t, []attribute.KeyValue{
		attribute.String("funnel.command", "reserve"),
		attribute.String("funnel.outcome", "limited"),
		attribute.String("funnel.source", "module"),
		attribute.String("funnel.limit", "1 per 277h46m40s, capacity 1"),
		attribute.Int("funnel.quantity", 2),
	}, limited[0].Attributes)
	limit = limiter.Monthly(1, time.UTC).From(15)
	limited = events(2)
	require.Len(t, limited, 1)
	require.Contains(t, limited[0].Attributes, attribute.String("funnel.limit", "1 per month from day 15 in UTC"))
	limit = still
	// Without a span there is nobody to tell, and it is counted.
	_, err = limiter.New(rdb, limiter.WithHook(hook)).Peek(t.Context(), still.String(), still)
	require.NoError(t, err)

	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	failed := events(1)
	require.Len(t, failed, 1)
	require.Equal(t, "exception", failed[0].Name)
	require.Contains(t, failed[0].Attributes, attribute.String("error.type", "OOM"))
	failed = events(1, limiter.OnFailure(limiter.FailClosed))
	require.Len(t, failed, 2)
	require.Equal(t, "exception", failed[0].Name)
	require.Equal(t, "funnel.limited", failed[1].Name)
	require.Contains(t, failed[1].Attributes, attribute.Float64("funnel.retry_after", 1))
	events(-1)
	server.Kill()
	events(1, limiter.OnFailure(limiter.FailOpen))

	var all metricdata.ResourceMetrics
	require.NoError(t, metrics.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	require.Len(t, all.ScopeMetrics[0].Metrics, 1)
	only := all.ScopeMetrics[0].Metrics[0]
	require.Equal(t, "funnel.decision.duration", only.Name)
	require.Equal(t, "s", only.Unit)
	counts := map[string]uint64{}
	for _, point := range only.Data.(metricdata.Histogram[float64]).DataPoints {
		require.Positive(t, point.Sum)
		counts[point.Attributes.Encoded(attribute.DefaultEncoder())] = point.Count
	}
	require.Equal(t, map[string]uint64{
		"funnel.command=reserve,funnel.outcome=allowed,funnel.source=module":                      1,
		"funnel.command=reserve,funnel.outcome=limited,funnel.source=module":                      2,
		"funnel.command=peek,funnel.outcome=limited,funnel.source=module":                         1,
		"error.type=OOM,funnel.command=reserve":                                                   1,
		"error.type=OOM,funnel.command=reserve,funnel.outcome=limited,funnel.source=closed":       1,
		"error.type=unavailable,funnel.command=reserve,funnel.outcome=allowed,funnel.source=open": 1,
		"error.type=invalid,funnel.command=reserve":                                               1,
	}, counts)
}
