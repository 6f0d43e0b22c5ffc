// The test binary is a Caddy with its standard modules and this one, so tests start real processes
// of it: see start.

package caddylimit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// isProgram in the environment makes the test binary Caddy.
const isProgram = "RUN_CADDY=true"

func TestMain(m *testing.M) {
	name, value, _ := strings.Cut(isProgram, "=")
	if os.Getenv(name) == value {
		caddycmd.Main()
		return
	}
	os.Exit(m.Run())
}

// program returns a command of Caddy that keeps its files in a folder, and ends with the test.
func program(t testing.TB, folder string, arguments ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	return programAt(self, folder, arguments...)
}

// programAt is program for another Caddy.
func programAt(path, folder string, arguments ...string) *exec.Cmd {
	command := exec.Command(path, arguments...)
	command.Env = append(os.Environ(), isProgram, "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder,
		"CADDY_TEST_PASSWORD=secret")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// A server is a Caddy in a process of its own.
type server struct {
	url    string
	admin  string // address
	folder string
	setup  map[string]string
	client *http.Client

	process *os.Process
	ended   chan error
	log     *buffer
}

// header is the beginning of each Caddyfile: the words in capitals are replaced by start.
const header = `{
	admin ADMIN
	auto_https off
	servers {
		protocols h1 h2c
		trusted_proxies static 127.0.0.1/32
	}
	funnel {
		redis REDIS
		SETTINGS
	}
}
http://127.0.0.1:PORT {
`

// start starts a Caddy with a site, and waits until it serves. Settings are lines of the global
// option.
func start(t testing.TB, redis, settings, site string) *server {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return startAt(t, self, redis, settings, site)
}

// startAt is start for another Caddy.
func startAt(t testing.TB, path, redis, settings, site string) *server {
	t.Helper()
	s := &server{folder: t.TempDir(), ended: make(chan error, 1), log: new(buffer)}
	port := strconv.Itoa(servertest.FreePort(t))
	s.admin, s.url = "127.0.0.1:"+strconv.Itoa(servertest.FreePort(t)), "http://127.0.0.1:"+port
	s.setup = map[string]string{"ADMIN": s.admin, "PORT": port, "REDIS": redis, "SETTINGS": settings}
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}, Timeout: servertest.Patience}
	command := programAt(path, s.folder, "run", "--config", s.write(t, site), "--adapter", "caddyfile")
	command.Stderr = s.log
	require.NoError(t, command.Start())
	s.process = command.Process
	go func() { s.ended <- command.Wait() }()
	t.Cleanup(func() {
		s.process.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", s.url, s.log)
		}
	})
	servertest.AwaitListener(t, "127.0.0.1:"+port)
	servertest.Eventually(t, "the start", func() bool { return strings.Contains(s.log.String(), "serving initial configuration") })
	return s
}

// write writes the Caddyfile with a site, and returns its path.
func (s *server) write(t testing.TB, site string) (path string) {
	text := header
	for word, by := range s.setup {
		text = strings.ReplaceAll(text, word, by)
	}
	path = filepath.Join(s.folder, "Caddyfile")
	require.NoError(t, os.WriteFile(path, []byte(text+site+"\n}\n"), 0o600))
	return path
}

// reload loads another site, and perhaps other settings, and returns what Caddy says of an error.
func (s *server) reload(t testing.TB, site string) error {
	t.Helper()
	output, err := program(t, s.folder, "reload", "--config", s.write(t, site), "--adapter", "caddyfile", "--address", s.admin).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// end asks Caddy to end, and waits for it.
func (s *server) end(t testing.TB) {
	t.Helper()
	require.NoError(t, s.process.Signal(syscall.SIGTERM))
	select {
	case <-s.ended:
	case <-time.After(servertest.Patience):
		require.FailNow(t, "Caddy does not end")
	}
}

// An answer is what a client gets.
type answer struct {
	status int
	body   string
	header http.Header
}

// ask sends a GET. Headers are in pairs.
func (s *server) ask(t testing.TB, path string, headers ...string) answer {
	t.Helper()
	a, err := s.try(t.Context(), path, headers...)
	require.NoError(t, err)
	return a
}

func (s *server) try(ctx context.Context, path string, headers ...string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(body), response.Header}, err
}

// metrics returns the lines of /metrics that begin with funnel_ and contain all words, and the sum
// of their values.
func (s *server) metrics(t testing.TB, words ...string) (sum int) {
	t.Helper()
	response, err := http.Get("http://" + s.admin + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "funnel_") || !containsAll(line, words) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		require.NoError(t, err, line)
		sum += int(value)
	}
	return sum
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// logged returns the lines of Caddy's log with a message, each as JSON.
func (s *server) logged(t testing.TB, message string) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(s.log.String()) {
		line := map[string]any{}
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
			lines = append(lines, line)
		}
	}
	return lines
}

// A buffer is a log that is read while a process writes it.
type buffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *buffer) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(text)
}

func (b *buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}
