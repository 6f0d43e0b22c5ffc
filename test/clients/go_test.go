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

// goProgram runs one of three snippets, in as many rounds as requireTurns wants, or a refund, or
// what docs/go.md settles. Its arguments are the name, the address and a letter for each round.
const goProgram = `package main

import (
	"context"
	"fmt"
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
	if err != nil {
		panic(err)
	}
	run := map[string]func() error{
		"limiter":         func() error { return viaLimiter(l) },
		"go-redis":        func() error { return viaGoRedis(rdb) },
		"rueidis":         func() error { return viaRueidis(client) },
		"go-redis refund": func() error { return refund(ctx, rdb, reserve(rdb)) },
		"rueidis refund":  func() error { return refundViaRueidis(client) },
		"settle":          func() error { return settle(l) },
	}[os.Args[1]]
	for range len(os.Args[3]) {
		if err := run(); err != nil {
			panic(err)
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
		indent(replaced(t, snippet(t, "limiter"), "limiter.PerMinute(30).Burst(15)", "limiter.Per(30, 15*time.Second).Burst(15)")),
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
	for _, name := range []string{"limiter", "go-redis", "rueidis"} {
		requireTurns(t, module, func() *exec.Cmd { return exec.Command(program, name, module.Addr(), strings.Repeat("x", rounds)) })
	}
	requireTurns(t, bare, func() *exec.Cmd { return exec.Command(program, "limiter", bare.Addr(), strings.Repeat("x", rounds)) })
	for _, name := range []string{"go-redis refund", "rueidis refund"} {
		requireRefund(t, module, func(addr string) *exec.Cmd { return exec.Command(program, name, addr, "x") })
	}
	client := emptied(t, module)
	output, err = exec.Command(program, "settle", module.Addr(), "x").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Equal(t, 1, callsOf(t, client)["cl.refund"])
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
	typed := client.B().ClThrottle().Key("user:42").MaxBurst(15).CountPerPeriod(30).Period(60).Quantity(15)
	reply, err := client.Do(t.Context(), typed.Build()).AsIntSlice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 15, 0, -1, 30}, reply)
	fraction := client.B().Arbitrary("CL.THROTTLE").Keys("fraction").Args("15", "30", "0.5")
	reply, err = client.Do(t.Context(), fraction.Build()).AsIntSlice()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 15, 14, -1, 1}, reply)

	script, client := rueidis.NewLuaScript(limiter.Script()), connect(servertest.Start(t, servertest.Options{}))
	decided, err := script.Exec(t.Context(), client, []string{"user:42"}, []string{"reserve", "15", "30", "60", "1"}).ToAny()
	require.NoError(t, err)
	require.Regexp(t, `^\[0 0 \[\[0 15 14 0 2 \d{19}\]\]\]$`, fmt.Sprint(decided))
}
