// The program is started as Envoy Gateway starts it, and with wrong arguments and settings.

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/anypb"

	"funnel/internal/servertest"
)

// The test binary is the program if this is its environment.
const isProgram = "RUN_FUNNEL_RATELIMIT=true"

func TestMain(m *testing.M) {
	name, value, _ := strings.Cut(isProgram, "=")
	if os.Getenv(name) == value {
		main()
		return
	}
	os.Exit(m.Run())
}

// program returns the program with these arguments and no other environment. It ends with the test
// binary.
func program(argument, environment string) *exec.Cmd {
	command := exec.Command(os.Args[0], strings.Fields(argument)...)
	command.Env = append(strings.Fields(environment), isProgram)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// A gateway tells the service its limits, as Envoy Gateway does.
type gateway struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	limits *anypb.Any
}

func (g gateway) StreamAggregatedResources(
	stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	request, err := stream.Recv()
	if err != nil || request.Node.Id != "envoy-ratelimit" {
		return fmt.Errorf("the first request is %v: %w", request, err)
	}
	err = stream.Send(&discovery.DiscoveryResponse{
		VersionInfo: "1", Nonce: "1", TypeUrl: request.TypeUrl, Resources: []*anypb.Any{g.limits}})
	<-stream.Context().Done()
	return err
}

// Except for ports and folders, this is the environment that Envoy Gateway sets. Only probes
// connect without TLS.
func TestEnvoyGateway(t *testing.T) {
	perHour := &limits.RateLimitPolicy{Unit: limits.RateLimitUnit_HOUR, RequestsPerUnit: 10}
	config, err := anypb.New(&limits.RateLimitConfig{Name: "shop", Domain: "shop",
		Descriptors: []*limits.RateLimitDescriptor{{Key: "user", RateLimit: perHour}}})
	require.NoError(t, err)
	xds := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(xds, gateway{limits: config})
	server := httptest.NewUnstartedServer(xds)
	server.EnableHTTP2, server.TLS = true, &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	folder := t.TempDir()
	certificate := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	require.NoError(t, err)
	for name, block := range map[string]pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}, "tls.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(&block), 0o600))
	}
	var ports [4]int
	for i := range ports {
		ports[i] = servertest.FreePort(t)
	}
	redis := servertest.Start(t, servertest.Options{})
	port, grpcPort, debug, metrics := ports[0], ports[1], ports[2], ports[3]
	environment := fmt.Sprintf(`RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_IGNOREDOTFILES=true
		RUNTIME_WATCH_ROOT=false LOG_LEVEL=info USE_STATSD=false CONFIG_TYPE=GRPC_XDS_SOTW
		CONFIG_GRPC_XDS_SERVER_URL=%s CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit
		GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=/certs/tls.crt GRPC_SERVER_TLS_KEY=/certs/tls.key
		GRPC_SERVER_TLS_CA_CERT=/certs/tls.crt CONFIG_GRPC_XDS_SERVER_USE_TLS=true
		CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key
		CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/tls.crt FORCE_START_WITHOUT_INITIAL_CONFIG=true
		REDIS_SOCKET_TYPE=tcp REDIS_URL=%s USE_PROMETHEUS=true PROMETHEUS_ADDR=:%d
		PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml PORT=%d GRPC_PORT=%d DEBUG_PORT=%d`,
		server.Listener.Addr(), redis.Addr(), metrics, port, grpcPort, debug)
	service := program("", strings.ReplaceAll(environment, "/certs", folder)+
		" LOG_FORMAT=json FUNNEL_ON_FAILURE=local FUNNEL_BURST_RATIO=0.3 STATS_FLUSH_INTERVAL=100ms")
	var log bytes.Buffer
	service.Stderr = &log
	require.NoError(t, service.Start())
	t.Cleanup(func() {
		service.Process.Kill()
		service.Wait()
		for line := range strings.Lines(log.String()) {
			require.True(t, json.Valid([]byte(line)), line)
		}
		for _, word := range []string{"redis unavailable", "failed to dial", "Envoy gives up before it decides"} {
			require.Contains(t, log.String(), word)
		}
	})

	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	connection, err := grpc.NewClient(fmt.Sprint("127.0.0.1:", grpcPort),
		grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	client, answer := served{client: pb.NewRateLimitServiceClient(connection)}, ""
	for _, port := range ports {
		servertest.AwaitListener(t, fmt.Sprint("127.0.0.1:", port))
	}
	servertest.Eventually(t, "the gateway's limit", func() bool {
		answer = client.ask(t, "shop: user=1")
		return strings.HasPrefix(answer, "OK")
	})
	require.Equal(t, "OK: OK 2 360s", answer)
	require.Equal(t, "OK", get(t, port, "/healthcheck"))
	require.Equal(t, "shop.user: unit=HOUR requests_per_unit=10, shadow_mode: false, quota_mode: false\n",
		get(t, debug, "/rlconfig"))
	body := `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"1"}]}]}`
	response, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/json", port), "", strings.NewReader(body))
	require.Regexp(t, `"overallCode":"OK".*"limitRemaining":1`, read(t, response, err))
	servertest.Eventually(t, "metrics", func() bool {
		return strings.Contains(get(t, metrics, "/metrics"), "ratelimit_service_rate_limit_shop_user_total_hits 2")
	})
	require.NotContains(t, get(t, metrics, "/metrics"), "near_limit 1", "2 of 3 are used")
	redis.Kill()
	require.Equal(t, "OK: OK 2 360s", client.ask(t, "shop: user=1"), "in this process")
	require.Equal(t, "OK: OK 1 360s", client.ask(t, "shop: user=1"), "after an attempt to connect")
	servertest.Eventually(t, "the failure in metrics", func() bool {
		return strings.Contains(get(t, metrics, "/metrics"), `ratelimit_service_call_should_rate_limit_redis_error 2`)
	})
}

