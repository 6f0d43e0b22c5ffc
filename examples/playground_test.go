package examples_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// startPlayground starts the example and returns the address of its page. What the page
// looks like is tested in test/playground, with a browser.
func startPlayground(t *testing.T, server *servertest.Server, arguments ...string) string {
	t.Helper()
	p := start(t, "playground", server, append([]string{"-listen", "127.0.0.1:0"}, arguments...)...)
	return p.find(t, `msg=serving address=(\S+)`)[1]
}

// post makes a call, as a page of the same origin does; headers, in pairs, may change that.
func post(t *testing.T, url, body string, headers ...string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, url+"/call", bytes.NewBufferString(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Origin", url)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	client := http.Client{Timeout: servertest.Patience}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content)
}

// playgroundError is the error of an answer.
func playgroundError(t *testing.T, answer string) string {
	t.Helper()
	var a struct{ Error string }
	require.NoError(t, json.Unmarshal([]byte(answer), &a), answer)
	return a.Error
}

// words are a call of one funnel with a capacity of 15 that leaks 30 in 60 seconds, for one
// token; changes, in pairs, say otherwise.
func words(command string, changes ...string) string {
	funnel := map[string]string{"key": "demo", "capacity": "15", "count": "30", "period": "60", "quantity": "1"}
	call := map[string]any{"command": command, "funnels": []any{funnel}}
	for i := 0; i < len(changes); i += 2 {
		if changes[i] == "max_wait" {
			call["max_wait"] = changes[i+1]
		} else {
			funnel[changes[i]] = changes[i+1]
		}
	}
	body, _ := json.Marshal(call) // strings
	return string(body)
}

// wordsOfTwo are a call of a second funnel beside that.
func wordsOfTwo(command, key, count, maxWait string) string {
	return fmt.Sprintf(`{"command":%q,"max_wait":%q,"funnels":[
		{"key":"demo","capacity":"15","count":"30","period":"60","quantity":"1"},
		{"key":%q,"capacity":"3","count":%q,"period":"1","quantity":"1"}]}`, command, maxWait, key, count)
}

func TestPlayground(t *testing.T) {
	server := startAtOneInstant(t)
	url := startPlayground(t, server, "-prefix", "p:")
	response, page := get(t, url+"/")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Contains(t, page, "<title>funnel playground</title>")

	// The first call, on a new connection, finds out how the server reads a capacity.
	_, answer := post(t, url, words("peek"))
	require.Contains(t, answer, `"commands":[{"sent":"CL.PEEK p:demo 14 30 60 1",`)
	status, answer := post(t, url, words("reserve", "quantity", "14"))
	require.Equal(t, http.StatusOK, status, answer)
	require.JSONEq(t, fmt.Sprintf(`{
		"redis": %q, "path": "module", "limited": false, "wait": 0,
		"rows": [{"limited": false, "limit": 15, "remaining": 1, "wait": 0, "reset_after": 28}],
		"commands": [{"sent": "CL.RESERVE p:demo 15 30 60 14",
			"reply": "1) (integer) 0\n2) \"0\"\n3) 1) 1) (integer) 0\n      2) (integer) 15\n      3) (integer) 1\n      4) \"0\"\n      5) \"28\""}],
		"funnel": 0
	}`, server.Addr()), answer)

	for _, call := range []struct{ body, sent, result string }{
		{words("reserve", "quantity", "3"), "CL.RESERVE p:demo 15 30 60 3", `"limited":true,"wait":4.000000000,"rows":[{"limited":true,"limit":15,"remaining":1,"wait":4.000000000,"reset_after":28.000000000}]`},
		{words("reserve", "quantity", "16"), "CL.RESERVE p:demo 15 30 60 16", `"limited":true,"wait":-1,`},
		{words("reserve", "quantity", "3", "max_wait", "5.5"), "CL.RESERVE p:demo 15 30 60 3 5.500000000", `"limited":false,"wait":4.000000000,`},
		{words("refund", "quantity", "3"), "CL.REFUND p:demo 15 30 60 3", `"remaining":1,`},
		{words("charge", "quantity", "2", "period", "0.6"), "CL.CHARGE p:demo 15 30 0.600000000 2", `"limited":true,`},
		{words("reset"), "DEL p:demo", `"remaining":15,"wait":0.000000000,"reset_after":0.000000000}]`},
		{wordsOfTwo("reserve", "other", "1", ""), "CL.RESERVE p:demo 15 30 60 1 p:other 3 1 1 1", `"remaining":2,`},
	} {
		status, answer := post(t, url, call.body)
		require.Equal(t, http.StatusOK, status, answer)
		require.Contains(t, answer, `"sent":"`+call.sent+`"`)
		require.Contains(t, answer, call.result)
	}
	require.ElementsMatch(t, []string{"p:demo", "p:other"}, server.Client(t).Keys(t.Context(), "*").Val())
}

// Each run has keys of its own.
func TestPlaygroundPrefix(t *testing.T) {
	server := startAtOneInstant(t)
	for range 2 {
		status, answer := post(t, startPlayground(t, server), words("reserve"))
		require.Equal(t, http.StatusOK, status, answer)
	}
	keys := server.Client(t).Keys(t.Context(), "*").Val()
	require.Len(t, keys, 2)
	for _, key := range keys {
		require.Regexp(t, `^playground:[a-z2-7]{4}:demo$`, key)
	}
}

func TestPlaygroundWithoutTheModule(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	url := startPlayground(t, server, "-prefix", "p:")
	status, answer := post(t, url, words("reserve"))
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, `"path":"script"`)
	require.Contains(t, answer, "(error) ERR unknown command")
	require.Contains(t, answer, `(the text of the script) 1 p:demo reserve 15 30 60 1"`)
	_, answer = post(t, url, words("reserve"))
	require.Regexp(t, `"commands":\[{"sent":"EVALSHA [0-9a-f]{40} 1 p:demo reserve 15 30 60 1","reply":"1\) \(integer\) 0\\n`, answer)
}

