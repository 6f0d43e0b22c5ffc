package funnel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// startWithAndWithout starts a server with the module and one without, which is the
// measure of how a server behaves.
func startWithAndWithout(t testing.TB, config ...string) (with, without *servertest.Server) {
	t.Helper()
	config = append([]string{"--save", ""}, config...)
	with = servertest.Start(t, servertest.Options{Module: servertest.Module(t), Config: config})
	throttle(t, with.Client(t), "key", 15, 30, 60)
	without = servertest.Start(t, servertest.Options{Config: config})
	return with, without
}

// processStatus is what the system says of a process, or of a thread.
func processStatus(t testing.TB, process any) map[string]string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%v/status", process))
	require.NoError(t, err)
	fields := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// emulated tells whether a server runs under qemu, on a machine of another kind.
func emulated(t testing.TB, server *servertest.Server) bool {
	t.Helper()
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", server.Pid()))
	require.NoError(t, err)
	return strings.HasPrefix(filepath.Base(program), "qemu-")
}

// namelessThreads are the threads of a server, other than the main one, that bear
// its name: servers name theirs, but Go does not.
func namelessThreads(t testing.TB, server *servertest.Server) (threads []map[string]string) {
	t.Helper()
	main := processStatus(t, server.Pid())
	folders, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", server.Pid()))
	require.NoError(t, err)
	for _, folder := range folders {
		thread := processStatus(t, strings.TrimPrefix(folder, "/proc/"))
		if thread["Name"] == main["Name"] && thread["Pid"] != main["Pid"] {
			threads = append(threads, thread)
		}
	}
	return threads
}

// TestSignalDispositionsAreTheServersOwn: Go, which takes signals over when it
// starts, has given them all back.
func TestSignalDispositionsAreTheServersOwn(t *testing.T) {
	with, without := startWithAndWithout(t)
	got, want := processStatus(t, with.Pid()), processStatus(t, without.Pid())
	for _, field := range []string{"SigCgt", "SigIgn", "SigBlk"} {
		require.NotEmpty(t, want[field])
		require.Equal(t, want[field], got[field], field)
	}
}

// TestSignalHandlersRunOnTheServersStack, for which a crash report is made: servers
// give their main thread no signal stack, while Go gives one to whoever enters it.
func TestSignalHandlersRunOnTheServersStack(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	client := server.Client(t)
	throttle(t, client, "key", 15, 30, 60)
	size, err := client.Do(context.Background(), "funnel.debug", "signalstack").Int()
	require.NoError(t, err)
	require.Zero(t, size)
}

// TestSignalsNeverReachAThreadOfGo: its threads block what is sent to a process
// from outside, so that handlers run on threads of the server. Go insists on
// leaving open what a thread does to itself by a mistake, and SIGURG, SIGCHLD and
// SIGPROF, for which servers have no handlers.
func TestSignalsNeverReachAThreadOfGo(t *testing.T) {
	with, without := startWithAndWithout(t)
	if emulated(t, without) {
		t.Skip("the emulator has threads without names, too")
	}
	eventually(t, "all threads have names but those of Go", func() bool { return len(namelessThreads(t, without)) == 0 })
	client := with.Client(t)
	for call := range 1000 {
		throttle(t, client, call, 15, 30, 60)
	}

	threads := namelessThreads(t, with)
	t.Logf("%d threads of Go", len(threads))
	require.NotEmpty(t, threads)
	for _, thread := range threads {
		blocked, err := strconv.ParseUint(thread["SigBlk"], 16, 64)
		require.NoError(t, err)
		for _, signal := range []syscall.Signal{
			syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2,
			syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
			syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGVTALRM, syscall.SIGWINCH, syscall.SIGIO,
			syscall.SIGPWR, syscall.SIGSYS,
		} {
			require.NotZero(t, blocked&(1<<(signal-1)), "thread %s does not block %s", thread["Pid"], signal)
		}
	}
}