func get(t *testing.T, port int, path string) string {
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	return read(t, response, err)
}

func read(t *testing.T, response *http.Response, err error) string {
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// The program ends with a line that says what is wrong, after a line for each setting that is
// ignored.
func TestWrongStarts(t *testing.T) {
	for _, c := range []struct {
		argument, environment, output string
		code                          int
	}{
		{"-h", "", "^funnel-ratelimit takes no arguments: .*docs/envoy.md\n$", 2},
		{"", "REDIS_TLS=true REDIS_TLS_CACERT=/none", `^.*level=fatal msg="settings: failed to read file: /none.*\n$`, 1},
		{"", "REDIS_TIMEOUT=1", `^.*level=fatal msg="settings: .*REDIS_TIMEOUT.*\n$`, 1},
		{"", "REDIS_URL=", `^.*level=fatal msg="REDIS_URL: address 1 is empty.*\n$`, 1},
		{"", "REDIS_TYPE=cluster REDIS_URL=a:1,,b:1", `^.*level=fatal msg="REDIS_URL: address 2 is empty.*\n$`, 1},
		{"", "REDIS_URL=redis://me:%SECRET@a:1", `^.*level=fatal msg="REDIS_URL: address 1 is not like[^S]*\n$`, 1},
		{"", "REDIS_URL=me:SECRET@a:1", `^.*level=fatal msg="REDIS_URL: address 1 is not like[^S]*\n$`, 1},
		{"", "REDIS_URL=localhost",
			`^.*level=fatal msg="REDIS_URL: address 1 is 'localhost': it must be host:port with a port .*\n$`, 1},
		{"", "FUNNEL_DIAL_TIMEOUT=0s",
			`^.*level=fatal msg="FUNNEL_DIAL_TIMEOUT is 0s: it must be above 0, such as 5s"\n$`, 1},
		{"", "FUNNEL_QUOTAS=Berlin", `^.*level=fatal msg="FUNNEL_QUOTAS is 'Berlin': it must be UTC, or the name.*\n$`, 1},
		{"", "FUNNEL_QUOTAS=Local", `^.*level=fatal msg="FUNNEL_QUOTAS is 'Local': it must be UTC, or the name.*\n$`, 1},
		{"", "DISABLE_STATS=true RUNTIME_ROOT=/none RUNTIME_WATCH_ROOT=false",
			`^.*level=fatal msg="settings: .*/none/.*\n$`, 1},
		{"", "BACKEND_TYPE=memcache", `^.*level=fatal msg="BACKEND_TYPE is 'memcache': it must be redis.*\n$`, 1},
		{"", "TRACING_ENABLED=true REDIS_PIPELINE_LIMIT=0 REDIS_PERSECOND_URL=a:1 REDIS_TYPE=none",
			"^.*warning.*TRACING_ENABLED is ignored.*\n.*warning.*REDIS_PERSECOND_URL is ignored.*\n.*fatal.*\n$", 1},
	} {
		command := program(c.argument, c.environment)
		defer time.AfterFunc(servertest.Patience, func() { command.Process.Kill() }).Stop()
		output, err := command.CombinedOutput()
		require.Equal(t, c.code, command.ProcessState.ExitCode(), "%s %s: %v", c.argument, c.environment, err)
		require.Regexp(t, c.output, string(output), c.environment)
	}
}
