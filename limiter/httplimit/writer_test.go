// A handler that is a proxy adds the headers of its upstream, but the client gets one set of
// headers. The writer of the middleware can do whatever the writer of the server can.

package httplimit_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// Around a ReverseProxy each header is sent once. The client learns of the policies of both sides,
// a policy of one name once, and X-RateLimit describes the side with less remaining.
func TestHeadersAroundAProxy(t *testing.T) {
	const ours, theirs = `"api";q=10;w=864000`, `"other";q=5;w=5`
	for name, c := range map[string]struct {
		upstream http.Header
		status   int
		want     []string // of headersOf
	}{
		"none": {
			status: 200,
			want:   []string{"200", "", ours, `"api";r=9;t=86400`, "10", "9", "86400"},
		},
		"less remaining": {
			upstream: http.Header{
				"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Reset": {"2"},
				"Ratelimit-Policy": {theirs}, "Ratelimit": {`"other";r=3;t=2`},
			},
			status: 200,
			want:   []string{"200", "", ours + ", " + theirs, `"api";r=9;t=86400, "other";r=3;t=2`, "5", "3", "2"},
		},
		"more remaining": {
			upstream: http.Header{"X-Ratelimit-Limit": {"50"}, "X-Ratelimit-Remaining": {"30"}, "X-Ratelimit-Reset": {"2"}},
			status:   200,
			want:     []string{"200", "", ours, `"api";r=9;t=86400`, "10", "9", "86400"},
		},
		"as much remaining": {
			upstream: http.Header{"X-Ratelimit-Limit": {"50"}, "X-Ratelimit-Remaining": {"9"}, "X-Ratelimit-Reset": {"2"}},
			status:   200,
			want:     []string{"200", "", ours, `"api";r=9;t=86400`, "10", "9", "86400"},
		},
		"as much remaining, refused": {
			upstream: http.Header{"X-Ratelimit-Limit": {"50"}, "X-Ratelimit-Remaining": {"9"}, "Retry-After": {"3"}},
			status:   429,
			want:     []string{"429", "3", ours, `"api";r=9;t=86400`, "50", "9", ""},
		},
		"two sets of their own": {
			upstream: http.Header{"X-Ratelimit-Remaining": {"3", "4"}},
			status:   200,
			want:     []string{"200", "", ours, `"api";r=9;t=86400`, "", "3", ""},
		},
		"no number": {
			upstream: http.Header{"X-Ratelimit-Remaining": {"few"}, "X-Ratelimit-Limit": {"many"}},
			status:   200,
			want:     []string{"200", "", ours, `"api";r=9;t=86400`, "10", "9", "86400"},
		},
		"without a number": {
			upstream: http.Header{"X-Ratelimit-Reset": {"1767225600"}},
			status:   200,
			want:     []string{"200", "", ours, `"api";r=9;t=86400`, "10", "9", "86400"},
		},
		"a policy of the same name": {
			upstream: http.Header{
				"Ratelimit-Policy": {`"x\"y";q=1;w=2, "api";q=7;w=1 ,` + theirs},
				"Ratelimit":        {`"x\"y";r=1`, `"api";r=1;t=1;pk=:cGs=:`, `"other";r=3;t=2`},
			},
			status: 200,
			want: []string{"200", "", ours + `, "x\"y";q=1;w=2, ` + theirs,
				`"api";r=9;t=86400, "x\"y";r=1, "other";r=3;t=2`, "10", "9", "86400"},
		},
		"lists of an earlier draft": {
			upstream: http.Header{
				"Ratelimit-Policy": {`10;w=1, 50;w=60`}, "Ratelimit": {`limit=100, remaining=50, reset=5`},
			},
			status: 200,
			want:   []string{"200", "", ours, `"api";r=9;t=86400`, "10", "9", "86400"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for name, values := range c.upstream {
					w.Header()[name] = values
				}
				w.WriteHeader(c.status)
			}))
			defer upstream.Close()
			target, err := url.Parse(upstream.URL)
			require.NoError(t, err)
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
			handler := httplimit.New(limiter.NewLocal(), "api", slow(10))(proxy)
			require.Equal(t, c.want, headersOf(ask(handler, from("192.0.2.1"))))

			nested := httplimit.New(limiter.NewLocal(), "outer", slow(100))(
				httplimit.New(limiter.NewLocal(), "api", slow(10))(proxy))
			got := headersOf(ask(nested, from("192.0.2.1")))
			require.Equal(t, append([]string{`"outer";q=100;w=8640000, ` + c.want[2], `"outer";r=99;t=86400, ` + c.want[3]},
				c.want[4:]...), got[2:], "between two middlewares")
		})
	}
}