// TestOtherSignalsDoWhatTheyDoWithoutTheModule, be it nothing, be it the end.
func TestOtherSignalsDoWhatTheyDoWithoutTheModule(t *testing.T) {
	outcomes := func(options servertest.Options) map[syscall.Signal]string {
		outcomes := map[syscall.Signal]string{}
		server := servertest.Start(t, options)
		for _, signal := range []syscall.Signal{
			syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGURG, syscall.SIGCHLD, syscall.SIGWINCH, syscall.SIGCONT,
			syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPROF,
		} {
			wire, err := server.TryWire()
			require.NoError(t, err)
			require.NoError(t, server.Signal(signal))
			// A signal that ends the process is there before the command is.
			if reply, err := wire.Do("ping"); err == nil {
				require.Equal(t, "PONG", reply)
				outcomes[signal] = "goes on"
			} else {
				state, err := server.Wait()
				require.NoError(t, err)
				outcomes[signal] = state.String()
				server.Restart(t)
			}
			wire.Close()
		}
		return outcomes
	}
	want := outcomes(servertest.Options{})
	t.Log(want)
	require.Equal(t, want, outcomes(servertest.Options{Module: servertest.Module(t)}))
	require.Equal(t, "goes on", want[syscall.SIGHUP])
	require.Equal(t, "signal: user defined signal 1", want[syscall.SIGUSR1])
}

// A crashReport is what a server leaves behind.
type crashReport struct {
	text     string
	sections []string
	frames   int    // of the stack
	end      string // of the process
	whole    bool   // it goes on to its last line
}

var (
	crashHeading = regexp.MustCompile(`(?m)^------ (.*) ------`)
	crashFrame   = regexp.MustCompile(`(?m)^\S.*\[0x[0-9a-f]+\]$`)
)

func crash(t *testing.T, options servertest.Options, how func(server *servertest.Server)) crashReport {
	t.Helper()
	server := servertest.Start(t, options)
	if options.Module != "" {
		throttle(t, server.Client(t), "key", 15, 30, 60)
		untilIdle(t, server)
	}
	// A signal that comes while the server closes the connection on which it was
	// asked whether it is ready makes it crash again, when it lists its clients.
	reply, err := server.Wire(t).Do("ping")
	require.NoError(t, err)
	require.Equal(t, "PONG", reply)
	how(server)
	state, err := server.Wait()
	require.NoError(t, err)
	report := crashReport{text: server.Log(), end: state.String()}
	first, _, again := strings.Cut(report.text, "Crashed running signal handler")
	report.frames = len(crashFrame.FindAllString(first, -1))
	for _, heading := range crashHeading.FindAllStringSubmatch(first, -1) {
		report.sections = append(report.sections, heading[1])
	}
	report.whole = !again && strings.Contains(first, "BUG REPORT END")
	return report
}

// untilIdle waits until the threads of Go have gone to sleep for good.
func untilIdle(t testing.TB, server *servertest.Server) {
	t.Helper()
	before := -1
	require.Eventually(t, func() bool {
		last := before
		before = wakeUps(t, server)
		return before == last
	}, servertest.Patience, 30*time.Millisecond)
}

// wakeUps counts how often the threads of Go have gone to sleep until now.
func wakeUps(t testing.TB, server *servertest.Server) (sum int) {
	t.Helper()
	for _, thread := range namelessThreads(t, server) {
		switches, err := strconv.Atoi(thread["voluntary_ctxt_switches"])
		require.NoError(t, err)
		sum += switches
	}
	return sum
}

