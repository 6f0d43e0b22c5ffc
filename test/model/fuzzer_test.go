// No input breaks the server or its answers: replies, values and expiries are what the contract
// says, after any sequence of calls, transactions, scripts, reloads and other commands.

package model_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// TestNoInputBreaksTheServerOrItsAnswers is a fuzzer. It calls our commands on a real server with
// all kinds of arguments: directly, in transactions, in scripts, or by the client's script. It also
// changes the same keys by other commands. After each step, it compares replies, values and
// expiries with a model of the server.
//
//	FUNNEL_FUZZ_TIME   how long, such as 20m
//	FUNNEL_SEED        the seed of a run that failed, to repeat it
func TestNoInputBreaksTheServerOrItsAnswers(t *testing.T) {
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("FUNNEL_FUZZ_TIME"), servertest.QuickOrLong("3s", "90s")))
	require.NoError(t, err)
	seed := servertest.Seed(t)
	for compat, mode := range map[string]contract.Mode{"none": contract.Default, "redis-cell": contract.RedisCell} {
		options := servertest.Options{Module: servertest.DebugModule(t), ModuleArguments: []string{"compat", compat}}
		t.Run(compat, func(t *testing.T) { newFuzzer(t, seed, options, mode).run(duration / 3) })
	}
	t.Run("script", func(t *testing.T) { newFuzzer(t, seed, servertest.Options{}, contract.Default).run(duration / 3) })
}

func (f *fuzzer) run(duration time.Duration) {
	defer func() {
		if f.t.Failed() {
			f.t.Logf("step %d failed, the last to run:\n%s", f.steps, strings.Join(f.history, "\n"))
		}
	}()
	// A fuzzer that has never met an outcome has not tested it.
	deadline := time.Now().Add(duration)
	for time.Now().Before(deadline) || f.missing() != "" && time.Now().Before(deadline.Add(servertest.Patience)) {
		f.step()
	}
	f.t.Logf("%d steps, %d commands, of which %d succeeded with UNTIL +", f.steps, f.commands, f.model.windows())
	require.Empty(f.t, f.missing(), "never met")
}

// missing returns an outcome that no step has met yet, or an empty text.
func (f *fuzzer) missing() string {
	all := map[string]int{}
	for _, command := range contract.Commands {
		if command.Seconds && f.alone { // the script does not have it
			continue
		}
		met := f.model.met[command.Name]
		for outcome, count := range met {
			all[outcome] += count
		}
		for _, outcome := range outcomesOf(command) {
			if met[outcome] == 0 && (outcome != fromFirstCall || f.hasQuotas()) {
				return command.Name + " " + outcome
			}
		}
	}
	outcomes := slices.Concat(contract.Outcomes, contract.SlotsErrors)
	if f.hasQuotas() {
		outcomes = append(outcomes, contract.QuotaErrors...)
	}
	for _, outcome := range outcomes {
		if all[outcome] == 0 && (!f.alone || outcome != string(contract.ErrUsed)) { // too large for the script
			return outcome
		}
	}
	return ""
}

// hasQuotas reports whether the fuzzer makes calls with quotas: see decideByScript.
func (f *fuzzer) hasQuotas() bool { return !f.alone || servertest.Since7(f.t) }

// outcomesOf returns the outcomes of a command without errors.
func outcomesOf(command contract.Command) []string {
	outcomes, known := map[string][]string{
		"reserve": {contract.Allowed, contract.Limited, contract.Never},
		"take":    {contract.Allowed, contract.Partly, contract.Limited},
		"peek":    nil, "charge": {contract.Charged}, "refund": {contract.Refunded},
	}[command.Operation]
	if !known {
		panic("unknown operation: " + command.Operation)
	}
	if command.LastWord == "max_wait" {
		outcomes = append(outcomes, contract.Later)
	}
	if !command.Seconds && command.Operation != "refund" {
		outcomes = append(outcomes, fromFirstCall)
	}
	return append(outcomes, contract.Peeked)
}