// A handler sees the headers of its request, and may change them.
func TestHandlersChangeHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    []string // RateLimit-Policy, RateLimit, X-RateLimit-Limit, -Remaining, -Reset
	}{
		"deletes them": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining",
					"X-RateLimit-Reset"} {
					w.Header().Del(name)
				}
				w.WriteHeader(200)
			},
			want: []string{"", "", "", "", ""},
		},
		"replaces one": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-RateLimit-Remaining", "1")
				io.WriteString(w, "ok")
			},
			want: []string{`"api";q=10;w=864000`, `"api";r=9;t=86400`, "10", "1", "86400"},
		},
		"adds, and writes nothing": {
			handler: func(w http.ResponseWriter, _ *http.Request) { w.Header().Add("X-RateLimit-Remaining", "4") },
			want:    []string{`"api";q=10;w=864000`, `"api";r=9;t=86400`, "", "4", ""},
		},
		"adds after an informational response": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				w.Header().Add("X-RateLimit-Remaining", "4")
				w.WriteHeader(200)
			},
			want: []string{`"api";q=10;w=864000`, `"api";r=9;t=86400`, "", "4", ""},
		},
		"asks a limiter itself": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				httplimit.SetHeaders(w.Header(), limiter.Results{{OK: true, Limit: slow(4), Remaining: 3}}, "inner")
				io.WriteString(w, "ok")
			},
			want: []string{`"api";q=10;w=864000, "inner";q=4;w=345600`, `"api";r=9;t=86400, "inner";r=3;t=0`, "4", "3", "0"},
		},
		"tells its own policy anew": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				results := httplimit.ResultsFrom(r.Context())
				results[0].Remaining = 5
				httplimit.SetHeaders(w.Header(), results, "api")
				io.WriteString(w, "ok")
			},
			want: []string{`"api";q=10;w=864000`, `"api";r=5;t=86400`, "10", "5", "86400"},
		},
	} {
		server := httptest.NewServer(httplimit.New(limiter.NewLocal(), "api", slow(10))(c.handler))
		response, err := http.Get(server.URL)
		require.NoError(t, err)
		response.Body.Close()
		server.Close()
		got := []string{}
		for _, name := range []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining",
			"X-RateLimit-Reset"} {
			got = append(got, strings.Join(response.Header.Values(name), ", "))
		}
		require.Equal(t, c.want, got, name)
	}
}

// The kinds of writers that a server may have: each has the methods that it names.
type (
	plainWriter  struct{ http.ResponseWriter }
	flushWriter  struct{ flushed *int }
	hijackWriter struct{}
	readWriter   struct{ read *int }
	unwrapWriter struct {
		plainWriter
		inside http.ResponseWriter
	}
)

func (w flushWriter) Flush() { *w.flushed++ }
func (hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}
func (w readWriter) ReadFrom(body io.Reader) (n int64, err error) {
	*w.read++
	return io.Copy(io.Discard, body)
}
func (w unwrapWriter) Unwrap() http.ResponseWriter { return w.inside }

