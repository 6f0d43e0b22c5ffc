package replication_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// What persistence promises: a call that was acknowledged is still counted after
// a crash, as far as the server was told to keep its data, and the files need
// neither the module nor its clock. Servers are killed with SIGKILL, under load,
// and so are the children that save their data.

const persistedFunnels = 10_000

// The ways to keep an append-only file.
var (
	appendAlways      = []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"}
	appendEverySecond = []string{"--save", "", "--appendonly", "yes", "--appendfsync", "everysec"}
)

// What the base of an append-only file is written as, once it is rewritten.
var preambles = []struct {
	name   string
	config []string
}{
	{"base as RDB", []string{"--aof-use-rdb-preamble", "yes"}},
	{"base as commands", []string{"--aof-use-rdb-preamble", "no"}},
}

// TestAppendOnlyAlwaysKeepsEveryAcknowledgedCall through kill after kill.
func TestAppendOnlyAlwaysKeepsEveryAcknowledgedCall(t *testing.T) {
	tally := newTally(persistedFunnels)
	server := startPersistent(t, appendAlways)
	kills := servertest.QuickOrLong(2, 10)
	for kill := range kills {
		load := tally.pour(t, server, 0)
		time.Sleep(servertest.QuickOrLong(200*time.Millisecond, 400*time.Millisecond) + time.Duration(kill)*7*time.Millisecond)
		server.Kill()
		load.awaitDisconnect(t)

		server.Restart(t)
		forgotten := tally.requireCounted(t, server.Client(t), tally.acknowledged())
		require.Zero(t, forgotten)
	}
	tally.pourFor(t, server, 100*time.Millisecond)
	t.Logf("%d kills, 0 tokens lost; %v", kills, tally.figures)
}

// TestAppendOnlyEverySecondForgetsTwoSecondsAtMost: that is what the server
// promises of its own commands.
func TestAppendOnlyEverySecondForgetsTwoSecondsAtMost(t *testing.T) {
	tally := newTally(persistedFunnels)
	server := startPersistent(t, appendEverySecond)
	kills := servertest.QuickOrLong(1, 3)
	var forgotten int64
	for range kills {
		load := tally.pour(t, server, 0)
		time.Sleep(300 * time.Millisecond)
		old := tally.acknowledged()
		time.Sleep(2 * time.Second)
		server.Kill()
		load.awaitDisconnect(t)

		server.Restart(t)
		forgotten += tally.requireCounted(t, server.Client(t), old)
	}
	t.Logf("%d kills, %d young tokens forgotten; %v", kills, forgotten, tally.figures)
}

// TestRewriteUnderLoadKeepsEveryAcknowledgedCall: whether the kill comes before
// the append-only file is rewritten, in the middle or afterwards.
func TestRewriteUnderLoadKeepsEveryAcknowledgedCall(t *testing.T) {
	for _, preamble := range preambles {
		t.Run(preamble.name, func(t *testing.T) {
			ctx := context.Background()
			tally := newTally(persistedFunnels)
			server := startPersistent(t, appendAlways, preamble.config...)
			kills := servertest.QuickOrLong(1, 4)
			for range kills {
				load := tally.pour(t, server, 0)
				time.Sleep(100 * time.Millisecond)
				client := server.Client(t)
				rewriteAppendOnlyFile(t, client)
				require.NoError(t, client.ConfigSet(ctx, "rdb-key-save-delay", "1000").Err())
				require.NoError(t, client.BgRewriteAOF(ctx).Err())
				time.Sleep(100 * time.Millisecond)
				require.EqualValues(t, 1, servertest.InfoField(t, client, "persistence", "aof_rewrite_in_progress"))
				if servertest.Since7(t) {
					require.Len(t, servertest.AppendOnlyFiles(t, server, "*.incr.aof"), 2, "the new part and the one before")
				}
				server.Kill()
				load.awaitDisconnect(t)

				server.Restart(t)
				require.Zero(t, tally.requireCounted(t, server.Client(t), tally.acknowledged()))
			}

			load := tally.pour(t, server, 0)
			rewriteAppendOnlyFile(t, server.Client(t))
			time.Sleep(50 * time.Millisecond)
			server.Kill()
			load.awaitDisconnect(t)
			server.Restart(t)
			require.Zero(t, tally.requireCounted(t, server.Client(t), tally.acknowledged()))
			t.Logf("%d kills while rewriting and 1 afterwards, 0 tokens lost; %v", kills, tally.figures)
		})
	}
}