// TestCallsLetTheGoRuntimeSleep: neither calls that come one by one nor errors wake
// a thread of Go. One of them looks around every minute by itself.
func TestCallsLetTheGoRuntimeSleep(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.Module(t)})
	if emulated(t, server) {
		t.Skip("the emulator has threads without names, too")
	}
	client := server.Client(t)
	ctx := context.Background()
	untilIdle(t, server)

	const calls = 2000
	before := wakeUps(t, server)
	for call := range calls / 2 {
		throttle(t, client, call, 15, 30, 60)
		require.Error(t, client.Do(ctx, "cl.throttle", call, "x", 30, 60).Err())
	}
	after := wakeUps(t, server)
	t.Logf("%d calls, %d times a thread of Go went to sleep", calls, after-before)
	require.Less(t, after-before, calls/20)
}

// TestCrashReportsAreWhole: a server that crashes says as much about it as it
// does without the module, and about the module, too.
//
// The test of the memory at the end of a report is left out. It overwrites and
// restores all memory while other threads may be using it, so that no server gets
// through it every time, and fewer do with the threads of Go beside.
func TestCrashReportsAreWhole(t *testing.T) {
	for name, how := range map[string]func(server *servertest.Server){
		"DEBUG SEGFAULT": func(server *servertest.Server) { _, _ = server.Wire(t).Do("debug", "segfault") },
		"SIGABRT":        func(server *servertest.Server) { require.NoError(t, server.Signal(syscall.SIGABRT)) },
	} {
		t.Run(name, func(t *testing.T) {
			config := []string{"--save", "", "--crash-memcheck-enabled", "no"}
			// A server that collects the stacks of its threads may crash once more
			// in doing so, without the module, too (seen on Valkey 9, SIGABRT).
			attempts := func(options servertest.Options) (report crashReport) {
				for attempt := 0; attempt < 5 && !report.whole; attempt++ {
					report = crash(t, options, how)
				}
				return report
			}
			want := attempts(servertest.Options{Config: config})
			got := attempts(servertest.Options{Config: config, Module: servertest.Module(t)})
			t.Logf("%s, %d sections, %d stack frames", got.end, len(got.sections), got.frames)
			require.True(t, want.whole)
			require.True(t, got.whole)
			require.Equal(t, want.end, got.end)
			require.Equal(t, want.sections, got.sections)
			require.Contains(t, got.sections, "STACK TRACE")
			require.Contains(t, got.text, "BUG REPORT START")
			require.Contains(t, got.text, "funnel_calls_allowed:1", "INFO of the module")
			require.Greater(t, got.frames, 5)
			if name == "DEBUG SEGFAULT" { // a signal comes at any point
				// Newer servers show the stacks of their other threads, too,
				// which may be here or there.
				require.GreaterOrEqual(t, got.frames, want.frames/2)
			}
		})
	}
}

// TestSignalHandlersFindRoomDuringACall: a handler of the server runs on the stack
// of whatever it interrupts, so that must be the server's, during a call as well. The
// server's watchdog, whose handler prints a stack trace, is sent its signal again and
// again under load, while Go collects garbage and so makes use of what a handler that
// ran on a stack of Go's would have overwritten.
func TestSignalHandlersFindRoomDuringACall(t *testing.T) {
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	if emulated(t, server) {
		t.Skip("under qemu 7.2, so many signals end servers without the module, too: 3 of 90")
	}
	client := server.Client(t)
	require.NoError(t, client.ConfigSet(context.Background(), "watchdog-period", "600000").Err())

	deadline := time.Now().Add(quickOrLong(4*time.Second, 20*time.Second))
	ends := make(chan error, 2)
	repeat := func(batch int, words ...string) {
		wire, err := server.TryWire()
		if err == nil {
			defer wire.Close()
		}
		for err == nil && time.Now().Before(deadline) {
			err = callMany(wire, batch, func(int) []string { return words }, func(int, any) error { return nil })
		}
		ends <- err
	}
	// A refusal spends its time in Go, to put it into words.
	const most = "9223372036854775807"
	go repeat(1000, "cl.throttle", "key", most, most, "9223372036.854775807", most)
	go repeat(1, "funnel.debug", "collect")

	sent := 0
	for ; time.Now().Before(deadline) && len(ends) == 0; sent++ {
		require.NoError(t, server.Signal(syscall.SIGALRM))
		// Signals that are pending together count once.
		for isPending(t, server, syscall.SIGALRM) && time.Now().Before(deadline) {
			time.Sleep(100 * time.Microsecond)
		}
		// The handler takes its time, and calls are to be made, too.
		time.Sleep(500 * time.Microsecond)
	}
	require.NoError(t, <-ends)
	require.NoError(t, <-ends)
	require.Equal(t, "PONG", client.Ping(context.Background()).Val())
	log := server.Log()
	handled := strings.Count(log, "WATCHDOG TIMER EXPIRED") + strings.Count(log, "Received SIGALRM")
	t.Logf("%d signals sent, %d handled", sent, handled)
	require.Greater(t, handled, sent/10)
}