func TestPlaygroundErrors(t *testing.T) {
	server := startAtOneInstant(t)
	url := startPlayground(t, server, "-prefix", "p:")
	const capacity, seconds = "capacity must be an integer from 1 to 9223372036854775807, not ", "9223372036.854775807 and with up to 9 fraction digits, not "
	for _, c := range []struct{ body, want string }{
		{words("reserve", "capacity", "0"), capacity + "'0'"},
		{words("reserve", "capacity", "1.5"), capacity + "'1.5'"},
		{words("reserve", "capacity", "+5"), capacity + "'+5'"},
		{words("reserve", "capacity", "9223372036854775808"), capacity + "'9223372036854775808'"},
		{words("reserve", "capacity", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), capacity + "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"},
		{words("reserve", "count", ""), "count must be an integer from 1 to 9223372036854775807, not ''"},
		{words("reserve", "quantity", "-1"), "quantity must be an integer from 0 to 9223372036854775807, not '-1'"},
		{words("reserve", "period", "0.0"), "period must be seconds above 0, at most " + seconds + "'0.0'"},
		{words("reserve", "period", "1h2"), "period must be seconds above 0, at most " + seconds + "'1h2'"},
		{words("reserve", "period", "9223372037"), "period must be seconds above 0, at most " + seconds + "'9223372037'"},
		{words("reserve", "key", "a:b"), "key must be 1 to 20 letters from a to z, not 'a:b'"},
		{words("reserve", "max_wait", "x"), "max_wait must be seconds from 0 to " + seconds + "'x'"},
		{wordsOfTwo("reserve", "other", "1", "1"), "max_wait must be 0 for several funnels, not '1'"},
		{words("flushall"), "command must be reserve, peek, charge, refund or reset, not 'flushall'"},
		{wordsOfTwo("charge", "other", "1", ""), "number of funnels must be 1, not '2'"},
		{`{"command":"reserve"}`, "number of funnels must be 1 to 3, not '0'"},
		{words("reserve", "count", "2000000000", "period", "1"), "count is too large for period: less than 1 nanosecond per token"},
		{wordsOfTwo("reserve", "demo", "1", ""), "the key is named twice"},
		{`{"command":"reserve","keys":[]}`, `unknown field "keys"`},
		{`[1]`, "the body must be a call, in JSON"},
		{`{"command":"` + string(bytes.Repeat([]byte("x"), 20<<10)) + `"}`, "request body too large"},
	} {
		status, answer := post(t, url, c.body)
		require.Contains(t, playgroundError(t, answer), c.want)
		if c.want == "the key is named twice" {
			require.Equal(t, http.StatusBadGateway, status, "the server says so")
		} else {
			require.Equal(t, http.StatusBadRequest, status, answer)
		}
	}
	_, answer := post(t, url, wordsOfTwo("reserve", "other", "x", ""))
	require.Contains(t, answer, `"field":"count","funnel":1}`)
	require.Zero(t, server.Client(t).DBSize(t.Context()).Val(), "an error changes nothing")

	require.NoError(t, server.Client(t).LPush(t.Context(), "p:demo", "a").Err())
	status, answer := post(t, url, words("reserve"))
	require.Equal(t, http.StatusBadGateway, status)
	require.Contains(t, playgroundError(t, answer), "WRONGTYPE")
}

