package model_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestNoInputBreaksTheServerOrItsAnswers is a fuzzer. It speaks to a real server
// as one client that calls CL.THROTTLE with all kinds of arguments, plainly, in
// transactions, scripts and functions, and works on the same keys with other
// commands; beside it, connections send bytes that are no commands. After each
// step, replies, values and expiries are compared with a model of the contract.
//
//	FUNNEL_FUZZ_TIME   how long, such as 20m
//	FUNNEL_FUZZ_SEED   repeats the run that failed
func TestNoInputBreaksTheServerOrItsAnswers(t *testing.T) {
	duration, err := time.ParseDuration(environment("FUNNEL_FUZZ_TIME", servertest.QuickOrLong("3s", "60s")))
	require.NoError(t, err)
	seed, err := strconv.ParseUint(environment("FUNNEL_FUZZ_SEED", fmt.Sprint(rand.Uint64())), 10, 64)
	require.NoError(t, err)

	fuzzer := newFuzzer(t, seed)
	defer func() {
		if t.Failed() {
			t.Logf("repeat this with FUNNEL_FUZZ_SEED=%d; step %d failed, the last to run:\n%s",
				seed, fuzzer.steps, strings.Join(fuzzer.history, "\n"))
		}
	}()
	for deadline := time.Now().Add(duration); time.Now().Before(deadline); {
		fuzzer.step()
	}

	t.Logf("seed %d: %d steps, %d commands in them, %d answers of CL.THROTTLE checked, %d connections with garbage",
		seed, fuzzer.steps, fuzzer.commands, fuzzer.model.answers(), fuzzer.garbage)
	for _, outcome := range slices.Sorted(maps.Keys(fuzzer.model.met)) {
		t.Logf("%9d %s", fuzzer.model.met[outcome], outcome)
	}
	// A fuzzer that has never met an outcome has not tested it.
	for _, outcome := range modelOutcomes {
		require.NotZero(t, fuzzer.model.met[outcome], "%q was never met", outcome)
	}
}

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

type fuzzer struct {
	t      *testing.T
	random *rand.Rand
	server *servertest.Server
	wire   *servertest.Wire
	model  *model

	denied map[string]bool // commands that a server out of memory denies
	full   bool            // the server is out of memory

	// One step: what to send, and what to expect.
	buffer   []byte
	sent     [][]string
	expected []any
	touched  map[string]bool // keys to read afterwards
	all      bool            // or all keys

	history                          []string
	steps, commands, garbage, member int
}

var fuzzKeys = []string{"a", "b", "", "\x00\xff\r\n", "漏斗:{tag}", "user:reply", strings.Repeat("k", 300)}

const fuzzLibrary = `#!lua name=fuzz
	local function run(_, words)
		local replies, at = {}, 1
		while at <= #words do
			local length = tonumber(words[at])
			replies[#replies + 1] = redis.pcall(unpack(words, at + 1, at + length))
			at = at + 1 + length
		end
		return replies
	end
	redis.register_function('run', run)`

// The same as a script, which receives its words as ARGV.
var fuzzScript = strings.NewReplacer(
	"#!lua name=fuzz", "", "redis.register_function('run', run)", "return run(KEYS, ARGV)",
).Replace(fuzzLibrary)

func newFuzzer(t *testing.T, seed uint64) *fuzzer {
	random := rand.New(rand.NewPCG(seed, 0))
	surplus := random.Int64N(2)
	server := servertest.Start(t, servertest.Options{
		Module:          servertest.DebugModule(t),
		ModuleArguments: []string{"compat", []string{"none", "redis-cell"}[surplus]},
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "no",
			"--auto-aof-rewrite-min-size", "1mb", "--databases", "2"},
	})
	f := &fuzzer{
		t:       t,
		random:  random,
		server:  server,
		wire:    server.Wire(t),
		model:   newModel(),
		denied:  map[string]bool{},
		touched: map[string]bool{},
	}
	f.model.surplus = surplus
	servertest.AwaitCron(t, server.Client(t)) // from then on the module stays
	for name := range modelCommands {
		reply, err := f.wire.Do("command", "info", name)
		require.NoError(t, err)
		f.denied[name] = strings.Contains(fmt.Sprint(reply), "denyoom")
	}
	require.True(t, f.denied["cl.throttle"] && f.denied["set"] && !f.denied["del"])

	f.send("OK", "acl", "setuser", "garbage", "on", ">garbage", "~garbage:*", "+@all", "-@dangerous", "-@admin", "-@keyspace", "+del")
	if servertest.Since7(t) {
		f.send("fuzz", "function", "load", fuzzLibrary)
	}
	f.send(f.model.now, "funnel.debug", "clock", fmt.Sprint(f.model.now))
	f.finish()
	return f
}