// isPending says whether a signal to a server has not been taken yet.
func isPending(t testing.TB, server *servertest.Server, signal syscall.Signal) bool {
	t.Helper()
	pending, err := strconv.ParseUint(processStatus(t, server.Pid())["ShdPnd"], 16, 64)
	require.NoError(t, err)
	return pending&(1<<(signal-1)) != 0
}

// TestSleepIsNoticed: time goes by for the funnels while the server does nothing.
func TestSleepIsNoticed(t *testing.T) {
	client := startFunnel(t)
	ctx := context.Background()
	commands, err := client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		// It would be gone after 0.4 seconds, by the server's clock.
		pipeline.Do(ctx, "cl.throttle", "key", 2, 1, "0.2", 2)
		pipeline.Do(ctx, "cl.throttle", "slow", 1, 1, 1000)
		pipeline.Do(ctx, "debug", "sleep", "0.25")
		pipeline.Do(ctx, "cl.throttle", "key", 2, 1, "0.2")
		pipeline.Do(ctx, "cl.throttle", "slow", 1, 1, 1000)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0}, limitedOf(t, commands[:2]))
	require.Equal(t, []int64{0, 1}, limitedOf(t, commands[3:]))
}

// TestReloadingKeepsFunnels, from a snapshot and from the log of effects.
func TestReloadingKeepsFunnels(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "no"},
	})
	client := server.Client(t)
	ctx := context.Background()
	const funnels = 1000
	for i := range funnels {
		throttle(t, client, fmt.Sprintf("key:%d", i), 15, 1, fmt.Sprintf("1000.%09d", i), i%15+1)
	}
	state := func() (state []string) {
		for i := range funnels {
			key := fmt.Sprintf("key:%d", i)
			state = append(state, fmt.Sprintf("%s %d", client.Get(ctx, key).Val(), expiryOf(t, client, key)))
		}
		return state
	}
	before := state()
	for _, how := range []string{"reload", "loadaof"} {
		require.NoError(t, client.Do(ctx, "debug", how).Err(), how)
		require.Equal(t, before, state(), how)
	}
	for i := range funnels {
		require.EqualValues(t, 14-i%15, throttle(t, client, fmt.Sprintf("key:%d", i), 15, 1, 1000, 0)[2])
	}
}

// TestDaemonize: the server forks, and the module works in what lives on.
func TestDaemonize(t *testing.T) {
	dir := t.TempDir()
	port, pidFile := servertest.FreePort(t), filepath.Join(dir, "pid")
	start := exec.Command(servertest.Program(), "--daemonize", "yes", "--pidfile", pidFile, "--save", "",
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--logfile", filepath.Join(dir, "log"),
		"--loadmodule", servertest.Module(t))
	output, err := start.CombinedOutput()
	require.NoError(t, err, string(output))

	pid := 0
	eventually(t, "the pid file is there", func() bool {
		content, _ := os.ReadFile(pidFile)
		pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
		return err == nil
	})
	// A process without a parent outlives the test, unless it is ended.
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	require.NotEqual(t, start.Process.Pid, pid)

	client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), MaxRetries: -1})
	defer client.Close()
	eventually(t, "the server answers", func() bool { return client.Ping(context.Background()).Err() == nil })
	require.EqualValues(t, pid, infoField(t, client, "server", "process_id"))
	require.Equal(t, reply{0, 15, 14, -1, 2}, throttle(t, client, "key", 15, 30, 60))

	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	eventually(t, "the process has ended", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(status), ") Z ") // nobody may ask for its end
	})
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "ready to exit")
	require.NoFileExists(t, pidFile)
}