// Pages of other sites cannot call.
func TestPlaygroundIsForItsOwnPage(t *testing.T) {
	server := startAtOneInstant(t)
	url := startPlayground(t, server)
	for _, c := range []struct {
		status  int
		headers []string
	}{
		{http.StatusForbidden, []string{"Origin", "http://example.com"}},
		{http.StatusForbidden, []string{"Origin", "null"}},
		{http.StatusForbidden, []string{"Sec-Fetch-Site", "cross-site"}},
		{http.StatusForbidden, []string{"Sec-Fetch-Site", "same-site"}},
		{http.StatusMisdirectedRequest, []string{"Origin", "http://example.com:8081", "Host", "example.com:8081"}},
		{http.StatusUnsupportedMediaType, []string{"Content-Type", "text/plain"}},
		{http.StatusUnsupportedMediaType, []string{"Content-Type", "application/x-www-form-urlencoded"}},
	} {
		status, _ := post(t, url, words("reserve"), c.headers...)
		require.Equal(t, c.status, status, c.headers)
	}
	response, _ := get(t, url+"/call")
	require.NotEqual(t, http.StatusOK, response.StatusCode)
	response, _ = get(t, url+"/")
	require.Equal(t, "default-src 'self'; frame-ancestors 'none'", response.Header.Get("Content-Security-Policy"))
	require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	require.Zero(t, server.Client(t).DBSize(t.Context()).Val())

	status, _ := post(t, url, words("reserve"), "Sec-Fetch-Site", "same-origin", "Host", "localhost:8081", "Content-Type", "application/json; charset=utf-8")
	require.Equal(t, http.StatusOK, status)
}

// A visitor who does not send what was announced is not waited for.
func TestPlaygroundEndsSlowRequests(t *testing.T) {
	t.Parallel()
	url := startPlayground(t, servertest.Start(t, servertest.Options{}))
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer connection.Close()
	_, err = io.WriteString(connection, "POST /call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
	require.NoError(t, err)
	require.NoError(t, connection.SetReadDeadline(time.Now().Add(servertest.Patience)))
	_, err = io.Copy(io.Discard, connection) // until it is closed
	require.NoError(t, err)
}

func TestPlaygroundWithoutRedis(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	url := startPlayground(t, server)
	server.Kill()
	for range 5 { // and with the breaker open
		status, answer := post(t, url, words("reserve"))
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, playgroundError(t, answer), "connection refused")
	}
	server.Restart(t)
	servertest.Eventually(t, "Redis decides again", func() bool {
		status, _ := post(t, url, words("reserve"))
		return status == http.StatusOK
	})
}
