package caddylimit

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// The Caddyfile of docs/caddy.md is as caddy fmt writes it, and does what the page says.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/caddy.md")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(page), "```caddy\n")
	text, _, _ = strings.Cut(text, "```\n")
	folder := t.TempDir()
	path := filepath.Join(folder, "Caddyfile")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	formatted, err := program(t, folder, "fmt", path).Output()
	require.NoError(t, err)
	require.Equal(t, text, string(formatted))

	_, site, found := strings.Cut(text, "example.com {\n")
	require.True(t, found)
	upstream := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	site = strings.TrimSuffix(strings.Replace(site, "localhost:8080", upstream, 1), "}\n")
	caddy := start(t, servertest.StartModule(t).Addr(), "", site)
	for i := range 6 {
		request, err := http.NewRequest(http.MethodPost, caddy.url+"/login", nil)
		require.NoError(t, err)
		response, err := caddy.client.Do(request)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, i == 5, response.StatusCode == http.StatusTooManyRequests, "try %d", i)
	}
	require.Equal(t, "hello", caddy.ask(t, "/login").body, "a GET is no try")
	refused := 0
	for range 21 {
		a := caddy.ask(t, "/api/files/1", "X-Api-Key", "a")
		require.Equal(t, []string{`"free";q=20;w=12`, `"uploads:slots";q=3;qu="concurrent-requests"`},
			a.header.Values("RateLimit-Policy"))
		if a.status == http.StatusTooManyRequests {
			require.Regexp(t, `^too many requests: try again in 1 second \(policy "free"\)$`, a.body)
			refused++
		}
	}
	require.NotZero(t, refused, "the 21st request within a few seconds")
	require.Equal(t, http.StatusOK, caddy.ask(t, "/api/1", "X-Api-Key", "b").status)
	a := caddy.ask(t, "/api/1", "X-Api-Key", "a", "X-Plan", "gold")
	require.Equal(t, "999999", a.header.Get("X-RateLimit-Remaining"))
}