// TestSupervisedBySystemd: systemd is told when the server is ready, and when it
// stops, by the messages that it is told without the module.
func TestSupervisedBySystemd(t *testing.T) {
	messages := func(module string) (messages []string) {
		folder, err := os.MkdirTemp("", "notify") // the name of a socket must be short
		require.NoError(t, err)
		defer os.RemoveAll(folder)
		path := filepath.Join(folder, "socket")
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		require.NoError(t, err)
		defer socket.Close()
		readUntil := func(end string) {
			buffer := make([]byte, 4096)
			require.NoError(t, socket.SetReadDeadline(time.Now().Add(servertest.Patience)))
			for {
				length, err := socket.Read(buffer)
				require.NoError(t, err, "%s never arrived, only %q", end, messages)
				messages = append(messages, strings.TrimSpace(string(buffer[:length])))
				if strings.Contains(messages[len(messages)-1], end) {
					return
				}
			}
		}

		server := servertest.Start(t, servertest.Options{
			Module:      module,
			Config:      []string{"--save", "", "--supervised", "systemd"},
			Environment: []string{"NOTIFY_SOCKET=" + path},
		})
		if strings.Contains(server.Log(), "compiled without libsystemd") {
			t.Skip("this server knows nothing of systemd")
		}
		readUntil("READY=1")
		if module != "" {
			throttle(t, server.Client(t), "key", 15, 30, 60)
		}
		require.NoError(t, server.Signal(syscall.SIGTERM))
		readUntil("STOPPING=1")
		return messages
	}
	want := messages("")
	t.Logf("%q", want)
	require.Equal(t, want, messages(servertest.Module(t)))
}

// TestWithIOThreads: threads that read and write for the server change nothing of
// what it answers.
func TestWithIOThreads(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: []string{"--save", "", "--io-threads", "4"},
	})
	client := server.Client(t)
	ctx := context.Background()
	require.Equal(t, "4", client.ConfigGet(ctx, "io-threads").Val()["io-threads"])
	// Where reading is for the main thread unless asked for, ask.
	_ = client.ConfigSet(ctx, "io-threads-do-reads", "yes")

	const clients, capacity = 50, 5000
	calls := quickOrLong(1_000, 20_000)
	type result struct {
		allowed int
		err     error
	}
	results := make(chan result, clients)
	start := time.Now()
	for range clients {
		wire := server.Wire(t)
		go func() {
			result := result{}
			result.err = callMany(wire, calls, func(int) []string {
				return []string{"cl.throttle", "key", strconv.Itoa(capacity), "1", "1000000"}
			}, func(_ int, got any) error {
				reply, ok := got.([]any)
				if !ok || len(reply) != 5 {
					return fmt.Errorf("answered %v", got)
				}
				result.allowed += 1 - int(reply[0].(int64))
				return nil
			})
			results <- result
		}()
	}
	allowed := 0
	for range clients {
		result := <-results
		require.NoError(t, result.err)
		allowed += result.allowed
	}
	t.Logf("%d calls of %d clients, %d per second", clients*calls, clients, callsPerSecond(clients*calls, start))
	require.Equal(t, capacity, allowed)
}

