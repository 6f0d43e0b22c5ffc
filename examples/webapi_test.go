// The web API keeps its promises as a process: it gives all slots back when it ends, and while
// Redis is down each endpoint does what suits it.

package examples_test

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

const webapiPrefix = "example:webapi:"

// startWebAPI returns the process and the URLs of its two sites. Each connection is a proxy that it
// trusts.
func startWebAPI(t *testing.T, server *servertest.Server, arguments ...string) (p *process, public, internal string) {
	own := []string{"-listen", "127.0.0.1:0", "-internal", "127.0.0.1:0", "-trust", "127.0.0.0/8"}
	arguments = append(own, arguments...)
	p = start(t, "webapi", server, arguments...)
	public = p.find(t, `serving site=public address=(\S+)`)[1]
	return p, public, p.find(t, `serving site=internal address=(\S+)`)[1]
}

// askAs asks as a customer, or without a key.
func askAs(t *testing.T, apiKey, url string) (*http.Response, string) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if apiKey != "" {
		request.Header.Set("X-Api-Key", apiKey)
	}
	return do(t, request)
}

// postForm posts a form from a client behind a proxy.
func postForm(t *testing.T, url, client string, values url.Values) (*http.Response, string) {
	body := strings.NewReader(values.Encode())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("X-Forwarded-For", client)
	return do(t, request)
}

func guess(t *testing.T, public, client string) int {
	response, _ := postForm(t, public+"/login", client, url.Values{"account": {"acme"}, "password": {"guess"}})
	return response.StatusCode
}

// usedInTheMonth returns how much of its month globex has used.
func usedInTheMonth(t *testing.T, server *servertest.Server) int {
	newYork, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	l := limiter.New(server.Client(t), limiter.WithPrefix(webapiPrefix))
	month, err := l.Peek(t.Context(), "month:{globex}:quota", limiter.Monthly(20_000, newYork))
	require.NoError(t, err)
	return 20_000 - month.Remaining
}

// A customer's requests and logins are counted in Redis. The internal site tells what is used,
// which limit refuses, and whether Redis says so. Its button gives an account back to its owner.
func TestWebAPI(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	p, public, internal := startWebAPI(t, server, "-row", "0s")

	response, body := askAs(t, "key-of-globex", public+"/price")
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	require.Equal(t, "price: 12.50\n", body)
	require.Regexp(t, `^"pro";q=50;w=5, "month";q=20000;w=\d+, "pro:slots";q=10;qu="concurrent-requests"$`,
		strings.Join(response.Header.Values("RateLimit-Policy"), ", "))
	_, body = askAs(t, "key-of-globex", public+"/report?days=30")
	_, text, _ := strings.Cut(body, "cost: ")
	cost, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err, body)
	require.Equal(t, 1+cost, usedInTheMonth(t, server))

	statuses := []int{}
	for range 4 {
		statuses = append(statuses, guess(t, public, "192.0.2.1"))
	}
	require.Equal(t, []int{401, 401, 401, 429}, statuses)
	require.Equal(t, http.StatusUnauthorized, guess(t, public, "192.0.2.2"), "another client")
	_, body = askAs(t, "", internal+"/customers/acme?address=192.0.2.1")
	require.Regexp(t, `class="refuses">\s*<td>login<td>at most 5 in any 15m0s, .*`+
		`<td>3<td>0<td>for \S+<td>15m0s<td>Redis`, body)
	_, body = postForm(t, internal+"/customers/acme/reset", "",
		url.Values{"policy": {"login"}, "address": {"192.0.2.1"}})
	require.Contains(t, body, "Why is acme limited?", "the page that it leads back to")
	require.NotContains(t, body, `class="refuses"`)
	require.Equal(t, http.StatusUnauthorized, guess(t, public, "192.0.2.1"))

	_, metrics := askAs(t, "", internal+"/metrics")
	require.Contains(t, metrics,
		`funnel_decisions_total{policy="login",command="reserve",outcome="limited",source="module"} 1`)
	require.Contains(t, metrics, `funnel_errors_total{policy="login"} 0`)
	p.interrupt(t)
}