type fuzzer struct {
	*words
	t      *testing.T
	wire   *servertest.Wire
	model  *server
	script string // its hash
	alone  bool   // the server lacks the module: the script decides all calls

	// One step: the commands to send, the replies to expect, and the keys to read afterwards.
	buffer   []byte
	sent     [][]string
	expected []any
	touched  map[string]bool

	history         []string
	steps, commands int
}

// fuzzScript executes commands, each with its number of words in front.
const fuzzScript = `
	local replies, at = {}, 1
	while at <= #ARGV do
		local length = tonumber(ARGV[at])
		replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, at + length))
		at = at + 1 + length
	end
	return replies`

func newFuzzer(t *testing.T, seed uint64, options servertest.Options, mode contract.Mode) *fuzzer {
	options.Config = []string{"--save", "", "--appendonly", "yes", "--appendfsync", "no",
		"--auto-aof-rewrite-min-size", "1mb"}
	running := servertest.Start(t, options)
	model := newServer(mode)
	f := &fuzzer{
		words:   &words{random: rand.New(rand.NewPCG(seed, 0)), now: &model.now, receipts: model.receipts},
		t:       t,
		wire:    running.Wire(t),
		model:   model,
		touched: map[string]bool{},
		alone:   options.Module == "",
	}
	const clock = "local clock = {table.remove(KEYS, 1), table.remove(KEYS, 1)}\n" // the time, from two keys
	script := clock + strings.ReplaceAll(limiter.Script(), "redis.call('TIME')", "clock")
	f.script = f.wire.MustDo(t, "script", "load", script).(string)
	f.setClock(f.model.now)
	f.finish()
	return f
}

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
	f.commands += len(f.sent)
	line := fmt.Sprintf("%d:", f.steps)
	for _, words := range f.sent {
		line += fmt.Sprintf(" %.60q", words)
	}
	f.history = append(f.history[max(0, len(f.history)-20):], line)

	for key := range f.touched {
		entry, found := f.model.get(key)
		switch {
		case !found:
			f.send(int64(0), "exists", key)
			continue
		case entry.Type == "list":
			f.send(entry.size, "llen", key)
		case entry.Type == "zset":
			f.sendSet(key, entry.Scores)
		default:
			f.send(entry.Text, "get", key)
		}
		f.send(cmp.Or(entry.Expiry, -1), servertest.AskExpiry(f.t, key)...)
	}
	_, err := f.wire.Write(f.buffer)
	require.NoError(f.t, err)
	for i, expected := range f.expected {
		got := f.receive()
		if !agrees(expected, got) {
			f.t.Fatalf("reply %d of %d is not that of the model, internal/contract:\n"+
				"expected %.1000q\ngot      %.1000q\nall words %.2000q",
				i+1, len(f.expected), fmt.Sprint(expected), fmt.Sprint(got), f.sent)
		}
	}
	f.buffer, f.sent, f.expected = f.buffer[:0], f.sent[:0], f.expected[:0]
	clear(f.touched)
}

// sendSet asks for the members of a set, one by one: replies of scores differ by protocol.
func (f *fuzzer) sendSet(key string, scores map[string]float64) {
	f.send(int64(len(scores)), "zcard", key)
	for member, score := range scores {
		from := strconv.FormatFloat(score, 'g', 17, 64)
		f.send([]any{member}, "eval", `local at = {}
			for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[1])) do
				if member == ARGV[2] then at[1] = member end
			end
			return at`, "1", key, from, member)
	}
}

// receive returns the next reply. It skips pushes, by which the server tells a client-side cache of
// changes.
func (f *fuzzer) receive() any {
	for {
		got, err := f.wire.Receive()
		require.NoError(f.t, err, "the server is gone or hangs")
		_, push := got.(servertest.Push)
		if !push {
			return got
		}
	}
}

func (f *fuzzer) apply(words []string) any {
	for _, key := range keysOf(words) {
		f.touched[key] = true
	}
	return f.model.apply(words)
}

