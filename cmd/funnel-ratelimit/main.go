// Command funnel-ratelimit is a rate limit service for Envoy, Istio and other clients of gRPC. It is made of packages
// of github.com/envoyproxy/ratelimit, the reference, but package backend decides, by funnels. docs/envoy.md lists what
// differs.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/metrics"
	"github.com/envoyproxy/ratelimit/src/server"
	ratelimit "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/redis/go-redis/v9"
	"github.com/sirupsen/logrus"

	"funnel/cmd/funnel-ratelimit/backend"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "funnel-ratelimit takes no arguments: its settings are in the environment, see docs/envoy.md")
		os.Exit(2)
	}
	s, err := readSettings()
	if err != nil {
		logrus.Fatal(err)
	}
	level, err := logrus.ParseLevel(s.LogLevel)
	if err != nil {
		logrus.Fatalf("LOG_LEVEL: %v", err)
	}
	logrus.SetLevel(level)
	if strings.EqualFold(s.LogFormat, "json") {
		logrus.SetFormatter(&logrus.JSONFormatter{FieldMap: logrus.FieldMap{"time": "@timestamp", "msg": "@message"}})
	}
	log.SetFlags(0)
	log.SetOutput(logrus.StandardLogger().WriterLevel(logrus.WarnLevel)) // for slog, by which package limiter logs
	redis.SetLogger(redisLogger{})
	srv, err := newServer(s)
	if err != nil {
		logrus.Fatal(err)
	}
	srv.Start() // until a signal ends the process
}

// A redisLogger logs what go-redis says.
type redisLogger struct{}

func (redisLogger) Printf(_ context.Context, format string, words ...any) {
	logrus.Warnf(format, words...)
}

// returnPanic makes a panic an error: functions of the reference panic if a setting is not valid, or a file is missing.
func returnPanic(err *error) {
	if failure := recover(); failure != nil {
		*err = fmt.Errorf("settings: %v", failure)
	}
}

func readSettings() (s settings.Settings, err error) {
	defer returnPanic(&err)
	return settings.NewSettings(), nil
}

// newServer makes the server as the reference's runner does, which accepts no other backend. It waits for a
// configuration.
func newServer(s settings.Settings) (srv server.Server, err error) {
	defer returnPanic(&err)
	var counts stats.ShouldRateLimitStats
	limits, err := backend.New(s, func() { counts.RedisError.Inc() })
	if err != nil {
		return nil, err
	}
	sinks := runner.NewRunner(s) // for statistics
	store := sinks.GetStatsStore()
	manager := &bounded{Manager: stats.NewStatManager(store, s)}
	counts = manager.NewShouldRateLimitStats()
	reporter := metrics.NewServerReporter(store.ScopeWithTags("ratelimit_server", s.ExtraTags))
	srv = server.NewServer(s, "ratelimit", manager, nil, settings.GrpcUnaryInterceptor(reporter.UnaryServerInterceptor()))
	service := ratelimit.NewService(limits, srv.Provider(), manager, srv.HealthChecker(), zeroClock{},
		s.GlobalShadowMode, s.ForceStartWithoutInitialConfig, s.HealthyWithAtLeastOneConfigLoaded)
	srv.AddDebugHttpEndpoint("/rlconfig", "print out the currently loaded configuration for debugging",
		func(w http.ResponseWriter, _ *http.Request) {
			if current, _, _ := service.GetCurrentConfig(); current != nil {
				io.WriteString(w, current.Dump())
			}
		})
	answering := described{service, limits, s.HeaderRatelimitReset}
	srv.AddJsonHandler(answering)
	pb.RegisterRateLimitServiceServer(srv.GrpcServer(), answering)
	return srv, nil
}

// zeroClock is always at the start of a window: the reference counts in windows, and funnels have none.
type zeroClock struct{}

func (zeroClock) UnixNow() int64 { return 0 }
