package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/metrics"
	"github.com/envoyproxy/ratelimit/src/provider"
	reference "github.com/envoyproxy/ratelimit/src/server"
	ratelimit "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/envoyproxy/ratelimit/src/utils"
	"github.com/libp2p/go-reuseport"
	gostats "github.com/lyft/gostats"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"funnel/cmd/funnel-ratelimit/backend"
	"funnel/internal/certs"
)

// A Server serves requests by gRPC and by JSON, health, and what helps to debug. Make one with
// [New].
type Server struct {
	settings settings.Settings
	backend  *backend.Backend
	provider provider.RateLimitConfigProvider // of the limits
	grpc     *grpc.Server
	http     *http.Server
	debug    *http.Server
	running  context.Context // done when Stop begins
	cancel   context.CancelFunc
	stopping sync.Once
	stopped  chan struct{} // closed when Stop has ended
}

// New returns a Server, which does not listen yet. It waits for limits unless
// FORCE_START_WITHOUT_INITIAL_CONFIG is set. The manager has the statistics.
func New(s settings.Settings, decider *backend.Backend, manager stats.Manager) (server *Server, err error) {
	defer returnPanic(&err)
	counts := &bounded{Manager: manager}
	store := manager.GetStatsStore()
	server = &Server{settings: s, backend: decider, stopped: make(chan struct{})}
	server.running, server.cancel = context.WithCancel(context.Background())
	server.grpc, err = newGRPC(s, store)
	if err != nil {
		return nil, err
	}
	store.AddStatGenerator(gostats.NewRuntimeStats(store.ScopeWithTags("ratelimit", s.ExtraTags).Scope("go")))
	server.provider, err = newProvider(s, counts, store)
	if err != nil {
		return nil, err
	}
	checker := reference.NewHealthChecker(health.NewServer(), "ratelimit", s.HealthyWithAtLeastOneConfigLoaded)
	// The reference's service reads the limits, and this package's service answers with them.
	reader := ratelimit.NewService(nil, server.provider, counts, checker, utils.NewTimeSourceImpl(),
		s.GlobalShadowMode, s.ForceStartWithoutInitialConfig, s.HealthyWithAtLeastOneConfigLoaded)
	answering := NewService(s, reader.GetCurrentConfig, decider, counts.NewServiceStats())
	grpc_health_v1.RegisterHealthServer(server.grpc, checker.Server())
	pb.RegisterRateLimitServiceServer(server.grpc, answering)
	routes := http.NewServeMux()
	routes.Handle("/healthcheck", checker)
	routes.Handle("/json", answering)
	server.http = &http.Server{Handler: routes, ReadHeaderTimeout: time.Minute}
	server.debug = &http.Server{Handler: debugRoutes(reader.GetCurrentConfig), ReadHeaderTimeout: time.Minute}
	return server, nil
}

// returnPanic turns a panic into an error: functions of the reference panic if a setting is not
// valid, or if a file is missing.
func returnPanic(err *error) {
	failure := recover()
	if failure != nil {
		*err = fmt.Errorf("settings: %v", failure)
	}
}

// newProvider returns where limits come from.
func newProvider(s settings.Settings, manager stats.Manager, store gostats.Store) (
	provider.RateLimitConfigProvider, error) {
	switch s.ConfigType {
	case "FILE":
		return provider.NewFileProvider(s, manager, store), nil
	case "GRPC_XDS_SOTW":
		return provider.NewXdsGrpcSotwProvider(s, manager), nil
	}
	return nil, fmt.Errorf("CONFIG_TYPE is '%s': it must be FILE or GRPC_XDS_SOTW", s.ConfigType)
}

// newGRPC returns a server for gRPC without services.
func newGRPC(s settings.Settings, store gostats.Store) (*grpc.Server, error) {
	reporter := metrics.NewServerReporter(store.ScopeWithTags("ratelimit_server", s.ExtraTags))
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: s.GrpcMaxConnectionAge, MaxConnectionAgeGrace: s.GrpcMaxConnectionAgeGrace}),
		grpc.UnaryInterceptor(reporter.UnaryServerInterceptor()),
	}
	if s.GrpcServerUseTLS {
		config, err := serverTLS(s)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	return grpc.NewServer(options...), nil
}