// Ctrl-C cuts off reports that would take hours. They settle what they have read, and leave no slot
// behind, even if Redis does not get the first word that gives a slot back.
func TestWebAPIEndsOnInterrupt(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{}) // by script
	client := server.Client(t)
	slots := webapiPrefix + "pro:{globex}:slots"
	var lost atomic.Bool
	losing := servertest.Proxy(t, server.Addr, func(sent []byte) bool {
		word := bytes.Index(sent, []byte("\r\nrefund\r\n"))
		if word < 0 || !bytes.Contains(sent, []byte(slots)) || lost.Swap(true) {
			return false
		}
		copy(sent[word:], "\r\nxxxxxx") // an operation that the script refuses
		return true
	})
	p, public, _ := startWebAPI(t, server, "-redis", losing, "-row", "1h", "-patience", "100ms")
	statuses := make(chan int)
	for range 3 {
		go func() {
			request, _ := http.NewRequest(http.MethodGet, public+"/report?days=300", nil)
			request.Header.Set("X-Api-Key", "key-of-globex")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				statuses <- 0
				return
			}
			response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	servertest.Eventually(t, "three reports are under way", func() bool {
		return client.ZCard(t.Context(), slots).Val() == 3
	})
	p.interrupt(t)
	for range 3 {
		require.Equal(t, http.StatusServiceUnavailable, <-statuses, "an answer, not a connection that was cut off")
	}
	require.Contains(t, printed(t, p.stderr), "requests are cut off")
	require.True(t, lost.Load())
	require.Zero(t, client.Exists(t.Context(), slots).Val(), "slots are left")
	require.Equal(t, 3, usedInTheMonth(t, server), "a token for each report, which has read nothing")
}

// Without Redis, prices go on, reports do not, each process limits logins, and the internal site
// says so. When Redis is back, it decides again.
func TestWebAPIWithoutRedis(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{})
	p, public, internal := startWebAPI(t, server, "-row", "0s")
	response, body := askAs(t, "key-of-acme", public+"/report?days=1")
	require.Equal(t, http.StatusOK, response.StatusCode, body)

	server.Kill()
	for range 20 { // more than the plan of acme allows
		response, body = askAs(t, "key-of-acme", public+"/price")
		require.Equal(t, http.StatusOK, response.StatusCode, body)
	}
	response, body = askAs(t, "key-of-acme", public+"/report?days=1")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode, body)
	response, _ = askAs(t, "", public+"/healthz")
	require.Equal(t, http.StatusOK, response.StatusCode)
	statuses := []int{}
	for range 4 {
		statuses = append(statuses, guess(t, public, "192.0.2.1"))
	}
	require.Equal(t, []int{401, 401, 401, 429}, statuses)

	_, body = askAs(t, "", internal+"/customers/acme?address=192.0.2.1")
	require.Regexp(t, `<td>free<td>.*<td>0<td>10<td>no<td>0s<td>nobody: Redis does not answer`, body)
	require.Regexp(t, `<td>login<td>.*<td>3<td>0<td>for \S+<td>15m0s<td>this process alone`, body)
	response, body = postForm(t, internal+"/customers/acme/reset", "", url.Values{"policy": {"free"}})
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode, body)
	_, metrics := askAs(t, "", internal+"/metrics")
	require.Contains(t, metrics,
		`funnel_decisions_total{policy="free",command="reserve",outcome="allowed",source="open"} 20`)
	require.Regexp(t, `funnel_errors_total{policy="free"} [1-9]`, metrics)

	server.Restart(t)
	servertest.Eventually(t, "Redis decides again", func() bool {
		_, body := askAs(t, "", internal+"/customers/acme")
		return strings.Count(body, "<td>Redis") == 4
	})
	p.interrupt(t)
}