// TestClientsThatMustNotBeEvictedAreNot: a limiter's connection goes on where the
// server closes all others because clients use too much memory.
func TestClientsThatMustNotBeEvictedAreNot(t *testing.T) {
	server := servertest.Start(t, servertest.Options{
		Module: servertest.Module(t),
		Config: []string{"--save", "", "--maxmemory-clients", "1mb"},
	})
	const size = 3 << 20
	key := strings.Repeat("k", size)
	call := servertest.AppendCommand(nil, "cl.throttle", key, "15", "30", "60")
	start, rest := call[:size], call[size:]

	limiter := server.Wire(t)
	reply, err := limiter.Do("client", "no-evict", "on")
	require.NoError(t, err)
	require.Equal(t, "OK", reply)
	_, err = limiter.Write(start)
	require.NoError(t, err)

	victim := server.Wire(t)
	_, _ = victim.Write(start) // may be cut off in the middle of it
	_, err = victim.Receive()
	require.Error(t, err, "the other client was not evicted")
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the other client was not evicted")

	_, err = limiter.Write(rest)
	require.NoError(t, err)
	for remaining := int64(14); remaining > 10; remaining-- {
		got, err := limiter.Receive()
		require.NoError(t, err)
		require.Equal(t, remaining, got.([]any)[2])
		_, err = limiter.Write(call)
		require.NoError(t, err)
	}
	_, err = limiter.Receive()
	require.NoError(t, err)
	stats, err := limiter.Do("info", "stats")
	require.NoError(t, err)
	require.Regexp(t, "evicted_clients:[1-9]", stats)
}

// TestCachesAreInvalidatedByWritesOnly: a client that caches funnels hears of a
// call that wrote, once, and of no other call.
func TestCachesAreInvalidatedByWritesOnly(t *testing.T) {
	server := startServer(t)
	client := server.Client(t)
	silentCalls := func() {
		require.EqualValues(t, 1, throttle(t, client, "user:1", 1, 1, 1000)[0])
		require.EqualValues(t, 1, throttle(t, client, "user:1", 1, 1, 1000, 7)[0])
		throttle(t, client, "user:1", 9, 1, 1000, 0)
		throttle(t, client, "user:2", 9, 1, 1000, 0)
		requireError(t, client, "ERR", "user:1", "x", 1, 1000)
	}
	write := func() { require.EqualValues(t, 0, throttle(t, client, "user:1", 100, 1, 1000)[0]) }
	cache := func(t *testing.T, tracking ...string) func(words ...string) any {
		wire := server.Wire(t)
		receive := func(words ...string) any {
			if len(words) > 0 {
				_, err := wire.Write(servertest.AppendCommand(nil, words...))
				require.NoError(t, err)
			}
			got, err := wire.Receive()
			require.NoError(t, err)
			return got
		}
		receive("hello", "3")
		require.Equal(t, "OK", receive(append([]string{"client", "tracking", "on"}, tracking...)...))
		return receive
	}
	invalidation := servertest.Push{"invalidate", []any{"user:1"}}
	write()

	t.Run("of keys that it has read", func(t *testing.T) {
		receive := cache(t)
		require.NotEmpty(t, receive("get", "user:1"))
		silentCalls()
		require.Equal(t, "PONG", receive("ping"), "before any push")
		write()
		require.Equal(t, invalidation, receive())
		write()
		require.Equal(t, "PONG", receive("ping"), "it has not read the key again")
		require.NotEmpty(t, receive("get", "user:1"))
		write()
		require.Equal(t, invalidation, receive())
	})
	t.Run("of keys with a prefix", func(t *testing.T) {
		receive := cache(t, "bcast", "prefix", "user:")
		silentCalls()
		require.EqualValues(t, 0, throttle(t, client, "admin:1", 1, 1, 1000)[0])
		require.Equal(t, "PONG", receive("ping"), "before any push")
		for range 3 {
			write()
			require.Equal(t, invalidation, receive())
		}
	})
}
