// How Caddy connects to Redis.

package caddylimit

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

const two = `
	funnel {
		policy all {
			key all
			rate 3 1000000s
		}
		policy each {
			rate 2 1000000s
		}
	}
	respond ok`

// requireTwo checks that Redis decides by both policies.
func requireTwo(t *testing.T, caddy *server) {
	t.Helper()
	from := func(address string) int { return caddy.ask(t, "/", "X-Forwarded-For", address).status }
	require.Equal(t, []int{200, 200, 429, 200, 429}, []int{from("192.0.2.1"), from("192.0.2.1"), from("192.0.2.1"),
		from("192.0.2.2"), from("192.0.2.2")})
	require.Equal(t, 6, caddy.metrics(t, "decisions_total", `source="module"`, `outcome="allowed"`))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, key := writeCertificate(t)
	script := fmt.Sprintf(`exec "$0" "$@" --tls-port $(($2 + 5000)) --tls-auth-clients yes `+
		`--tls-cert-file %[1]s --tls-key-file %[2]s --tls-ca-cert-file %[1]s`, certificate, key)
	redis := servertest.Start(t, servertest.Options{Module: servertest.Module(t), Wrapper: []string{"sh", "-c", script}})
	address := fmt.Sprint("rediss://127.0.0.1:", redis.Port+5000)
	requireTwo(t, start(t, address, fmt.Sprintf("on_failure error\ntls_ca %s\ntls_certificate %s %s", certificate, certificate, key), two))
	without := start(t, address, "on_failure error\ntls_ca "+certificate, two)
	require.Equal(t, http.StatusServiceUnavailable, without.ask(t, "/").status, "without a client certificate")
}

// writeCertificate writes a certificate of 127.0.0.1, for servers and clients, which is its own CA,
// and its key.
func writeCertificate(t *testing.T) (certificate, key string) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, of, of, public, private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	folder := t.TempDir()
	certificate, key = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	for path, block := range map[string]pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&block), 0o600))
	}
	return certificate, key
}

// In a cluster the keys of one decision are on several nodes.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := servertest.StartCluster(t, 3, time.Second, servertest.Options{Module: servertest.Module(t)})
	requireTwo(t, start(t, fmt.Sprintf("127.0.0.1:%d 127.0.0.1:%d", cluster.Primaries[0].Port, cluster.Primaries[1].Port),
		"cluster\non_failure error", two))
}

// Sentinels tell the address of the primary.
func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel := servertest.StartSentinel(t, servertest.StartModule(t), "main")
	requireTwo(t, start(t, sentinel.Addr(), "sentinel main\non_failure error", two))
}

// Leases decide where one policy applies, and Redis where several do.
func TestLeases(t *testing.T) {
	t.Parallel()
	caddy := start(t, servertest.StartModule(t).Addr(), "lease 50ms", `
	funnel {
		policy all {
			key all
			rate 100000 1s
		}
	}
	respond ok`)
	servertest.Eventually(t, "a decision by a lease", func() bool {
		for range 50 {
			require.Equal(t, http.StatusOK, caddy.ask(t, "/").status)
		}
		return caddy.metrics(t, "decisions_total", `source="lease"`) > 0
	})
	requireTwo(t, start(t, servertest.StartModule(t).Addr(), "lease 50ms", two))
}
