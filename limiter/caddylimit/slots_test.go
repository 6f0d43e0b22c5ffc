// Slots are held until the handler has returned, however its client leaves, and none is left
// behind.

package caddylimit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// serve returns the address of an upstream that answers until the test ends.
func serve(t testing.TB, answer http.HandlerFunc) (address string) {
	upstream := httptest.NewServer(answer)
	t.Cleanup(upstream.Close)
	return upstream.Listener.Addr().String()
}

// A holder is an upstream that keeps each request until its client leaves, or the test ends. It
// echoes what comes through an upgraded connection.
type holder struct {
	address string
	begun   chan string // the path of each request
}

func startHolder(t testing.TB) *holder {
	h := &holder{begun: make(chan string, 100)}
	ended := make(chan struct{})
	h.address = serve(t, func(w http.ResponseWriter, r *http.Request) {
		h.begun <- r.URL.Path
		if r.Header.Get("Upgrade") == "" {
			select {
			case <-r.Context().Done():
			case <-ended:
			}
			return
		}
		connection, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer connection.Close()
		fmt.Fprint(connection, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(connection, both)
	})
	t.Cleanup(func() { close(ended) })
	return h
}

func TestSlots(t *testing.T) {
	t.Parallel()
	redis := servertest.StartModule(t)
	rdb := redis.Client(t)
	hold := startHolder(t)
	site := `
	funnel /hold* {
		policy uploads {
			slots 2
		}
		policy rate {
			rate 1000 1000000s
		}
	}
	reverse_proxy ` + hold.address + `
	`
	caddy := start(t, redis.Addr(), "", site)
	freed := func(what string) {
		t.Helper()
		servertest.Eventually(t, "free slots after "+what, func() bool {
			return rdb.Exists(t.Context(), "{uploads:127.0.0.1}:slots").Val() == 0
		})
	}
	full := func() {
		t.Helper()
		a := caddy.ask(t, "/hold")
		require.Equal(t, http.StatusTooManyRequests, a.status)
		require.Equal(t, "1", a.header.Get("Retry-After"))
		require.Contains(t, a.header.Values("RateLimit-Policy"), `"uploads:slots";q=2;qu="concurrent-requests"`)
	}

	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	clients := map[string]*http.Client{
		"HTTP/1.1": caddy.client,
		"HTTP/2":   {Transport: &http.Transport{Protocols: h2}},
	}
	for name, client := range clients {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 2)
		for range 2 {
			go func() {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, caddy.url+"/hold", nil)
				if err == nil {
					_, err = client.Do(request)
				}
				left <- err
			}()
		}
		for range 2 {
			require.Equal(t, "/hold", <-hold.begun, name)
		}
		full()
		leave()
		for range 2 {
			require.ErrorIs(t, <-left, context.Canceled)
		}
		freed(name)
	}

	one, two := upgrade(t, caddy), upgrade(t, caddy)
	<-hold.begun
	<-hold.begun
	one.echo(t)
	full()
	one.connection.Close()
	servertest.Eventually(t, "a slot of a WebSocket that was closed", func() bool {
		again := upgrade(t, caddy)
		defer again.connection.Close()
		return again.status == http.StatusSwitchingProtocols
	})
	two.echo(t)
	two.connection.Close()
	freed("WebSockets")

	// A reload closes WebSockets, as Caddy does. With other settings of Redis the connection of the
	// configuration before stays until they have given back their slots.
	for i, settings := range []string{"", "timeout 2s"} {
		for len(hold.begun) > 0 {
			<-hold.begun
		}
		open := upgrade(t, caddy)
		<-hold.begun
		open.echo(t)
		caddy.setup["SETTINGS"] = settings
		require.NoError(t, caddy.reload(t, fmt.Sprintf("%srespond /%d ok", site, i)))
		freed("a reload with " + settings)
	}

	// The end of the process gives back what it holds.
	for len(hold.begun) > 0 {
		<-hold.begun
	}
	open := upgrade(t, caddy)
	<-hold.begun
	open.echo(t)
	caddy.end(t)
	require.Zero(t, rdb.Exists(t.Context(), "{uploads:127.0.0.1}:slots").Val())
	require.NotContains(t, caddy.log.String(), "Redis has not answered everything")
}

// An upgraded is a connection that was upgraded, or not.
type upgraded struct {
	connection net.Conn
	reader     *bufio.Reader
	status     int
}

func upgrade(t testing.TB, caddy *server) *upgraded {
	connection, err := net.Dial("tcp", strings.TrimPrefix(caddy.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	fmt.Fprint(connection, "GET /hold/socket HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	reader := bufio.NewReader(connection)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	return &upgraded{connection, reader, response.StatusCode}
}

func (u *upgraded) echo(t testing.TB) {
	t.Helper()
	require.Equal(t, http.StatusSwitchingProtocols, u.status)
	fmt.Fprintln(u.connection, "hello")
	line, err := u.reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
}
