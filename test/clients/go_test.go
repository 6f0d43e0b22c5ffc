// The snippets in Go, of docs/clients.md and docs/go.md, do what the pages say: they wait for
// their turn, send a refund once, and settle.

package clients_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/test/page"
)

// goProgram runs one of the snippets. Its arguments are the name, the address and a letter for
// each round. The clients have time for servers that stall: a second attempt would be counted.
const goProgram = `package main

import (
	"context"
	"fmt"
	"net"
	"os"
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

func refundViaGoRedis(rdb *redis.Client) error {
	reply, err := rdb.Do(ctx, "CL.RESERVE", "user:42", 15, 30, 60, 1).Slice()
	if err != nil {
		return err
	}
	return refund(ctx, rdb, reply[2].([]any)[0].([]any))
}

func refundViaRueidis(client rueidis.Client) error {
	ask := client.B().Arbitrary("CL.RESERVE").Keys("user:42").Args("15", "30", "60", "1").Build()
	reply, err := client.Do(ctx, ask).ToArray()
	if err != nil {
		return err
	}
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
	start, patience := time.Now(), time.Minute
	rdb := redis.NewClient(&redis.Options{Addr: os.Args[2], DialTimeout: patience, ReadTimeout: patience})
	l := limiter.New(rdb)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{os.Args[2]}, Dialer: net.Dialer{Timeout: patience}, ConnWriteTimeout: patience,
	})
	if err != nil {
		panic(err)
	}
	run := map[string]func() error{
		"limiter":         func() error { return viaLimiter(l) },
		"go-redis":        func() error { return viaGoRedis(rdb) },
		"rueidis":         func() error { return viaRueidis(client) },
		"go-redis refund": func() error { return refundViaGoRedis(rdb) },
		"rueidis refund":  func() error { return refundViaRueidis(client) },
		"settle":          func() error { return settle(l) },
	}[os.Args[1]]
	for round := range len(os.Args[3]) {
		if err := run(); err != nil {
			fmt.Println("round", round+1, "failed after", time.Since(start), err)
			os.Exit(1)
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
	wait := replaced(t, snippet(t, "limiter"), "limiter.PerMinute(30).Burst(15)", "limiter.Per(30, 15*time.Second).Burst(15)")
	require.NoError(t, os.WriteFile(source, fmt.Appendf(nil, goProgram, snippet(t, "go-redis-refund"),
		indent(replaced(t, wait, "10*time.Second", "time.Minute")),
		indent(replaced(t, snippet(t, "go-redis"), "15, 30, 60", "15, 30, 15")),
		indent(replaced(t, snippet(t, "rueidis"), `"15", "30", "60"`, `"15", "30", "15"`)),
		indent(snippet(t, "rueidis-refund")),
		indent(strings.TrimSuffix(page.Marked(t, "../../docs/go.md", "settle"), "\n")),
	), 0o600))
	output, err := exec.Command("gofmt", "-l", source).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Empty(t, string(output), "the snippets are as gofmt wants them")
	output, err = exec.Command("go", "build", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", output)

	module, bare := servertest.StartModule(t), servertest.Start(t, servertest.Options{})
	turns := func(name string, server *servertest.Server) {
		requireTurns(t, server, func() *exec.Cmd {
			return exec.Command(program, name, server.Addr(), strings.Repeat("x", rounds))
		})
	}
	turns("limiter", module)
	turns("go-redis", module)
	turns("rueidis", module)
	turns("limiter", bare)
	for _, name := range []string{"go-redis refund", "rueidis refund"} {
		requireRefund(t, module, func(addr string) *exec.Cmd { return exec.Command(program, name, addr, "x") })
	}
	end := run(t, emptied(t, module), exec.Command(program, "settle", module.Addr(), "x"))
	require.NoError(t, end.err, end)
	require.Equal(t, 1, end.calls["cl.refund"], end)
}

// TestRueidis: what the page says of its builder, and of the script.
func TestRueidis(t *testing.T) {
	connect := func(server *servertest.Server) rueidis.Client {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		return client
	}
	client := connect(servertest.StartModule(t))
	typed := client.B().ClThrottle().Key("user:42").MaxBurst(15).CountPerPeriod(30).Period(60).Build()
	reply, err := client.Do(t.Context(), typed).AsIntSlice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 15, 14, -1, 2}, reply)

	script, client := rueidis.NewLuaScript(limiter.Script()), connect(servertest.Start(t, servertest.Options{}))
	decided, err := script.Exec(t.Context(), client, []string{"user:42"}, []string{"reserve", "15", "30", "60", "1"}).ToAny()
	require.NoError(t, err)
	require.Regexp(t, `^\[0 0 \[\[0 15 14 0 2 \d{19}\]\]\]$`, fmt.Sprint(decided))
}