// TestSnapshotKeepsEveryCallAcknowledgedBeforeIt: RDB alone, killed under load,
// while the next snapshot is being written.
func TestSnapshotKeepsEveryCallAcknowledgedBeforeIt(t *testing.T) {
	ctx := context.Background()
	tally := newTally(persistedFunnels)
	server := startPersistent(t, []string{"--save", "3600", "1"})
	kills := servertest.QuickOrLong(2, 8)
	var forgotten int64
	for range kills {
		load := tally.pour(t, server, 0)
		time.Sleep(servertest.QuickOrLong(100*time.Millisecond, 400*time.Millisecond))
		client := server.Client(t)
		before := tally.acknowledged()
		saveInBackground(t, client)

		require.NoError(t, client.ConfigSet(ctx, "rdb-key-save-delay", "1000").Err())
		require.NoError(t, client.BgSave(ctx).Err())
		time.Sleep(50 * time.Millisecond)
		require.EqualValues(t, 1, servertest.InfoField(t, client, "persistence", "rdb_bgsave_in_progress"))
		server.Kill()
		load.awaitDisconnect(t)

		server.Restart(t)
		forgotten += tally.requireCounted(t, server.Client(t), before)
	}
	t.Logf("%d kills, %d tokens younger than the snapshot forgotten; %v", kills, forgotten, tally.figures)
}

// TestShutdownUnderLoadKeepsEveryAcknowledgedCall: with RDB alone, SIGTERM saves
// what was acknowledged up to the last moment.
func TestShutdownUnderLoadKeepsEveryAcknowledgedCall(t *testing.T) {
	tally := newTally(persistedFunnels)
	server := startPersistent(t, []string{"--save", "3600", "1"})
	shutdowns := servertest.QuickOrLong(2, 8)
	for range shutdowns {
		load := tally.pour(t, server, 0)
		time.Sleep(servertest.QuickOrLong(150*time.Millisecond, 400*time.Millisecond))
		require.NoError(t, server.Signal(syscall.SIGTERM))
		state, err := server.Wait()
		require.NoError(t, err)
		require.Zero(t, state.ExitCode(), "%v", state)
		load.awaitDisconnect(t)

		server.Restart(t)
		require.Zero(t, tally.requireCounted(t, server.Client(t), tally.acknowledged()))
	}
	t.Logf("%d shutdowns, 0 tokens lost; %v", shutdowns, tally.figures)
}

// TestSnapshotsBesideAnAppendOnlyFileTakeNothingFromIt: with both, the newer file
// counts, though the snapshot is older.
func TestSnapshotsBesideAnAppendOnlyFileTakeNothingFromIt(t *testing.T) {
	tally := newTally(persistedFunnels)
	server := startPersistent(t, []string{"--save", "3600", "1", "--appendonly", "yes", "--appendfsync", "always"})
	kills := servertest.QuickOrLong(2, 8)
	for range kills {
		load := tally.pour(t, server, 0)
		time.Sleep(50 * time.Millisecond)
		saveInBackground(t, server.Client(t))
		rewriteAppendOnlyFile(t, server.Client(t))
		time.Sleep(servertest.QuickOrLong(50*time.Millisecond, 300*time.Millisecond))
		server.Kill()
		load.awaitDisconnect(t)

		require.FileExists(t, filepath.Join(server.Dir, "dump.rdb"))
		server.Restart(t)
		require.Zero(t, tally.requireCounted(t, server.Client(t), tally.acknowledged()))
	}
	t.Logf("%d kills, 0 tokens lost; %v", kills, tally.figures)
}

