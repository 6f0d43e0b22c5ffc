// Command funnel-ratelimit is a rate limit service for Envoy, Istio and other clients of gRPC.
// Package service answers requests, with the configuration of github.com/envoyproxy/ratelimit, the
// reference. Package backend decides, by funnels. docs/envoy.md lists what differs.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for FUNNEL_QUOTAS in an image without zones

	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
	"github.com/sirupsen/logrus"

	"funnel/cmd/funnel-ratelimit/backend"
	"funnel/cmd/funnel-ratelimit/service"
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
	err = logAsSet(s)
	if err != nil {
		logrus.Fatal(err)
	}
	server, err := newServer(s)
	if err != nil {
		logrus.Fatal(err)
	}
	go stopOnSignal(server)
	err = server.Start()
	if err != nil {
		logrus.Fatal(err)
	}
}

func stopOnSignal(server *service.Server) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	logrus.Infof("stopping on %v", <-signals)
	server.Stop()
}

// readSettings reads the reference's settings, whose function panics if one is not valid.
func readSettings() (s settings.Settings, err error) {
	defer func() {
		failure := recover()
		if failure != nil {
			err = fmt.Errorf("settings: %v", failure)
		}
	}()
	return settings.NewSettings(), nil
}

// newServer returns a server whose statistics go where the settings say. It waits for limits.
func newServer(s settings.Settings) (*service.Server, error) {
	// The sinks come last, because they connect at once: a wrong setting is to be the only line of
	// the log.
	var redisErrors, notAsked gostats.Counter
	decider, err := backend.New(s, backend.Events{
		Failed:   func() { redisErrors.Inc() },
		NotAsked: func() { notAsked.Inc() },
	})
	if err != nil {
		return nil, err
	}
	sinks := runner.NewRunner(s)
	manager := stats.NewStatManager(sinks.GetStatsStore(), s)
	redisErrors = manager.NewShouldRateLimitStats().RedisError
	notAsked = sinks.GetStatsStore().ScopeWithTags("ratelimit", s.ExtraTags).NewCounter("redis_not_asked")
	return service.New(s, decider, manager)
}