// serverTLS returns a configuration that uses the certificate and the clients' CA as their files
// are when a client connects.
func serverTLS(s settings.Settings) (*tls.Config, error) {
	files, err := certs.New(func() *tls.Config {
		config := utils.TlsConfigFromFiles(s.GrpcServerTlsCert, s.GrpcServerTlsKey, s.GrpcClientTlsCACert,
			utils.ClientCA, false)
		if s.GrpcClientTlsCACert != "" {
			config.ClientAuth = tls.RequireAndVerifyClientCert
			config.VerifyConnection = clientIs(s.GrpcClientTlsSAN)
		}
		config.SessionTicketsDisabled = true // a session would outlive the CA that its client had
		return config
	}, s.GrpcServerTlsCert, s.GrpcServerTlsKey, s.GrpcClientTlsCACert)
	if err != nil {
		return nil, err
	}
	config := files.Config().Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return files.Config(), nil }
	return config, nil
}

// clientIs returns a check that the client's certificate, which is verified already, is for a name.
// An empty name stands for any.
func clientIs(name string) func(tls.ConnectionState) error {
	if name == "" {
		return nil
	}
	return func(state tls.ConnectionState) error { return verifyName(state.PeerCertificates, name) }
}

func verifyName(certificates []*x509.Certificate, name string) error {
	if len(certificates) == 0 {
		return errors.New("the client has no certificate")
	}
	return certificates[0].VerifyHostname(name)
}

// Start connects to Redis as [backend.Backend.Connect] does, and only then listens, so no health
// check succeeds before the service is connected. It serves until [Server.Stop] has ended. It
// returns an error if Redis refuses the user, or if it cannot listen.
func (s *Server) Start() error {
	err := s.backend.Connect(s.running)
	if s.running.Err() != nil {
		<-s.stopped
		return nil
	}
	if err != nil {
		return err
	}
	debug, err := listen("debugging", s.settings.DebugHost, s.settings.DebugPort)
	if err == nil {
		go s.debug.Serve(debug)
	} else {
		logrus.Error(err) // requests are answered without it
	}
	var requests net.Listener
	if s.settings.GrpcUds != "" {
		requests, err = net.Listen("unix", s.settings.GrpcUds)
	} else {
		requests, err = listen("gRPC", s.settings.GrpcHost, s.settings.GrpcPort)
	}
	if err != nil {
		return err
	}
	other, err := listen("HTTP", s.settings.Host, s.settings.Port)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- s.grpc.Serve(requests) }()
	go func() { failed <- s.http.Serve(other) }()
	err = <-failed
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	<-s.stopped
	return nil
}

// listen listens at a port even if another process listens there, too, as the reference does: so a
// new process can take over from an old one.
func listen(what, host string, port int) (net.Listener, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	logrus.Warnf("listening for %s on '%s'", what, address)
	listener, err := reuseport.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for %s on '%s': %w", what, address, err)
	}
	return listener, nil
}

// patience is how long calls may last after Stop. A call for a decision ends within milliseconds,
// but a Watch of the health goes on for as long as its caller likes.
const patience = 5 * time.Second

// Stop ends the server. Calls that are under way are finished first, and what is given back for
// callers who have given up, if they end within patience.
func (s *Server) Stop() {
	s.stopping.Do(func() {
		defer close(s.stopped)
		s.cancel()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		context.AfterFunc(ctx, s.grpc.Stop)
		var calls sync.WaitGroup
		calls.Go(s.grpc.GracefulStop)
		calls.Go(func() {
			err := s.http.Shutdown(ctx)
			if err != nil {
				s.http.Close()
			}
		})
		calls.Wait()
		s.debug.Close()
		s.provider.Stop()
		s.backend.Close(ctx)
	})
	<-s.stopped
}