// send adds a command to the step.
func (f *fuzzer) send(expected any, words ...string) {
	f.sendSilently(words...)
	f.expected = append(f.expected, expected)
}

func (f *fuzzer) sendSilently(words ...string) {
	f.buffer = servertest.AppendCommand(f.buffer, words...)
	f.sent = append(f.sent, words)
}

// finish sends the step, and compares replies and keys with the model.
func (f *fuzzer) finish() {
	commands := len(f.sent)
	f.commands += commands
	f.readKeys()

	line := fmt.Sprintf("%d:", f.steps)
	for _, words := range f.sent[:commands] {
		line += fmt.Sprintf(" %.60q", words)
	}
	f.history = append(f.history[max(0, len(f.history)-20):], line)

	_, err := f.wire.Write(f.buffer)
	require.NoError(f.t, err)
	for i, expected := range f.expected {
		got := f.receive()
		if !agrees(expected, got) {
			f.t.Fatalf("reply %d of %d:\nexpected %.1000q\ngot      %.1000q\nall words %.2000q",
				i+1, len(f.expected), fmt.Sprint(expected), fmt.Sprint(got), f.sent)
		}
	}
	f.buffer, f.sent, f.expected, f.all = f.buffer[:0], f.sent[:0], f.expected[:0], false
	clear(f.touched)
}

// receive skips what client-side caching pushes.
func (f *fuzzer) receive() any {
	for {
		got, err := f.wire.Receive()
		require.NoError(f.t, err, "the server is gone or hangs")
		if _, push := got.(servertest.Push); !push {
			return got
		}
	}
}

// readKeys adds the commands that show what the keys hold.
func (f *fuzzer) readKeys() {
	if !f.all {
		for key := range f.touched {
			f.lookAt(key)
		}
		return
	}
	here := f.model.selected
	for database := range f.model.databases {
		f.send("OK", "select", strconv.Itoa(database))
		f.model.selected = database
		count := 0
		for _, key := range fuzzKeys {
			f.lookAt(key)
			if _, found := f.model.get(key); found {
				count++
			}
		}
		// Other numbers could be values of keys by mistake.
		f.send(int64(count), "eval", `
			local count = 0
			for _, key in ipairs(redis.call('keys', '*')) do
				if string.sub(key, 1, 8) ~= 'garbage:' then count = count + 1 end
			end
			return count`, "0")
	}
	f.send("OK", "select", strconv.Itoa(here))
	f.model.selected = here
}

func (f *fuzzer) lookAt(key string) {
	entry, found := f.model.get(key)
	if !found {
		f.send(int64(0), "exists", key)
		return
	}
	expiry := entry.expiry
	if expiry == noExpiry {
		expiry = -1
	}
	f.send(expiry, servertest.AskExpiry(f.t, key)...)
	switch entry.kind {
	case "string":
		f.send(entry.text, "get", key)
	case "list":
		f.send(entry.size, "llen", key)
	case "set":
		f.send(entry.size, "scard", key)
	case "hash":
		f.send(entry.size, "hlen", key)
	case "zset":
		f.send(entry.size, "zcard", key)
	case "stream":
		f.send(entry.size, "xlen", key)
	}
}

// checksArity reports whether the server itself checks the number of words of a call,
// before anything else. Redis 6.2 leaves that to the module.
func (f *fuzzer) checksArity(words []string) bool {
	return words[0] == "cl.throttle" && len(words) < 5 && servertest.Since7(f.t)
}

