// How the service connects to Redis: before its first request, with TLS, and if Redis refuses it or
// is not there.

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"funnel/internal/servertest"
)

// A started program is the service in a process of its own.
type started struct {
	served
	connection    *grpc.ClientConn
	http, metrics int // ports
	process       *os.Process
	ended         chan error // how the process has ended
	log           string     // the file
}

// startProgram starts the program with the configuration in testdata.
func startProgram(t testing.TB, environment ...string) *started {
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder+"/config", os.DirFS("testdata")))
	s := &started{http: servertest.FreePort(t), metrics: servertest.FreePort(t), ended: make(chan error, 1),
		log: folder + "/log"}
	port := servertest.FreePort(t)
	command := program("", strings.Join(append([]string{
		"HOST=127.0.0.1", "PORT=" + strconv.Itoa(s.http), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "GRPC_HOST=127.0.0.1",
		"GRPC_PORT=" + strconv.Itoa(port), "RUNTIME_ROOT=" + folder, "RUNTIME_WATCH_ROOT=false", "USE_STATSD=false",
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:" + strconv.Itoa(s.metrics), "STATS_FLUSH_INTERVAL=50ms",
	}, environment...), " "))
	log, err := os.Create(s.log)
	require.NoError(t, err)
	t.Cleanup(func() { log.Close() })
	command.Stderr = log
	require.NoError(t, command.Start())
	s.process = command.Process
	go func() { s.ended <- command.Wait() }()
	t.Cleanup(func() { s.process.Kill() })
	s.connection, err = grpc.NewClient("127.0.0.1:"+strconv.Itoa(port),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { s.connection.Close() })
	s.client = pb.NewRateLimitServiceClient(s.connection)
	return s
}

func (s *started) readLog(t testing.TB) string {
	text, err := os.ReadFile(s.log)
	require.NoError(t, err)
	return string(text)
}