// TestAppendOnlyFileHoldsNoThrottle: nothing but SET with PXAT, in any part of
// it, before a rewrite and after.
func TestAppendOnlyFileHoldsNoThrottle(t *testing.T) {
	for _, preamble := range preambles {
		t.Run(preamble.name, func(t *testing.T) {
			tally := newTally(persistedFunnels)
			server := startPersistent(t, appendEverySecond, preamble.config...)
			duration := servertest.QuickOrLong(150*time.Millisecond, 1500*time.Millisecond)
			tally.pourFor(t, server, duration)
			searchAppendOnlyFiles(t, server)
			sets := requireOnlySets(t, server)

			load := tally.pour(t, server, 0)
			rewriteAppendOnlyFile(t, server.Client(t))
			time.Sleep(duration)
			load.stop(t)
			files := searchAppendOnlyFiles(t, server)
			if servertest.Since7(t) { // what was rewritten lies in a file of its own
				sets += requireOnlySets(t, server)
			}
			t.Logf("%d SETs and nothing else; last in %v; %v", sets, files, tally.figures)
		})
	}
}

// searchAppendOnlyFiles requires that no part of the append-only file names the
// command, in capitals or not, and that some part names a funnel.
func searchAppendOnlyFiles(t testing.TB, server *servertest.Server) (names []string) {
	t.Helper()
	var funnels int
	for _, file := range servertest.AppendOnlyFiles(t, server, "*") {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, strings.ToLower(string(content)), "cl.throttle", file)
		funnels += bytes.Count(content, []byte(funnelKey(1)[:7]))
		names = append(names, filepath.Base(file))
	}
	require.Positive(t, funnels)
	return names
}

// requireOnlySets requires that whatever was appended is SET key TAT PXAT expiry,
// and returns how often.
func requireOnlySets(t testing.TB, server *servertest.Server) (sets int) {
	t.Helper()
	for _, words := range servertest.WithoutTransactions(t, servertest.ReadAppendOnlyFile(t, server)) {
		if words[0] == "SELECT" {
			continue
		}
		require.Len(t, words, 5, "%q", words)
		require.Equal(t, []string{"SET", "PXAT"}, []string{words[0], words[3]}, "%q", words)
		sets++
	}
	require.Positive(t, sets)
	return sets
}

// TestDataLoadsWithoutTheModule, and is the same: whatever the server keeps.
func TestDataLoadsWithoutTheModule(t *testing.T) {
	for _, way := range []struct {
		name   string
		config []string
		finish func(client *redis.Client) // before the kill
	}{
		{"AOF, base as RDB", slices.Concat(appendAlways, preambles[0].config), nil},
		{"AOF, base as commands", slices.Concat(appendAlways, preambles[1].config), nil},
		{"RDB", []string{"--save", "3600", "1"}, func(client *redis.Client) { saveInBackground(t, client) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			tally := newTally(persistedFunnels)
			server := startPersistent(t, way.config)
			client := server.Client(t)
			load := tally.pour(t, server, 0)
			time.Sleep(servertest.QuickOrLong(100*time.Millisecond, 500*time.Millisecond))
			if way.finish == nil {
				rewriteAppendOnlyFile(t, client) // so that both parts count
			}
			time.Sleep(servertest.QuickOrLong(100*time.Millisecond, 500*time.Millisecond))
			load.stop(t)
			if way.finish != nil {
				way.finish(client)
			}
			want := tally.read(t, client)
			server.Kill()

			server.Reconfigure(func(options *servertest.Options) { options.Module = "" })
			server.Restart(t)
			client = server.Client(t)
			servertest.RequireError(t, client, "ERR unknown command", funnelKey(0), 1, 1, 1)
			tally.requireSame(t, want, tally.read(t, client), "the server without the module")
			server.Kill()

			server.Reconfigure(func(options *servertest.Options) { options.Module = servertest.Module(t) })
			server.Restart(t)
			tally.requireSame(t, want, tally.read(t, server.Client(t)), "the server with the module")
			require.Zero(t, tally.requireCounted(t, server.Client(t), tally.acknowledged()))
			t.Logf("%d funnels the same without the module; %v", inUse(want), tally.figures)
		})
	}
}

