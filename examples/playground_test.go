// The playground serves only its own page, and shows what it sends to Redis.

package examples_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// post makes a call as a page of the same origin does. Headers, in pairs, may change the origin.
func post(t *testing.T, url, body string, headers ...string) (status int, answer string) {
	request, err := http.NewRequest(http.MethodPost, url+"/call", strings.NewReader(body))
	require.NoError(t, err)
	for header := range slices.Chunk(append([]string{"Origin", url}, headers...), 2) {
		request.Header.Set(header[0], header[1])
	}
	response, answer := do(t, request)
	return response.StatusCode, answer
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

func callOf(command, key, words string) string {
	return fmt.Sprintf(`{"command":%q,"rows":[[%q,%s]]}`, command, key, words)
}

// Pages of other sites cannot make calls, and its own page can make no other calls than it shows. A
// test in test/playground looks at the page with a browser.
func TestPlaygroundIsForItsOwnPage(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	p := start(t, "playground", server, "-listen", "127.0.0.1:0")
	url := p.find(t, `msg=serving address=(\S+)`)[1]
	right := callOf("reserve", "demo", `"15","30","60","1"`)
	for _, header := range [][]string{
		{"Origin", "http://example.com"}, {"Origin", "null"}, {"Sec-Fetch-Site", "same-site"},
	} {
		status, answer := post(t, url, right, header...)
		require.Equal(t, http.StatusForbidden, status, "%s: %s", header, answer)
	}
	for body, says := range map[string]string{
		callOf("flushall", "demo", `"15","30","60","1"`):     "command must be reserve, peek, charge, refund or reset",
		callOf("reserve", "a:b", `"15","30","60","1"`):       "key must be 1 to 20 letters from a to z, not 'a:b'",
		callOf("reserve", "demo", `"x","30","60","1"`):       "INVALID capacity must be",
		callOf("reserve", "demo", `15,"30","60","1"`):        "cannot unmarshal",
		`{"command":"reserve","rows":[[],[],[]]}`:            "there must be 1 or 2 rows, not 3",
		right[:len(right)-1] + `,"more":["0","other","15"]}`: "at most 1 word behind the rows, not 3",
		`{"command":"reserve","keys":[]}`:                    "unknown field",
		strings.Repeat(" ", 20<<10) + right:                  "request body too large",
	} {
		status, answer := post(t, url, body)
		require.Equal(t, http.StatusBadRequest, status, answer)
		require.Contains(t, answer, says)
	}
	page, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	response, _ := do(t, page)
	require.Equal(t, "default-src 'self'; frame-ancestors 'none'", response.Header.Get("Content-Security-Policy"))
	require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	require.Zero(t, server.Client(t).DBSize(t.Context()).Val())

	status, answer := post(t, url, right, "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusOK, status, answer)
	key := server.Client(t).RandomKey(t.Context()).Val()
	require.Regexp(t, `^playground:[a-z2-7]{4}:demo$`, key, "each run has keys of its own")
	p.interrupt(t)
}

// The playground works as a user with a name, and on a server without the module.
func TestPlaygroundWithoutTheModule(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{})
	require.NoError(t, server.Client(t).ACLSetUser(t.Context(), "visitor", "on", ">pw", "~*", "+@all").Err())
	p := start(t, "playground", server,
		"-listen", "127.0.0.1:0", "-prefix", "p:", "-redis", "redis://visitor:pw@"+server.Addr())
	url := p.find(t, `msg=serving address=(\S+)`)[1]
	_, answer := post(t, url, callOf("reserve", "jobs", `"5","SLOTS","10","job-1"`))
	require.Regexp(t, `"sent":"EVALSHA [0-9a-f]{40} 1 p:jobs reserve 5 SLOTS 10 job-1"`, answer)
	require.Contains(t, answer, `"source":"script"`)
	require.Contains(t, answer, `"redis":"`+server.Addr()+`"`, "without the password")
}