// awaitHealth waits until /healthcheck says OK.
func (s *started) awaitHealth(t testing.TB) {
	servertest.Eventually(t, "/healthcheck", func() bool {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthcheck", s.http))
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// With a REDIS_TIMEOUT of 40 ms, requests are decided from the first one on, although TLS
// handshakes with three nodes take longer on a busy machine. After a node is lost, they are decided
// again.
func TestShortTimeoutWithTLSAndCluster(t *testing.T) {
	folder := t.TempDir()
	newAuthority(t, "the CA of Redis").writeTo(t, folder, "redis")
	// The port for TLS is 5,000 higher. The nodes tell clients and replicas that port.
	withTLS := fmt.Sprintf(`exec "$0" "$@" --tls-port $(($2 + 5000)) --cluster-announce-port $(($2 + 5000)) `+
		`--cluster-announce-bus-port $(($2 + 10000)) --tls-replication yes --tls-auth-clients no `+
		`--tls-cert-file %[1]s/tls.crt --tls-key-file %[1]s/tls.key --tls-ca-cert-file %[1]s/ca.crt`, folder)
	cluster := servertest.StartCluster(t, 3, time.Second,
		servertest.Options{Module: servertest.Module(t), Wrapper: []string{"sh", "-c", withTLS}})
	service := startProgram(t, "REDIS_TYPE=cluster", fmt.Sprintf("REDIS_URL=127.0.0.1:%d", cluster.Primaries[0].Port+5000),
		"REDIS_TLS=true", "REDIS_TLS_CACERT="+folder+"/ca.crt", "REDIS_TIMEOUT=40ms", "LOG_LEVEL=error")
	service.awaitHealth(t)
	const callers, requests = 16, 50
	var failed atomic.Int64
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range requests {
				asked := request(fmt.Sprintf("shop: user=%d-%d tenant=%d", caller, i, i))
				_, err := service.client.ShouldRateLimit(context.Background(), asked)
				if err != nil {
					failed.Add(1)
					t.Log(err)
				}
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, failed.Load(), int64(callers*requests/100), "at least 99 % of the requests are decided")
	took := cluster.FailOver(t, "shop:hot=1:100000/SECOND", func() error {
		_, err := service.client.ShouldRateLimit(context.Background(), request("shop: hot=1"))
		return err
	})
	require.Less(t, took, 5*time.Second, "it is served again after a failover")
}

// Connecting takes three times REDIS_TIMEOUT. The connection is open before the service is healthy.
// When it is lost, requests that give up do not end the attempt to open another one.
func TestSlowDial(t *testing.T) {
	server, files := startWithTLS(t)
	slow := servertest.Proxy(t, func() string {
		time.Sleep(800 * time.Millisecond) // the network's, not a wait of the test
		return fmt.Sprint("127.0.0.1:", server.Port+5000)
	}, func([]byte) bool { return false })
	service := startProgram(t, "REDIS_URL=rediss://"+slow, "REDIS_TLS_CACERT="+files+"/ca.crt", "REDIS_TIMEOUT=250ms")
	service.awaitHealth(t)
	require.Equal(t, "OK: OK 9 360s", service.ask(t, "shop: user=1"), "the first request finds the connection open")
	require.NoError(t, server.Client(t).ClientKillByFilter(t.Context(), "type", "normal", "skipme", "yes").Err())
	servertest.Eventually(t, "another connection", func() bool {
		return service.ask(t, "shop: user=2#0") == "OK: OK 10 0s"
	})
}

// startWithTLS starts a server that has TLS on a port that is 5,000 higher, and returns the folder
// of its certificate.
func startWithTLS(t *testing.T) (server *servertest.Server, files string) {
	files = t.TempDir()
	newAuthority(t, "the CA of Redis").writeTo(t, files, "redis")
	script := fmt.Sprintf(`exec "$0" "$@" --tls-port $(($2 + 5000)) --tls-auth-clients optional `+
		`--tls-cert-file %[1]s/tls.crt --tls-key-file %[1]s/tls.key --tls-ca-cert-file %[1]s/ca.crt`, files)
	options := servertest.Options{Module: servertest.Module(t), Wrapper: []string{"sh", "-c", script}}
	return servertest.Start(t, options), files
}

// The service does not wait for Redis for ever.
func TestStartWithoutRedis(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	server.Kill()
	service := startProgram(t, "REDIS_URL="+server.Addr(), "FUNNEL_DIAL_TIMEOUT=300ms")
	service.awaitHealth(t)
	require.Contains(t, service.ask(t, "shop: user=1"), "connection refused")
	server.Restart(t)
	servertest.Eventually(t, "a decision", func() bool { return service.ask(t, "shop: user=1") == "OK: OK 9 360s" })
	service.process.Kill()
	<-service.ended
	require.Contains(t, service.readLog(t),
		"no connection to Redis within FUNNEL_DIAL_TIMEOUT, 300ms: the service starts without it")
}

// If Redis refuses the user, the service does not start. A user who may only use the keys of its
// domain is served.
func TestUsers(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	admin := server.Client(t)
	for _, user := range []string{
		"acl setuser app on >secret ~shop:* +cl.reserve +cl.peek",
		"acl setuser powerless on >secret ~*",
	} {
		require.NoError(t, admin.Do(t.Context(), servertest.Words(user)...).Err())
	}
	app := startProgram(t, "REDIS_URL="+server.Addr(), "REDIS_AUTH=app:secret")
	app.awaitHealth(t)
	require.Equal(t, "OK: OK 9 360s", app.ask(t, "shop: user=1"))
	for auth, answer := range map[string]string{
		"app:wrong": "WRONGPASS", "nobody:secret": "WRONGPASS", "powerless:secret": "NOPERM",
	} {
		refused := startProgram(t, "REDIS_URL="+server.Addr(), "REDIS_AUTH="+auth)
		require.Error(t, refused.awaitEnd(t), auth)
		require.Regexp(t, `level=fatal msg="REDIS_AUTH, .*: the user is refused by Redis: .*`+answer+`.*\n$`,
			refused.readLog(t), auth)
	}
	require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", "secret").Err())
	refused := startProgram(t, "REDIS_URL="+server.Addr())
	require.Error(t, refused.awaitEnd(t))
	require.Regexp(t, `level=fatal .*NOAUTH`, refused.readLog(t))
}

// awaitEnd waits until the process has ended, and returns how.
func (s *started) awaitEnd(t testing.TB) error {
	select {
	case err := <-s.ended:
		return err
	case <-time.After(servertest.Patience):
		require.FailNow(t, "the process has not ended")
		return nil
	}
}

// A certificate, its key and the CA of Redis are replaced while the service runs. Connections that
// are opened then use the new files.
func TestNewCertificateForRedis(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	first, second := newAuthority(t, "the first CA"), newAuthority(t, "the second CA")
	first.writeTo(t, theirs, "redis")
	first.writeTo(t, ours, "service")
	script := `exec "$0" "$@" --tls-port $(($2 + 5000)) --tls-cert-file %[1]s/tls.crt ` +
		`--tls-key-file %[1]s/tls.key --tls-ca-cert-file %[1]s/ca.crt`
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t),
		Wrapper: []string{"sh", "-c", fmt.Sprintf(script, theirs)}})
	// The scheme of the URL is enough.
	service := startProgram(t, fmt.Sprintf("REDIS_URL=rediss://127.0.0.1:%d", server.Port+5000),
		"REDIS_TLS_CACERT="+ours+"/ca.crt",
		"REDIS_TLS_CLIENT_CERT="+ours+"/tls.crt", "REDIS_TLS_CLIENT_KEY="+ours+"/tls.key")
	service.awaitHealth(t)
	require.Equal(t, "OK: OK 9 360s", service.ask(t, "shop: user=1"))
	second.writeTo(t, theirs, "redis")
	second.writeTo(t, ours, "service")
	server.Stop()
	server.Restart(t)
	servertest.Eventually(t, "a decision", func() bool { return service.ask(t, "shop: user=2#0") == "OK: OK 10 0s" })
}

// A pause of Redis that is longer than REDIS_TIMEOUT fails the requests that wait for it, but
// closes no connection: connecting again would take longer.
func TestPauseCostsNoConnection(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	service := startProgram(t, "REDIS_URL="+server.Addr(), "REDIS_TIMEOUT=50ms")
	service.awaitHealth(t)
	admin := server.Client(t)
	connections := func() string {
		info := admin.Info(t.Context(), "stats").Val()
		_, count, _ := strings.Cut(info, "total_connections_received:")
		count, _, _ = strings.Cut(count, "\r")
		return count
	}
	before := connections()
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	for range 3 {
		require.Contains(t, service.ask(t, "shop: user=1"), "no answer from Redis within 50ms")
	}
	require.NoError(t, server.Signal(syscall.SIGCONT))
	servertest.Eventually(t, "a decision", func() bool {
		return strings.HasPrefix(service.ask(t, "shop: user=2#0"), "OK")
	})
	require.Equal(t, before, connections())
}