// TestSavingUnderLoadNeitherHangsNorCrashes: BGSAVE and BGREWRITEAOF in a loop
// under full load.
func TestSavingUnderLoadNeitherHangsNorCrashes(t *testing.T) {
	servertest.NeedSince7(t, "a count of snapshots in INFO")
	tally := newTally(persistedFunnels)
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: slices.Concat(persistentConfig(), appendEverySecond),
	})
	client := server.Client(t)
	savesBefore := servertest.InfoField(t, client, "persistence", "rdb_saves")
	rewritesBefore := servertest.InfoField(t, client, "persistence", "aof_rewrites")
	pid := server.Pid()

	load := tally.pour(t, server, 0)
	var rounds int64
	for start := time.Now(); time.Since(start) < servertest.QuickOrLong(800*time.Millisecond, 15*time.Second); rounds++ {
		saveInBackground(t, client)
		rewriteAppendOnlyFile(t, client)
	}
	load.stop(t)

	require.Equal(t, rounds, servertest.InfoField(t, client, "persistence", "rdb_saves")-savesBefore)
	require.Equal(t, rounds, servertest.InfoField(t, client, "persistence", "aof_rewrites")-rewritesBefore)
	require.Equal(t, pid, int(servertest.InfoField(t, client, "server", "process_id")))
	for _, trouble := range []string{"terminated by signal", "Background saving error", "rewrite terminated with error", "BUG REPORT"} {
		require.NotContains(t, server.Log(), trouble)
	}
	require.Zero(t, tally.requireCounted(t, client, tally.acknowledged()))
	t.Logf("%d BGSAVE and %d BGREWRITEAOF, every child ended well; %v", rounds, rounds, tally.figures)
}

// startPersistent starts a server with the module that keeps its data.
func startPersistent(t testing.TB, config []string, more ...string) *servertest.Server {
	t.Helper()
	return servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: slices.Concat(persistentConfig(), config, more),
	})
}

// persistentConfig lets a server notice at once that a child has ended, and leave
// it to the tests when it saves.
func persistentConfig() []string {
	return []string{"--hz", "100", "--auto-aof-rewrite-percentage", "0"}
}

// saveInBackground writes a snapshot, and requires that the child that does so
// ends well.
func saveInBackground(t testing.TB, client *redis.Client) {
	t.Helper()
	require.NoError(t, client.BgSave(context.Background()).Err())
	awaitChild(t, client, "rdb_bgsave_in_progress", "rdb_last_bgsave_status")
}

// rewriteAppendOnlyFile does the same for the append-only file.
func rewriteAppendOnlyFile(t testing.TB, client *redis.Client) {
	t.Helper()
	require.NoError(t, client.BgRewriteAOF(context.Background()).Err())
	awaitChild(t, client, "aof_rewrite_in_progress", "aof_last_bgrewrite_status")
}

func awaitChild(t testing.TB, client *redis.Client, inProgress, status string) {
	t.Helper()
	servertest.Eventually(t, "the child ends", func() bool { return servertest.InfoField(t, client, "persistence", inProgress) == 0 })
	info := client.Info(context.Background(), "persistence").Val()
	require.Contains(t, info, status+":ok")
	require.Contains(t, info, "aof_rewrite_scheduled:0")
}
