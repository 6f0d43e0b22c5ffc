// What the service does when it ends, with hostile bodies, with callers who give up and when
// certificates change, and what it logs.

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"funnel/internal/servertest"
)

// On SIGTERM the service ends within seconds, although a client watches its health. The client
// learns that it is not healthy any more.
func TestEndWithWatchedHealth(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	service := startProgram(t, "REDIS_URL="+server.Addr())
	service.awaitHealth(t)
	watch, err := grpc_health_v1.NewHealthClient(service.connection).Watch(t.Context(),
		&grpc_health_v1.HealthCheckRequest{Service: "ratelimit"})
	require.NoError(t, err)
	health, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.Status)
	require.NoError(t, service.process.Signal(syscall.SIGTERM))
	health, err = watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, health.Status)
	require.NoError(t, service.awaitEnd(t))
}

// On SIGTERM the service ends although it still tries to connect to Redis.
func TestEndWhileConnecting(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	server.Kill()
	service := startProgram(t, "REDIS_URL="+server.Addr(), "FUNNEL_DIAL_TIMEOUT=1h")
	servertest.Eventually(t, "an attempt to connect", func() bool {
		return strings.Contains(service.readLog(t), "failed to dial")
	})
	require.NoError(t, service.process.Signal(syscall.SIGTERM))
	require.NoError(t, service.awaitEnd(t))
	require.NotContains(t, service.readLog(t), "listening")
}

// On SIGTERM the service still gives back what it takes for a caller who has given up.
func TestEndAfterCallerGaveUp(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	service := startProgram(t, "REDIS_URL="+server.Addr())
	service.awaitHealth(t)
	require.Equal(t, "OK: OK 10 0s", service.ask(t, "shop: user=1#0"))
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := service.client.ShouldRateLimit(ctx, request("shop: user=1"))
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), err)
	require.NoError(t, service.process.Signal(syscall.SIGTERM))
	servertest.Eventually(t, "that it listens no more", func() bool {
		connection, err := net.Dial("tcp", service.connection.Target())
		if err == nil {
			connection.Close()
		}
		return err != nil
	})
	require.NoError(t, server.Signal(syscall.SIGCONT))
	require.NoError(t, service.awaitEnd(t))
	require.Empty(t, server.Client(t).Keys(t.Context(), "*").Val())
	require.Contains(t, server.Client(t).Info(t.Context(), "commandstats").Val(), "cl.refund", "the call was executed")
}