// step does something at random. Most steps send the module's commands.
func (f *fuzzer) step() {
	f.steps++
	f.model.instant = time.Now().UnixMilli()
	f.settle()

	dice := f.random.Float64()
	switch {
	case dice < 0.002:
		f.lookAtAll()
	case dice < 0.03:
		f.session()
	case dice < 0.15:
		f.moveClock()
	case f.alone || dice < 0.3:
		f.decideByScript(f.command())
	case dice < 0.79:
		words := f.command()
		f.send(f.apply(words), words...)
	case dice < 0.86:
		f.transaction()
	case dice < 0.97:
		f.inLua()
	default: // the server sends no reply
		words := f.command()
		f.sendSilently("client", "reply", "skip")
		f.sendSilently(words...)
		f.apply(words)
	}
	f.finish()
}

func (f *fuzzer) transaction() {
	queue := make([][]string, f.random.IntN(5)+1)
	aborted := false
	f.send("OK", "multi")
	for i := range queue {
		queue[i] = f.command()
		words := queue[i]
		// Redis 6.2 does not check the number of words. Newer servers know the least number for
		// each command, and the exact number for CL.TAKE.
		command, ours := contract.CommandOf(words[0])
		miscounted := len(words) < command.MinWords || command.Operation == "take" && len(words) > command.MinWords
		if ours && miscounted && servertest.Since7(f.t) {
			aborted = true
			f.send(failure(contract.ErrArity), words...)
		} else {
			f.send("QUEUED", words...)
		}
	}
	switch {
	case f.chance(0.1):
		f.send("OK", "discard")
	case aborted:
		f.send(failure("EXECABORT"), "exec")
	default:
		var replies []any
		for _, words := range queue {
			replies = append(replies, f.apply(words))
		}
		f.send(replies, "exec")
	}
}

// decideByScript makes a call by the script. It accepts errors about numbers that are too large for
// the script, and leaves out quotas before Redis 7.0, where the script knows the end of a period
// only roughly.
func (f *fuzzer) decideByScript(words []string) {
	now := f.model.now
	f.model.now -= now % 1e3
	defer func() { f.model.now = now }()
	isUntil := func(word string) bool { return strings.EqualFold(word, "until") }
	if !servertest.Since7(f.t) && slices.ContainsFunc(words, isUntil) {
		return
	}
	if len(words) > 1 && f.chance(0.7) { // so one key has a long history
		words[1] = fuzzKeys[0]
	}
	call, rows := words, (len(words)-1)/5
	command, ours := contract.CommandOf(words[0])
	if ours {
		if command.Seconds || rows == 0 || len(words) > 2+5*rows {
			return
		}
		call = []string{"evalsha", f.script, strconv.Itoa(2 + rows), strconv.FormatInt(f.model.now/1e9, 10),
			strconv.FormatInt(f.model.now%1e9/1e3, 10)}
		arguments := []string{command.Operation}
		for row := range slices.Chunk(words[1:1+5*rows], 5) {
			call, arguments = append(call, row[0]), append(arguments, row[1:]...)
		}
		call = slices.Concat(call, arguments, words[1+5*rows:])
	}
	f.finish() // the commands that this step has sent already
	f.sendSilently(call...)
	_, err := f.wire.Write(f.buffer)
	require.NoError(f.t, err)
	f.buffer = f.buffer[:0]
	got := f.receive()
	text, _ := got.(servertest.ErrorReply)
	if strings.Contains(string(text), " for the script: ") {
		return
	}
	expected := throughLua(f.apply(words))
	if !agrees(expected, got) {
		f.t.Fatalf("the script's reply to %.2000q is %q, not %q", words, got, expected)
	}
}

func (f *fuzzer) inLua() {
	words, replies := []string{"eval", fuzzScript, "0"}, []any{}
	for range f.random.IntN(4) + 1 {
		command := f.command()
		words = append(append(words, strconv.Itoa(len(command))), command...)
		replies = append(replies, throughLua(f.apply(command)))
	}
	f.send(replies, words...)
}

// throughLua returns a reply as it arrives through Lua. Lua rounds integers beyond 2^53, and the
// script replies large integers as text, so any reply counts as right for a large integer.
func throughLua(reply any) any {
	const exact = 1e15
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
