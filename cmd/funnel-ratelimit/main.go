// Command funnel-ratelimit is a rate limit service for Envoy, Istio and other clients of gRPC. It
// reads the configuration and the settings of github.com/envoyproxy/ratelimit, and serves by its
// packages. Package backend decides, by funnels: docs/envoy.md says what differs.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/metrics"
	"github.com/envoyproxy/ratelimit/src/server"
	ratelimit "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/envoyproxy/ratelimit/src/trace"
	"github.com/envoyproxy/ratelimit/src/utils"
	"github.com/sirupsen/logrus"

	"funnel/cmd/funnel-ratelimit/backend"
)

func main() {
	s := settings.NewSettings()
	level, err := logrus.ParseLevel(s.LogLevel)
	if err != nil {
		logrus.Fatalf("LOG_LEVEL: %v", err)
	}
	logrus.SetLevel(level)
	if strings.EqualFold(s.LogFormat, "json") {
		logrus.SetFormatter(&logrus.JSONFormatter{FieldMap: logrus.FieldMap{"time": "@timestamp", "msg": "@message"}})
	}
	if s.TracingEnabled {
		trace.InitProductionTraceProvider(s.TracingExporterProtocol, s.TracingServiceName,
			s.TracingServiceNamespace, s.TracingServiceInstanceId, s.TracingSamplingRate)
	}
	srv, err := newServer(s)
	if err != nil {
		logrus.Fatal(err)
	}
	srv.Start() // until a signal ends the process
}

// newServer puts the service together as the reference's runner does, which takes no other
// backend. It waits for the first configuration.
func newServer(s settings.Settings) (server.Server, error) {
	decides, err := backend.New(s)
	if err != nil {
		return nil, err
	}
	sinks := runner.NewRunner(s) // for statistics
	store := sinks.GetStatsStore()
	manager := stats.NewStatManager(store, s)
	reporter := metrics.NewServerReporter(store.ScopeWithTags("ratelimit_server", s.ExtraTags))
	srv := server.NewServer(s, "ratelimit", manager, nil, settings.GrpcUnaryInterceptor(reporter.UnaryServerInterceptor()))
	service := service{ratelimit.NewService(decides, srv.Provider(), manager, srv.HealthChecker(),
		utils.NewTimeSourceImpl(), s.GlobalShadowMode, s.ForceStartWithoutInitialConfig,
		s.HealthyWithAtLeastOneConfigLoaded)}
	srv.AddDebugHttpEndpoint("/rlconfig", "print out the currently loaded configuration for debugging",
		func(w http.ResponseWriter, _ *http.Request) {
			if current, _, _ := service.GetCurrentConfig(); current != nil {
				io.WriteString(w, current.Dump())
			}
		})
	srv.AddJsonHandler(service)
	pb.RegisterRateLimitServiceServer(srv.GrpcServer(), service)
	return srv, nil
}

// A service is the reference's, whose header for the reset tells the end of a window.
type service struct {
	ratelimit.RateLimitServiceServer
}

// ShouldRateLimit has that header tell what the status does to which the headers belong.
func (s service) ShouldRateLimit(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	response, err := s.RateLimitServiceServer.ShouldRateLimit(ctx, request)
	if headers := response.GetResponseHeadersToAdd(); len(headers) == 3 { // limit, remaining, reset
		for _, status := range response.Statuses {
			if status.DurationUntilReset != nil && headers[1].Value == fmt.Sprint(status.LimitRemaining) &&
				headers[0].Value == fmt.Sprint(status.CurrentLimit.GetRequestsPerUnit()) {
				headers[2].Value = fmt.Sprint(status.DurationUntilReset.Seconds)
			}
		}
	}
	return response, err
}