// A handler finds in its writer the interfaces that the writer of the server has, and no others,
// and the headers are united before anything is sent.
func TestWriters(t *testing.T) {
	flushed, read := 0, 0
	for name, c := range map[string]struct {
		writer              func(http.ResponseWriter) http.ResponseWriter
		canFlush, canHijack bool
	}{
		"nothing": {writer: func(w http.ResponseWriter) http.ResponseWriter { return plainWriter{w} }},
		"flush": {writer: func(w http.ResponseWriter) http.ResponseWriter {
			return struct {
				plainWriter
				flushWriter
			}{plainWriter{w}, flushWriter{&flushed}}
		}, canFlush: true},
		"hijack": {writer: func(w http.ResponseWriter) http.ResponseWriter {
			return struct {
				plainWriter
				hijackWriter
			}{plainWriter{w}, hijackWriter{}}
		}, canHijack: true},
		"flush, hijack, read from": {writer: func(w http.ResponseWriter) http.ResponseWriter {
			return struct {
				plainWriter
				flushWriter
				hijackWriter
				readWriter
			}{plainWriter{w}, flushWriter{&flushed}, hijackWriter{}, readWriter{&read}}
		}, canFlush: true, canHijack: true},
	} {
		for how, send := range map[string]func(w http.ResponseWriter){
			"WriteHeader": func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
			"upgrade":     func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols) },
			"Write":       func(w http.ResponseWriter) { w.Write([]byte("ok")) },
			"WriteString": func(w http.ResponseWriter) { io.WriteString(w, "ok") },
			"Copy":        func(w http.ResponseWriter) { io.Copy(w, struct{ io.Reader }{strings.NewReader("ok")}) },
			"Flush": func(w http.ResponseWriter) {
				before := flushed
				flusher, can := w.(http.Flusher)
				if can {
					flusher.Flush()
					require.Equal(t, before+1, flushed, "times that the writer of the server was flushed")
				}
			},
			"controller": func(w http.ResponseWriter) {
				before := flushed
				_, can := w.(http.Flusher)
				err := http.NewResponseController(w).Flush()
				require.Equal(t, can, err == nil)
				require.Equal(t, can, flushed == before+1)
			},
		} {
			handler := httplimit.New(limiter.NewLocal(), "api", slow(10))(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					_, canFlush := w.(http.Flusher)
					require.Equal(t, c.canFlush, canFlush, name)
					_, canHijack := w.(http.Hijacker)
					require.Equal(t, c.canHijack, canHijack, name)
					w.Header().Add("X-RateLimit-Remaining", "4")
					send(w)
					if how != "Flush" || canFlush {
						require.Equal(t, []string{"4"}, w.Header().Values("X-RateLimit-Remaining"), "%s, %s", name, how)
					}
				}))
			before := read
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(c.writer(recorder), from("192.0.2.1"))
			if how == "Copy" && strings.Contains(name, "read from") {
				require.Equal(t, before+1, read, "a file is sent by the server's own method")
			}
		}
	}

	// What else the server's writer can do is found by Unwrap.
	inside := struct {
		plainWriter
		flushWriter
	}{plainWriter{httptest.NewRecorder()}, flushWriter{&flushed}}
	before := flushed
	httplimit.New(limiter.NewLocal(), "api", slow(10))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		require.NoError(t, http.NewResponseController(w).Flush())
	})).ServeHTTP(unwrapWriter{plainWriter{httptest.NewRecorder()}, inside}, from("192.0.2.1"))
	require.Equal(t, before+1, flushed)
}

// Over a real connection handlers stream, hijack and set deadlines through the middleware.
func TestConnections(t *testing.T) {
	released := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		<-released
		io.WriteString(w, "second")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhijacked")
			connection.Close()
		}
	})
	mux.HandleFunc("/deadline", func(w http.ResponseWriter, _ *http.Request) {
		err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
		if err == nil {
			io.WriteString(w, "set")
		}
	})
	server := httptest.NewServer(httplimit.New(limiter.NewLocal(), "api", slow(10))(mux))
	defer server.Close()
	get := func(path string) *http.Response {
		response, err := http.Get(server.URL + path)
		require.NoError(t, err)
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	stream := get("/stream")
	require.Equal(t, "9", stream.Header.Get("X-RateLimit-Remaining"))
	first := make([]byte, 5)
	_, err := io.ReadFull(stream.Body, first)
	require.NoError(t, err)
	require.Equal(t, "first", string(first), "before the handler goes on")
	close(released)
	for path, want := range map[string]string{"/hijack": "hijacked", "/deadline": "set"} {
		body, err := io.ReadAll(get(path).Body)
		require.NoError(t, err)
		require.Equal(t, want, string(body), path)
	}
	rest, err := io.ReadAll(stream.Body)
	require.NoError(t, err)
	require.Equal(t, "second", string(rest))
}
