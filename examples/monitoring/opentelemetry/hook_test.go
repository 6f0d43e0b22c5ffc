package otelhook

import (
	"context"
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
var still = limiter.Per(1, servertest.StillPeriod*time.Second).Burst(1)

// A recorder is the SDK, with all that it was told in memory.
type recorder struct {
	metrics *metric.ManualReader
	spans   *tracetest.InMemoryExporter
	meters  *metric.MeterProvider
	tracers *trace.TracerProvider
}

func newRecorder() recorder {
	metrics, spans := metric.NewManualReader(), tracetest.NewInMemoryExporter()
	return recorder{metrics, spans,
		metric.NewMeterProvider(metric.WithReader(metrics)),
		trace.NewTracerProvider(trace.WithSyncer(spans))}
}

// span runs a function within a span, and returns its events.
func (r recorder) span(t *testing.T, run func(ctx context.Context)) []trace.Event {
	t.Helper()
	r.spans.Reset()
	ctx, span := r.tracers.Tracer("test").Start(t.Context(), "request")
	run(ctx)
	span.End()
	require.Len(t, r.spans.GetSpans(), 1)
	return r.spans.GetSpans()[0].Events
}

// counts is how many decisions the histogram holds, by attributes.
func (r recorder) counts(t *testing.T) map[string]uint64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, r.metrics.Collect(t.Context(), &all))
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
	return counts
}

func (r recorder) limiter(t *testing.T, rdb *redis.Client, options ...limiter.Option) *limiter.Limiter {
	t.Helper()
	hook, err := New(r.meters)
	require.NoError(t, err)
	return limiter.New(rdb, append(options, limiter.WithHook(hook))...)
}

// An allowed call is counted, and a limited one is also on the caller's span.
func TestHookTellsWhatWasDecided(t *testing.T) {
	seen := newRecorder()
	rdb := servertest.StartClient(t)
	l := seen.limiter(t, rdb)

	require.Empty(t, seen.span(t, func(ctx context.Context) {
		result, err := l.Allow(ctx, "k", still)
		require.NoError(t, err)
		require.False(t, result.Limited())
	}))
	events := seen.span(t, func(ctx context.Context) {
		_, err := l.AllowN(ctx, "k", still, 2) // more than fits, ever
		require.NoError(t, err)
	})
	require.Len(t, events, 1)
	require.Equal(t, "funnel.limited", events[0].Name)
	require.Equal(t, []attribute.KeyValue{
		attribute.String("funnel.command", "reserve"),
		attribute.String("funnel.outcome", "limited"),
		attribute.String("funnel.path", "module"),
		attribute.String("funnel.limit", "1 per 277h46m40s, burst 1"),
		attribute.Int("funnel.quantity", 2),
	}, events[0].Attributes)

	// Without a span there is nobody to tell, and it is counted.
	_, err := l.Peek(t.Context(), "k", still)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{
		"funnel.command=reserve,funnel.outcome=allowed,funnel.path=module": 1,
		"funnel.command=reserve,funnel.outcome=limited,funnel.path=module": 1,
		"funnel.command=peek,funnel.outcome=limited,funnel.path=module":    1,
	}, seen.counts(t))
}

// What Redis has not decided says why, whoever has decided then.
func TestHookTellsWhyRedisHasNotDecided(t *testing.T) {
	seen := newRecorder()
	server := servertest.StartModule(t)
	rdb := server.Client(t)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())

	events := seen.span(t, func(ctx context.Context) {
		_, err := seen.limiter(t, rdb).Allow(ctx, "k", still)
		require.ErrorContains(t, err, "OOM")
	})
	require.Len(t, events, 1)
	require.Equal(t, "exception", events[0].Name)
	require.Contains(t, events[0].Attributes, attribute.String("error.type", "OOM"))

	events = seen.span(t, func(ctx context.Context) {
		result, err := seen.limiter(t, rdb, limiter.OnFailure(limiter.FailClosed)).Allow(ctx, "k", still)
		require.NoError(t, err)
		require.True(t, result.Limited())
	})
	require.Len(t, events, 2)
	require.Equal(t, "exception", events[0].Name)
	require.Equal(t, "funnel.limited", events[1].Name)
	require.Contains(t, events[1].Attributes, attribute.Float64("funnel.retry_after", 1))

	server.Kill()
	down := server.Client(t, func(options *redis.Options) { options.DialerRetries = 1 })
	_, err := seen.limiter(t, down, limiter.OnFailure(limiter.FailOpen)).Allow(t.Context(), "k", still)
	require.NoError(t, err)
	_, err = seen.limiter(t, rdb).Allow(t.Context(), "k", limiter.PerMinute(0))
	require.Error(t, err)

	require.Equal(t, map[string]uint64{
		"error.type=OOM,funnel.command=reserve":                                                  1,
		"error.type=OOM,funnel.command=reserve,funnel.outcome=limited,funnel.path=closed":        1,
		"error.type=*net.OpError,funnel.command=reserve,funnel.outcome=allowed,funnel.path=open": 1,
		"error.type=funnel/gcra.Error,funnel.command=reserve":                                    1,
	}, seen.counts(t))
}