// apply runs a command on the model.
func (f *fuzzer) apply(words []string) any {
	name := words[0]
	switch {
	case strings.HasPrefix(name, "flush"):
		f.all = true
	case name == "object":
		f.touched[words[2]] = true
	case name == "rename", name == "copy":
		f.touched[words[2]] = true
		fallthrough
	default:
		if len(words) > 1 {
			f.touched[words[1]] = true
		}
	}
	if f.full && f.denied[name] && !f.checksArity(words) {
		return errorReplies{"OOM command not allowed when used memory > 'maxmemory'"}
	}
	if len(words) < 2 && name != "flushall" && name != "flushdb" {
		f.model.met[errArity]++
		return errorReplies{errArity}
	}
	return modelCommands[name](f.model, words)
}

// step is one of many kinds, most of which are about CL.THROTTLE.
func (f *fuzzer) step() {
	f.steps++
	f.model.instant = time.Now().UnixMilli()
	f.settle()

	if f.chance(0.02) {
		f.sendGarbage()
	}
	switch dice := f.random.Float64(); {
	case dice < 0.001:
		f.disturbServer()
	case dice < 0.004:
		f.all = true
	case dice < 0.006, f.full && dice < 0.1:
		f.memory()
	case dice < 0.03:
		f.session()
	case dice < 0.15:
		f.moveClock()
	case f.full || dice < 0.75:
		words := f.command()
		f.send(f.apply(words), words...)
	case dice < 0.82:
		f.transaction()
	case dice < 0.88:
		f.script("eval", fuzzScript)
	case dice < 0.93 && servertest.Since7(f.t):
		f.script("fcall", "run")
	case dice < 0.97:
		f.watch()
	default: // the reply is left out, the effect is not
		words := f.command()
		f.sendSilently("client", "reply", "skip")
		f.sendSilently(words...)
		f.apply(words)
	}
	f.finish()
}

// settle leaves out keys that expire about now, by the server's clock: whether they
// are still there would depend on how fast the test runs.
func (f *fuzzer) settle() {
	here := f.model.selected
	for database, entries := range f.model.databases {
		for key, entry := range entries {
			if entry.expiry > f.model.instant-60_000 && entry.expiry < f.model.instant+600_000 {
				f.model.selected = database
				f.send("OK", "select", strconv.Itoa(database))
				f.send(anything{}, "del", key)
				f.model.remove(key)
				f.send("OK", "select", strconv.Itoa(here))
			}
		}
	}
	f.model.selected = here
}

func (f *fuzzer) transaction() {
	queue := make([][]string, f.random.IntN(5)+1)
	aborted := false
	f.send("OK", "multi")
	for i := range queue {
		queue[i] = f.command()
		if f.checksArity(queue[i]) {
			aborted = true
			f.send(errorReplies{errArity}, queue[i]...)
		} else {
			f.send("QUEUED", queue[i]...)
		}
	}
	if f.chance(0.1) {
		f.send("OK", "discard")
		return
	}
	if aborted {
		f.send(errorReplies{"EXECABORT"}, "exec")
		return
	}
	var replies []any
	for _, words := range queue {
		replies = append(replies, f.apply(words))
	}
	f.send(replies, "exec")
}

// script runs commands inside Lua.
func (f *fuzzer) script(words ...string) {
	words = append(words, "0")
	var replies []any
	for range f.random.IntN(4) + 1 {
		command := f.command()
		words = append(append(words, strconv.Itoa(len(command))), command...)
		replies = append(replies, throughLua(f.apply(command)))
	}
	f.send(replies, words...)
}

// throughLua is what is left of a reply: Lua has no integers beyond 2^53.
func throughLua(reply any) any {
	const exact = 1 << 53
	switch reply := reply.(type) {
	case []any:
		converted := make([]any, len(reply))
		for i := range reply {
			converted[i] = throughLua(reply[i])
		}
		return converted
	case int64:
		if reply > exact || reply < -exact {
			return anything{}
		}
	}
	return reply
}

// watch checks that a call touches a watched key when it writes, and only then.
func (f *fuzzer) watch() {
	words := f.throttle()
	for len(words) < 2 {
		words = f.throttle()
	}
	written := f.model.met[metAllowed]
	f.send("OK", "watch", words[1])
	f.send(f.apply(words), words...)
	f.send("OK", "multi")
	f.send("QUEUED", "ping")
	if f.model.met[metAllowed] == written {
		f.send([]any{"PONG"}, "exec")
	} else {
		f.send(nil, "exec")
	}
}

