package clients_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/page"
)

// goProgram runs one of three snippets, in as many rounds as run wants, or a refund, or what
// docs/go.md settles.
const goProgram = `package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"funnel/limiter"
)

var ctx = context.Background()

%s

func viaLimiter(l *limiter.Limiter) error {
	%s
	return nil
}

func viaGoRedis(rdb *redis.Client) error {
	%s
	return nil
}

func viaRueidis(client rueidis.Client) error {
	%s
	return nil
}

func reserve(rdb *redis.Client) (row []any) {
	reply := rdb.Do(ctx, "CL.RESERVE", "user:42", 15, 30, 60, 1).Val().([]any)
	return reply[2].([]any)[0].([]any)
}

func refundViaRueidis(client rueidis.Client) error {
	ask := client.B().Arbitrary("CL.RESERVE").Keys("user:42").Args("15", "30", "60", "1").Build()
	reply, _ := client.Do(ctx, ask).ToArray()
	rows, _ := reply[2].ToArray()
	row, _ := rows[0].ToArray()
	%s
	return nil
}

func settle(l *limiter.Limiter) error {
	%s
	return nil
}

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: os.Args[2]})
	l := limiter.New(rdb)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{os.Args[2]}})
	for range 4 {
		if err == nil {
			switch os.Args[1] {
			case "go-redis refund":
				err = refund(ctx, rdb, reserve(rdb))
			case "rueidis refund":
				err = refundViaRueidis(client)
			case "settle":
				err = settle(l)
			case "limiter":
				err = viaLimiter(l)
			case "go-redis":
				err = viaGoRedis(rdb)
			case "rueidis":
				err = viaRueidis(client)
			}
		}
		if err != nil {
			panic(err)
		}
		if os.Args[1] == "settle" || strings.HasSuffix(os.Args[1], " refund") {
			return
		}
		fmt.Println("went on")
	}
}
`

func TestGoSnippets(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	source, program := filepath.Join(folder, "main.go"), filepath.Join(folder, "program")
	indent := func(text string) string { return strings.ReplaceAll(text, "\n", "\n\t") }
	require.NoError(t, os.WriteFile(source, fmt.Appendf(nil, goProgram, snippet(t, "go-redis-refund"),
		indent(narrow(t, snippet(t, "limiter"), "limiter.PerMinute(30).Burst(15)", "limiter.Per(1, 2*time.Second).Burst(3)")),
		indent(narrow(t, snippet(t, "go-redis"), "15, 30, 60", "3, 1, 2")),
		indent(narrow(t, snippet(t, "rueidis"), `"15", "30", "60"`, `"3", "1", "2"`)),
		indent(snippet(t, "rueidis-refund")),
		indent(strings.TrimSuffix(page.Marked(t, "../../docs/go.md", "settle"), "\n")),
	), 0o600))
	output, err := exec.Command("gofmt", "-l", source).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Empty(t, string(output), "the snippets are as gofmt wants them")
	output, err = exec.Command("go", "build", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", output)

	for _, name := range []string{"limiter", "go-redis", "rueidis"} {
		t.Run(name, func(t *testing.T) {
			server := servertest.StartModule(t)
			requireTurns(t, server, func() *exec.Cmd { return exec.Command(program, name, server.Addr()) })
		})
	}
	for _, name := range []string{"go-redis refund", "rueidis refund"} {
		requireRefund(t, func(addr string) *exec.Cmd { return exec.Command(program, name, addr) })
	}
	t.Run("settle", func(t *testing.T) {
		server := servertest.StartModule(t)
		output, err := exec.Command(program, "settle", server.Addr()).CombinedOutput()
		require.NoError(t, err, "%s", output)
		calls := callsOf(t, server.Client(t))
		require.Equal(t, 1, calls["cl.refund"])
	})
	t.Run("limiter without the module", func(t *testing.T) {
		server := servertest.Start(t, servertest.Options{})
		requireTurns(t, server, func() *exec.Cmd { return exec.Command(program, "limiter", server.Addr()) })
	})
}
