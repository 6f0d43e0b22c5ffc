package examples_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// post makes a call, as a page of the same origin does; headers, in pairs, may change that.
func post(t *testing.T, url, body string, headers ...string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, url+"/call", strings.NewReader(body))
	require.NoError(t, err)
	for headers := append([]string{"Content-Type", "application/json", "Origin", url}, headers...); len(headers) > 0; headers = headers[2:] {
		request.Header.Set(headers[0], headers[1])
	}
	request.Host = request.Header.Get("Host")
	response, answer := do(t, request)
	return response.StatusCode, answer
}

// words are a call of one funnel.
func words(command, key, capacity, period, quantity string) string {
	return fmt.Sprintf(`{"command":%q,"funnels":[{"key":%q,"capacity":%q,"count":"30","period":%q,"quantity":%q}]}`, command, key, capacity, period, quantity)
}

// Pages of other sites cannot call, and its own can do no more than it shows. What the page
// looks like is tested in test/playground, with a browser.
func TestPlaygroundIsForItsOwnPage(t *testing.T) {
	server := servertest.StartModule(t)
	url := start(t, "playground", server, "-listen", "127.0.0.1:0").find(t, `msg=serving address=(\S+)`)[1]
	right := words("reserve", "demo", "15", "60", "1")
	for _, c := range []struct {
		status  int
		body    string
		says    string
		headers []string
	}{
		{http.StatusForbidden, right, "", []string{"Origin", "http://example.com"}},
		{http.StatusForbidden, right, "", []string{"Origin", "null"}},
		{http.StatusForbidden, right, "", []string{"Sec-Fetch-Site", "same-site"}},
		{http.StatusMisdirectedRequest, right, "", []string{"Origin", "http://example.com:8081", "Host", "example.com:8081"}},
		{http.StatusUnsupportedMediaType, right, "", []string{"Content-Type", "text/plain"}},
		{http.StatusBadRequest, words("flushall", "demo", "15", "60", "1"), "command must be reserve, peek, charge, refund or reset", nil},
		{http.StatusBadRequest, words("reserve", "a:b", "15", "60", "1"), "key must be 1 to 20 letters from a to z, not 'a:b'", nil},
		{http.StatusBadRequest, words("reserve", "demo", "+5", "60", "1"), "not '+5'", nil},
		{http.StatusBadRequest, words("reserve", "demo", "15", "1h2", "1"), "not '1h2'", nil},
		{http.StatusBadRequest, words("reserve", "demo", "15", "60", "9223372036854775807"), `,"field":"quantity"`, nil},
		{http.StatusBadRequest, `{"command":"charge","funnels":[{},{}]}`, "number of funnels must be 1, not '2'", nil},
		{http.StatusBadRequest, `{"command":"reserve","keys":[]}`, `unknown field`, nil},
		{http.StatusBadRequest, strings.Repeat(" ", 20<<10) + right, "request body too large", nil},
	} {
		status, answer := post(t, url, c.body, c.headers...)
		require.Equal(t, c.status, status, "%s: %s", c.headers, answer)
		require.Contains(t, answer, c.says)
	}
	response, _ := get(t, url+"/")
	require.Equal(t, "default-src 'self'; frame-ancestors 'none'", response.Header.Get("Content-Security-Policy"))
	require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	require.Zero(t, server.Client(t).DBSize(t.Context()).Val())

	status, answer := post(t, url, right, "Sec-Fetch-Site", "same-origin", "Host", "localhost:8081")
	require.Equal(t, http.StatusOK, status, answer)
	require.Regexp(t, `^playground:[a-z2-7]{4}:demo$`, server.Client(t).RandomKey(t.Context()).Val(), "each run has keys of its own")
}

// As another user than the default one, and until the module is there.
func TestPlaygroundWithoutTheModule(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	rdb := server.Client(t)
	require.NoError(t, rdb.ACLSetUser(t.Context(), "visitor", "on", ">pw", "~*", "+@all").Err())
	url := start(t, "playground", server, "-listen", "127.0.0.1:0", "-prefix", "p:", "-redis", "redis://visitor:pw@"+server.Addr()).
		find(t, `msg=serving address=(\S+)`)[1]
	_, answer := post(t, url, words("reserve", "demo", "15", "60", "1"))
	require.Contains(t, answer, `(the text of the script) 1 p:demo 30000000000 2000000000"`)
	require.Contains(t, answer, `"path":"script"`)
	require.Contains(t, answer, `"redis":"`+server.Addr()+`"`, "without the password")

	require.NoError(t, rdb.Do(t.Context(), "module", "load", servertest.Module(t)).Err())
	for _, command := range []string{"peek", "reserve"} { // as the page does, which peeks now and then
		_, answer = post(t, url, words(command, "demo", "15", "60", "1"))
		require.Contains(t, answer, `"path":"module"`)
	}
}
