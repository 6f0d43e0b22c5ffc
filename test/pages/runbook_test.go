// The commands of the runbook, in docs/operations.md, show and do what the page says.
// test/replication runs those that need several servers.

package pages_test

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/test/pages/page"
)

// runbook returns a function that runs a block of the page against a server, in a folder of its
// own, and returns what the block prints. Further arguments are pairs of an old and a new text.
func runbook(t *testing.T, server *servertest.Server) func(name string, replaced ...string) string {
	page.NeedRedisCLI(t)
	folder := t.TempDir()
	return func(name string, replaced ...string) string {
		// timeout runs a program, and so not the function that page.Shell makes.
		replaced = append(replaced, "timeout 5 redis-cli", fmt.Sprint("timeout 5 redis-cli -p ", server.Port))
		lines := page.Marked(t, top+"/docs/operations.md", name)
		return page.Shell(t, folder, server.Port, strings.NewReplacer(replaced...).Replace(lines))
	}
}

// whileCalling runs f while a client sends these calls again and again.
func whileCalling(t *testing.T, client *redis.Client, f func(), calls ...string) {
	stop, stopped := make(chan struct{}), sync.WaitGroup{}
	stopped.Go(func() {
		for {
			for _, call := range calls {
				servertest.Try(client, call)
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	f()
	close(stop)
	stopped.Wait()
}

// TestRunbookOfOneCustomer: the blocks show the words of the customer's calls and what they are
// answered, and let the customer through.
func TestRunbookOfOneCustomer(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	client, shell := server.Client(t), runbook(t, server)
	servertest.Call(t, client, "cl.charge user:42 15 30 60 1000")
	whileCalling(t, client, func() {
		require.Regexp(t, `^\S+ \[0 127.0.0.1:\d+\] "cl.throttle" "user:42" "15" "30" "60"\n(?s:.*)`+
			`\nstring\n\d{19}\n1\n\d+\.?\d*\n1\n15\n0\n(?s:.*)\n\d+\n$`, shell("customer"))
	}, "cl.throttle user:42 15 30 60", "cl.throttle user:421 15 30 60")

	output := shell("let through")
	require.Contains(t, output, "\n15\n", "the limit")
	require.True(t, strings.HasSuffix(output, "\n1\n"), output)
	require.Equal(t, "0 15 14 -1 2", servertest.Call(t, client, "cl.throttle user:42 15 30 60"))

	servertest.Call(t, client, "cl.reserve jobs 1 slots 3600 job-7")
	require.Regexp(t, `^job-7\n\d{13}\n1\n$`, shell("holders"))
	require.Regexp(t, `^0 0 \[0 1 0 0 `, servertest.Call(t, client, "cl.reserve jobs 1 slots 3600 job-8"), "the slot is free")
}

// TestRunbookOfAllCustomers: of many keys, the block names the ones with most calls, and which of
// them are limited.
func TestRunbookOfAllCustomers(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	client, shell := server.Client(t), runbook(t, server)
	servertest.Call(t, client, "cl.charge user:limited 15 1 3600 1000")
	whileCalling(t, client, func() {
		output := shell("most")
		require.Regexp(t, `^ +\d+ "user:limited"\n +\d+ "user:fine"\n`, output)
		require.Regexp(t, `\n\d+ calls of "user:limited" "15" "1" "3600": 1 \(1: limited now\)\n`, output)
		require.Regexp(t, `(?m)^\S+ \[0 127.0.0.1:\d+\] "cl.take" "user:fine"`, shell("wrong"))
		require.Regexp(t, `\n\d+ calls of "user:fine" "1000000" "1000" "1": 0 \(1: limited now\)\n`, output)
		if !strings.Contains(servertest.Try(client, "hotkeys help"), "START") {
			t.Log("Redis 8.6 is the first with HOTKEYS")
			return
		}
		require.Regexp(t, `(?s)^OK\nby-cpu-time-us\nuser:limited\n\d+\nuser:fine\n\d+\nOK\nOK\n$`, shell("hot keys"))
	}, "cl.reserve user:limited 15 1 3600 1", "CL.THROTTLE user:limited 15 1 3600", "cl.take user:fine 1000000 1000 1 1")
}

// TestRunbookOfAServer: what the blocks print has the fields that the page speaks of.
func TestRunbookOfAServer(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	client, shell := server.Client(t), runbook(t, server)
	servertest.Call(t, client, "cl.throttle user:42 15 30 60")
	require.Contains(t, servertest.Try(client, "cl.throttle user:42 0 0 0"), "INVALID")
	require.Regexp(t, `(?s)^PONG\n.*errorstat_INVALID:count=1.*cmdstat_cl.throttle:calls=2,.*funnel_commit:`, shell("not decided"))
	require.Regexp(t, `(?s)used_memory_human:.*maxmemory_human:.*maxmemory_policy:noeviction.*evicted_keys:0`, shell("evicted"))
	require.Regexp(t, `(?s)uptime_in_seconds:\d.*rdb_last_save_time:\d.*aof_enabled:0.*evicted_keys:0.*user default `, shell("forgotten"))
	require.Regexp(t, `(?s)master_repl_offset:\d.*connected_clients:\d`, shell("behind"))

	require.Regexp(t, fmt.Sprintf(`(?s)process_id:%d\s.*executable:\S.*dir\n%s\nlogfile\n.*server.log\n.*\nfunnel\n.*\nmaster\n$`,
		server.Pid(), server.Dir), shell("without systemd"))
	program, err := exec.LookPath(servertest.Program())
	require.NoError(t, err)
	log := shell("try a file", "preserve-status 2", "preserve-status 10", "redis-server", program, "7379", fmt.Sprint(servertest.FreePort(t)),
		"/usr/lib/redis/modules/funnel.so", servertest.Module(t))
	require.Regexp(t, `funnel \S+ \(.*\) loaded`, log)
}

// TestRunbookStopsTheModule: calls go on with the script, or end in an error. Without the module, a Limiter needs a user who
// may send the script.
func TestRunbookStopsTheModule(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), servertest.StartModule(t)
	shell := runbook(t, server)
	for _, c := range []struct {
		rules  string
		source limiter.Source // of a call after the commands were stopped
	}{{"+@all", limiter.FromScript}, {"+@all -@scripting", ""}} {
		servertest.Call(t, server.Client(t), "acl setuser app reset on >secret ~* "+c.rules)
		connection := server.Client(t, func(options *redis.Options) { options.Username, options.Password = "app", "secret" })
		l, limit := limiter.New(connection), limiter.PerHour(1).WithCapacity(5)
		before, err := l.Allow(ctx, "user:42", limit)
		require.NoError(t, err)
		require.Equal(t, limiter.FromModule, before.Source)
		require.Equal(t, "OK\n", shell("stop"))
		after, err := l.Allow(ctx, "user:42", limit)
		require.Equal(t, c.source, after.Source, c.rules)
		if c.source == "" {
			require.ErrorIs(t, err, limiter.ErrUnavailable)
		} else {
			require.NoError(t, err)
			require.Equal(t, before.Remaining-1, after.Remaining)
		}
	}
	require.Regexp(t, `(?s)funnel_commit:.*cmdstat_cl.reserve:.*rejected_calls=2,.*cl.reserve`, shell("look"))
	require.Regexp(t, `(?s)cmdstat_cl.reserve:.*usec_per_call=.*latest_fork_usec:.*rdb_bgsave_in_progress:`, shell("slow"))
}