func (f *fuzzer) moveClock() {
	m := f.model
	switch f.random.IntN(12) {
	case 0:
		m.now = pick(f, []int64{0, 1, 1e9, 1 << 53, 1 << 62, math.MaxInt64 - 1, math.MaxInt64})
	case 1:
		m.now = f.random.Int64()
	case 2:
		m.now = servertest.Epoch.UnixNano()
	case 3:
		m.now = max(0, m.now-int64(time.Hour))
	case 4:
		m.now += min(int64(time.Hour), math.MaxInt64-m.now)
	default:
		m.now += min(f.random.Int64N(int64(3*time.Second)), math.MaxInt64-m.now)
	}
	f.send(m.now, "funnel.debug", "clock", fmt.Sprint(m.now))
}

// session changes what a client or an operator may change at any time, and what
// must make no difference.
func (f *fuzzer) session() {
	switch f.random.IntN(8) {
	case 0:
		f.send(anything{}, "hello", pick(f, []string{"2", "3"}))
		f.send(anything{}, "client", "tracking", "off")
	case 1: // pushes need RESP3
		f.send(anything{}, "hello", "3")
		f.send("OK", "client", "tracking", "on")
	case 2:
		f.model.selected = f.random.IntN(2)
		f.send("OK", "select", strconv.Itoa(f.model.selected))
	case 3:
		f.model.databases[0], f.model.databases[1] = f.model.databases[1], f.model.databases[0]
		f.send("OK", "swapdb", "0", "1")
		f.all = true
	case 4:
		word := f.odd(f.positive)
		f.send(errorReplies{"ERR"}, append([]string{"config", "set"}, pick(f, [][]string{
			{"funnel.compat", "redis-cell"}, {"funnel.compat", word}, {"funnel." + word, "1"}, {word + "?", word},
		})...)...)
	default:
		settings := [][]string{
			{"hz", "100"}, {"hz", "10"},
			{"slowlog-log-slower-than", "0"}, {"slowlog-log-slower-than", "10000"},
			{"notify-keyspace-events", "KEA"}, {"notify-keyspace-events", ""},
			{"lazyfree-lazy-expire", "yes"}, {"lazyfree-lazy-expire", "no"},
			{"maxmemory-policy", "allkeys-lfu"}, {"maxmemory-policy", "volatile-lru"}, {"maxmemory-policy", "noeviction"},
			{"active-expire-effort", "10"}, {"active-expire-effort", "1"},
			{"tracking-table-max-keys", "1"}, {"tracking-table-max-keys", "1000000"},
			{"maxmemory-samples", "1"},
		}
		if servertest.Since7(f.t) {
			settings = append(settings, []string{"latency-tracking", "no"}, []string{"latency-tracking", "yes"})
		}
		setting := pick(f, settings)
		// Out of memory, a server with another policy evicts all keys.
		if !f.full || setting[0] != "maxmemory-policy" {
			f.send("OK", append([]string{"config", "set"}, setting...)...)
		}
	}
}

// memory lowers maxmemory below what the server uses, for a while.
func (f *fuzzer) memory() {
	if f.full = !f.full; f.full {
		f.send("OK", "config", "set", "maxmemory-policy", "noeviction")
		f.send("OK", "config", "set", "maxmemory", "1")
	} else {
		f.send("OK", "config", "set", "maxmemory", "0")
	}
}

// disturbServer does what takes the server long, and leaves the keys as they are.
func (f *fuzzer) disturbServer() {
	if f.full {
		f.memory()
	}
	f.all = true
	switch f.random.IntN(4) {
	case 0:
		f.send("OK", "debug", "reload")
	case 1: // what the log of effects says is what the model says
		f.send("OK", "debug", "loadaof")
	case 2:
		f.send(errorReplies{servertest.RefusedUnload}, "module", "unload", "funnel")
		f.send(errorReplies{"ERR Error loading the extension"}, "module", "load", servertest.DebugModule(f.t))
	case 3:
		f.send(anything{}, "script", "flush")
		f.send(anything{}, "memory", "purge")
		f.send(anything{}, "info", "everything")
		f.send(anything{}, "command")
		if servertest.Since7(f.t) {
			f.send(anything{}, "command", "docs")
		}
	}
}