// JSON has the codes of HTTP, and the size of a body is bounded.
func TestJSON(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	service := startProgram(t, "REDIS_URL="+server.Addr())
	service.awaitHealth(t)
	post := func(body io.Reader) (code int, text string) {
		response, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/json", service.http), "", body)
		text = read(t, response, err)
		return response.StatusCode, text
	}
	const tenant = `{"domain":"shop","descriptors":[{"entries":[{"key":"tenant","value":"1"}],"hitsAddend":"3"}]}`
	endless := io.LimitReader(zeroes{}, 1<<30)
	for _, c := range []struct {
		body io.Reader
		code int
		text string
	}{
		{strings.NewReader(tenant), 200, `"overallCode":"OK"`},
		{strings.NewReader(tenant), 429, `"overallCode":"OVER_LIMIT"`},
		{strings.NewReader("{"), 400, "unexpected"},
		{strings.NewReader(`{"domain":"shop"}`), 400, "descriptor list must not be empty"},
		{strings.NewReader(`{"descriptors":[{}]}`), 400, "domain must not be empty"},
		{strings.NewReader(strings.Replace(tenant, `"hitsAddend":"3"`, `"limit":{"requestsPerUnit":1}`, 1)), 400,
			"has the unit UNKNOWN"},
		{endless, 413, "too large"},
	} {
		code, text := post(c.body)
		require.Equal(t, c.code, code, text)
		require.Contains(t, text, c.text)
	}
	require.Less(t, endless.(*io.LimitedReader).N, int64(1<<30))
	server.Kill()
	code, text := post(strings.NewReader(tenant))
	require.Equal(t, 503, code, text)
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A caller who gives up is no failure of Redis, and neither is a request that is wrong.
func TestWhatCountsAsAFailureOfRedis(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	service := startProgram(t, "REDIS_URL="+server.Addr(), "REDIS_TIMEOUT=50ms")
	service.awaitHealth(t)
	count := func(name string) int {
		number := 0
		for line := range strings.Lines(get(t, service.metrics, "/metrics")) {
			value, found := strings.CutPrefix(line, name+" ")
			if found {
				number, _ = strconv.Atoi(strings.TrimSpace(value))
			}
		}
		return number
	}
	redisErrors := func() int { return count(`ratelimit_service_should_rate_limit_error{err_type="redis_error"}`) }
	serviceErrors := func() int { return count(`ratelimit_service_should_rate_limit_error{err_type="service_error"}`) }
	_, err := service.client.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "shop"})
	require.ErrorContains(t, err, "descriptor list must not be empty")
	servertest.Eventually(t, "the wrong request in metrics", func() bool { return serviceErrors() == 1 })
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	for _, text := range []string{"shop: user=1", "shop: shadow=1", "shop: user=1 tenant=1"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err = service.client.ShouldRateLimit(ctx, request(text))
		cancel()
		require.Equal(t, codes.DeadlineExceeded, status.Code(err), err)
	}
	_, err = service.client.ShouldRateLimit(t.Context(), request("shop: user=1"))
	require.ErrorContains(t, err, "no answer from Redis within 50ms")
	require.Equal(t, codes.Unavailable, status.Code(err), "no deadline of a caller has passed")
	servertest.Eventually(t, "the failure in metrics", func() bool { return redisErrors() == 1 })
	servertest.Eventually(t, "a request about which Redis is not asked, in metrics", func() bool {
		require.NotContains(t, service.ask(t, "shop: user=1"), "OK")
		return count("ratelimit_redis_not_asked") > 0
	})
	require.NoError(t, server.Signal(syscall.SIGCONT))
}

// The service's certificate and the CA of its clients are replaced while it runs. A client with a
// certificate of the new CA is served, and a client with one of the withdrawn CA is not.
func TestNewCertificatesForClients(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	folder := t.TempDir()
	first, second := newAuthority(t, "the first CA"), newAuthority(t, "the second CA")
	first.writeTo(t, folder, "service")
	client := func(a authority, name string) string {
		files := t.TempDir()
		a.writeTo(t, files, name)
		return files
	}
	old, renewed, stranger := client(first, "envoy"), client(second, "envoy"), client(second, "stranger")
	service := startProgram(t, "REDIS_URL="+server.Addr(), "GRPC_SERVER_USE_TLS=true",
		"GRPC_SERVER_TLS_CERT="+folder+"/tls.crt",
		"GRPC_SERVER_TLS_KEY="+folder+"/tls.key", "GRPC_CLIENT_TLS_CACERT="+folder+"/ca.crt", "GRPC_CLIENT_TLS_SAN=envoy")
	service.awaitHealth(t)
	ask := func(files string, trusted authority) error {
		pair, err := tls.LoadX509KeyPair(files+"/tls.crt", files+"/tls.key")
		require.NoError(t, err)
		roots := x509.NewCertPool()
		roots.AddCert(trusted.certificate)
		connection, err := grpc.NewClient(service.connection.Target(), grpc.WithTransportCredentials(credentials.NewTLS(
			&tls.Config{RootCAs: roots, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &pair, nil // whatever CA the service asks for
			}})))
		require.NoError(t, err)
		defer connection.Close()
		_, err = pb.NewRateLimitServiceClient(connection).ShouldRateLimit(t.Context(), request("shop: user=1"))
		return err
	}
	require.NoError(t, ask(old, first))
	require.Error(t, ask(renewed, first), "a CA that is not known yet")
	second.writeTo(t, folder, "service")
	require.NoError(t, ask(renewed, second))
	require.Error(t, ask(old, second), "the CA was withdrawn")
	require.Error(t, ask(stranger, second), "another name")
	require.NoError(t, os.WriteFile(folder+"/tls.key", nil, 0o600))
	require.NoError(t, ask(renewed, second), "files that are not usable are not used")
}
