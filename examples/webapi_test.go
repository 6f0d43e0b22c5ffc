// The web API limits each address, closes connections that wait, and goes on while Redis does not answer.

package examples_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

func startWebAPI(t *testing.T, server *servertest.Server, arguments ...string) (*process, string) {
	p := start(t, "webapi", server, append([]string{"-listen", "127.0.0.1:0"}, arguments...)...)
	return p, p.find(t, `msg=serving address=(\S+)`)[1]
}

func get(t *testing.T, url string, forwardedFor ...string) (*http.Response, string) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header["X-Forwarded-For"] = forwardedFor
	return do(t, request)
}

func do(t *testing.T, request *http.Request) (*http.Response, string) {
	client := http.Client{Timeout: servertest.Patience}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(body)
}

func TestWebAPI(t *testing.T) {
	t.Parallel()
	server := startAtOneInstant(t)
	p, base := startWebAPI(t, server, "-trust", "127.0.0.0/8")

	response, body := get(t, base+"/search?pages=3", "192.0.2.1")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "pages: 3\n", body)
	require.Equal(t, `"api";q=5;w=3`, response.Header.Get("RateLimit-Policy"))
	require.Equal(t, `"api";r=1;t=2`, response.Header.Get("RateLimit"))
	for _, pages := range []string{"5", "99999999999999999999", "-1", "x"} {
		response, _ = get(t, base+"/search?pages="+pages, "192.0.2.1")
		require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode, pages)
	}
	response, body = get(t, base+"/hello", "192.0.2.1")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "hello\n", body)
	response, _ = get(t, base+"/hello", "192.0.2.1")
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.Equal(t, "1", response.Header.Get("Retry-After"))
	response, _ = get(t, base+"/hello", "192.0.2.2")
	require.Equal(t, http.StatusOK, response.StatusCode, "another address")

	require.EqualValues(t, 3, servertest.InfoField(t, server.Client(t), "funnel", "funnel_allowed"), "the module has decided")

	p.interrupt(t)
	require.Contains(t, printed(t, p.stderr), "shutting down")
	_, err := net.DialTimeout("tcp", strings.TrimPrefix(base, "http://"), time.Second)
	require.Error(t, err, "it does not listen any more")
}

// A client that does not send what it announced, or nothing more, is not waited for.
func TestWebAPIClosesConnections(t *testing.T) {
	t.Parallel()
	_, base := startWebAPI(t, servertest.Start(t, servertest.Options{}), "-timeout", "100ms")
	for _, body := range []string{"Content-Length: 9\r\n\r\n{", "\r\n"} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		require.NoError(t, err)
		defer connection.Close()
		_, err = io.WriteString(connection, "GET /hello HTTP/1.1\r\nHost: localhost\r\n"+body)
		require.NoError(t, err)
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(servertest.Patience)))
		_, err = io.Copy(io.Discard, connection) // until it is closed
		require.NoError(t, err, body)
	}
}

// Redis ends and is started again: the limit holds.
func TestWebAPIWithoutRedis(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{})
	p, base := startWebAPI(t, server)
	response, _ := get(t, base+"/hello")
	require.Equal(t, http.StatusOK, response.StatusCode)

	server.Kill()
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
		servertest.Eventually(t, http.StatusText(status)+" without Redis", func() bool {
			// The whole funnel at once: a second one in time is too much.
			response, _ := get(t, base+"/search?pages=4")
			return response.StatusCode == status
		})
	}
	p.find(t, "redis unavailable: rate limits fall back to policy local")

	server.Restart(t)
	client := server.Client(t)
	servertest.Eventually(t, "Redis decides again", func() bool {
		get(t, base+"/hello")
		keys, err := client.DBSize(t.Context()).Result()
		return err == nil && keys == 1
	})
	p.interrupt(t)
}
