package funnel_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"regexp"
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
	duration, err := time.ParseDuration(environment("FUNNEL_FUZZ_TIME", quickOrLong("3s", "60s")))
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

// ---- The model: what a server answers and holds, by the contract. ----

const noExpiry = math.MinInt64

// A modelEntry is what a key holds.
type modelEntry struct {
	kind   string // as TYPE names it
	text   string // of a string
	size   int64  // how many elements, of anything else
	expiry int64  // Unix milliseconds, or noExpiry
}

// A model follows a server. Its commands take the words of a command and return
// the reply: nil, int64, string, []any, or refusals or anything.
type model struct {
	databases [2]map[string]modelEntry
	selected  int
	now       int64 // nanoseconds, by the clock of the module
	surplus   int64 // limit minus capacity
	instant   int64 // milliseconds, by the clock of the server
	met       map[string]int
}

// Refusals are what an error reply may begin with, whatever the case: the
// contract leaves open which of several wrong arguments an error names.
type refusals []string

// Anything stands for a reply that is no business of the model.
type anything struct{}

func newModel() *model {
	return &model{
		databases: [2]map[string]modelEntry{{}, {}},
		now:       epoch.UnixNano(),
		met:       map[string]int{},
	}
}

// What the model counts, and a fuzzer has to meet.
const (
	metAllowed = "allowed"
	metLimited = "limited"
	metNever   = "limited for ever"
	metLooked  = "looked"

	refusedArity     = "ERR wrong number of arg"
	refusedCapacity  = "ERR capacity must be"
	refusedCount     = "ERR count must be"
	refusedPeriod    = "ERR period must be"
	refusedQuantity  = "ERR quantity must be"
	refusedInterval  = "ERR count is too large for period"
	refusedTolerance = "ERR capacity and period are too large together"
	refusedIncrement = "ERR quantity and period are too large together"
	refusedValue     = "ERR the key does not hold a funnel"
	refusedType      = "WRONGTYPE Operation against a key holding the wrong kind of value"
)

var modelOutcomes = []string{
	metAllowed, metLimited, metNever, metLooked,
	refusedArity, refusedCapacity, refusedCount, refusedPeriod, refusedQuantity,
	refusedInterval, refusedTolerance, refusedIncrement, refusedValue, refusedType,
}

func (m *model) answers() (sum int) {
	for _, outcome := range modelOutcomes {
		sum += m.met[outcome]
	}
	return sum
}

// get finds what is there for a client: not what has expired.
func (m *model) get(key string) (modelEntry, bool) {
	entry, found := m.databases[m.selected][key]
	if found && entry.expiry != noExpiry && entry.expiry < m.instant {
		delete(m.databases[m.selected], key)
		return modelEntry{}, false
	}
	return entry, found
}

func (m *model) put(key string, entry modelEntry) { m.databases[m.selected][key] = entry }

func (m *model) remove(key string) (removed int64) {
	if _, found := m.get(key); found {
		removed = 1
	}
	delete(m.databases[m.selected], key)
	return removed
}

// The numbers of the contract, written as the server writes them.
var (
	integerPattern = regexp.MustCompile(`\A(0|[1-9][0-9]*)\z`)
	decimalPattern = regexp.MustCompile(`\A(0|[1-9][0-9]*)(\.[0-9]{1,9})?\z`)
	biggest        = big.NewInt(math.MaxInt64)
)

// integerFrom reads an integer from lowest to 2^63-1; it returns nil for others.
func integerFrom(lowest int64, text string) *big.Int {
	if !integerPattern.MatchString(text) {
		return nil
	}
	number, ok := new(big.Int).SetString(text, 10)
	if !ok || number.Cmp(big.NewInt(lowest)) < 0 || number.Cmp(biggest) > 0 {
		return nil
	}
	return number
}

// nanosecondsFrom reads seconds above 0; it returns nil for anything else.
func nanosecondsFrom(text string) *big.Int {
	if !decimalPattern.MatchString(text) {
		return nil
	}
	seconds, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	nanoseconds := seconds.Mul(seconds, big.NewRat(1e9, 1)).Num()
	if nanoseconds.Sign() == 0 || nanoseconds.Cmp(biggest) > 0 {
		return nil
	}
	return nanoseconds
}

func (m *model) throttle(words []string) any {
	reply, met := m.decide(words)
	for _, outcome := range met {
		m.met[outcome]++
	}
	return reply
}

// decide follows the contract from top to bottom, in integers without bounds.
func (m *model) decide(words []string) (reply any, met []string) {
	if len(words) < 5 || len(words) > 6 {
		return refusals{refusedArity}, []string{refusedArity}
	}
	var complaints refusals
	complain := func(wrong bool, complaint string) {
		if wrong {
			complaints = append(complaints, complaint)
		}
	}

	capacity := integerFrom(1-m.surplus, words[2])
	count := integerFrom(1, words[3])
	period := nanosecondsFrom(words[4])
	quantity := big.NewInt(1)
	if len(words) == 6 {
		quantity = integerFrom(0, words[5])
	}
	complain(capacity == nil, refusedCapacity)
	complain(count == nil, refusedCount)
	complain(period == nil, refusedPeriod)
	complain(quantity == nil, refusedQuantity)

	now, tat := big.NewInt(m.now), big.NewInt(m.now)
	entry, found := m.get(words[1])
	if found {
		switch {
		case entry.kind != "string":
			complain(true, refusedType)
		default:
			tat = integerFrom(0, entry.text)
			complain(tat == nil, refusedValue)
		}
	}

	var limit, T, tau, increment *big.Int
	if count != nil && period != nil {
		T = new(big.Int).Quo(period, count)
		complain(T.Sign() == 0, refusedInterval)
	}
	if T != nil && T.Sign() > 0 && capacity != nil {
		limit = new(big.Int).Add(capacity, big.NewInt(m.surplus))
		tau = new(big.Int).Mul(T, limit)
		complain(tau.Cmp(biggest) > 0 || limit.Cmp(biggest) > 0, refusedTolerance)
	}
	if T != nil && T.Sign() > 0 && quantity != nil {
		increment = new(big.Int).Mul(T, quantity)
		complain(increment.Cmp(biggest) > 0, refusedIncrement)
	}
	if complaints != nil {
		// With an interval of 0, the limit can be beyond 63 bits as well.
		complain(T != nil && T.Sign() == 0 && capacity != nil && m.surplus > 0 && capacity.Cmp(biggest) == 0,
			refusedTolerance)
		return complaints, complaints[:1]
	}

	later := now
	if tat.Cmp(now) > 0 {
		later = tat
	}
	next := new(big.Int).Add(later, increment)
	wait := new(big.Int).Sub(next, tau)
	wait.Sub(wait, now)

	if wait.Sign() > 0 {
		level := new(big.Int).Sub(later, now)
		if increment.Cmp(tau) > 0 {
			return []any{int64(1), limit.Int64(), remaining(tau, level, T), int64(-1), secondsUp(level)}, []string{metNever}
		}
		return []any{int64(1), limit.Int64(), remaining(tau, level, T), secondsUp(wait), secondsUp(level)}, []string{metLimited}
	}
	if next.Cmp(biggest) > 0 {
		return refusals{refusedIncrement}, []string{refusedIncrement}
	}
	met = []string{metLooked}
	if quantity.Sign() > 0 {
		met = []string{metAllowed}
		m.put(words[1], modelEntry{kind: "string", text: next.String(), expiry: divideUp(next, 1e6)})
	}
	level := new(big.Int).Sub(next, now)
	return []any{int64(0), limit.Int64(), remaining(tau, level, T), int64(-1), secondsUp(level)}, met
}

func remaining(tau, level, T *big.Int) int64 {
	room := new(big.Int).Sub(tau, level)
	if room.Sign() < 0 {
		return 0
	}
	return room.Quo(room, T).Int64()
}

func secondsUp(nanoseconds *big.Int) int64 { return divideUp(nanoseconds, 1e9) }

func divideUp(number *big.Int, unit int64) int64 {
	quotient, rest := new(big.Int).QuoRem(number, big.NewInt(unit), new(big.Int))
	return quotient.Int64() + int64(rest.Sign())
}

// The other commands that a fuzzer uses, as far as it uses them.
var modelCommands = map[string]func(m *model, words []string) any{
	"cl.throttle": (*model).throttle,

	"get": func(m *model, words []string) any {
		entry, found := m.get(words[1])
		switch {
		case !found:
			return nil
		case entry.kind != "string":
			return refusals{refusedType}
		}
		return entry.text
	},

	// SET key value [KEEPTTL | PXAT milliseconds | NX | XX]
	"set": func(m *model, words []string) any {
		entry, found := m.get(words[1])
		expiry := int64(noExpiry)
		if len(words) > 3 {
			switch words[3] {
			case "keepttl":
				if found {
					expiry = entry.expiry
				}
			case "pxat":
				expiry = mustParse(words[4])
			case "nx", "xx":
				if found == (words[3] == "nx") {
					return nil
				}
			}
		}
		m.put(words[1], modelEntry{kind: "string", text: words[2], expiry: expiry})
		return "OK"
	},

	"append": func(m *model, words []string) any {
		return m.changeString(words[1], func(text string) (string, any) {
			text += words[2]
			return text, int64(len(text))
		})
	},

	"incrby": func(m *model, words []string) any {
		return m.changeString(words[1], func(text string) (string, any) {
			if text == "" {
				if _, found := m.get(words[1]); found {
					return text, refusals{"ERR value is not an integer"}
				}
				text = "0"
			}
			number, err := strconv.ParseInt(text, 10, 64)
			if err != nil || strconv.FormatInt(number, 10) != text {
				return text, refusals{"ERR value is not an integer"}
			}
			step := mustParse(words[2])
			sum := new(big.Int).Add(big.NewInt(number), big.NewInt(step))
			if !sum.IsInt64() {
				return text, refusals{"ERR increment or decrement would overflow"}
			}
			return sum.String(), sum.Int64()
		})
	},

	"setrange": func(m *model, words []string) any {
		return m.changeString(words[1], func(text string) (string, any) {
			start := int(mustParse(words[2]))
			bytes := append([]byte(text), make([]byte, max(0, start+len(words[3])-len(text)))...)
			copy(bytes[start:], words[3])
			return string(bytes), int64(len(bytes))
		})
	},

	"getdel": func(m *model, words []string) any {
		entry, found := m.get(words[1])
		switch {
		case !found:
			return nil
		case entry.kind != "string":
			return refusals{refusedType}
		}
		m.remove(words[1])
		return entry.text
	},

	"del":    func(m *model, words []string) any { return m.remove(words[1]) },
	"unlink": func(m *model, words []string) any { return m.remove(words[1]) },

	"pexpireat": func(m *model, words []string) any {
		entry, found := m.get(words[1])
		if !found {
			return int64(0)
		}
		if entry.expiry = mustParse(words[2]); entry.expiry <= m.instant {
			m.remove(words[1])
		} else {
			m.put(words[1], entry)
		}
		return int64(1)
	},

	"persist": func(m *model, words []string) any {
		entry, found := m.get(words[1])
		if !found || entry.expiry == noExpiry {
			return int64(0)
		}
		entry.expiry = noExpiry
		m.put(words[1], entry)
		return int64(1)
	},

	"rename": func(m *model, words []string) any {
		entry, found := m.get(words[1])
		if !found {
			return refusals{"ERR no such key"}
		}
		m.remove(words[1])
		m.put(words[2], entry)
		return "OK"
	},

	"copy": func(m *model, words []string) any { // COPY source destination REPLACE
		if words[1] == words[2] {
			return refusals{"ERR source and destination objects are the same"}
		}
		entry, found := m.get(words[1])
		if !found {
			return int64(0)
		}
		m.put(words[2], entry)
		return int64(1)
	},

	"move": func(m *model, words []string) any {
		other := int(mustParse(words[2]))
		if other == m.selected {
			return refusals{"ERR source and destination objects are the same"}
		}
		entry, found := m.get(words[1])
		if !found {
			return int64(0)
		}
		here := m.selected
		m.selected = other
		_, taken := m.get(words[1])
		if !taken {
			m.put(words[1], entry)
		}
		if m.selected = here; taken {
			return int64(0)
		}
		m.remove(words[1])
		return int64(1)
	},

	"lpush": func(m *model, words []string) any {
		entry, refusal := m.grow(words[1], "list")
		if refusal != nil {
			return refusal
		}
		return entry.size
	},
	"lpop": func(m *model, words []string) any {
		entry, found := m.get(words[1])
		switch {
		case !found:
			return nil
		case entry.kind != "list":
			return refusals{refusedType}
		}
		if entry.size--; entry.size == 0 {
			m.remove(words[1])
		} else {
			m.put(words[1], entry)
		}
		return anything{}
	},
	"sadd": addOne("set"),
	"hset": addOne("hash"),
	"zadd": addOne("zset"),
	"xadd": func(m *model, words []string) any {
		if _, refusal := m.grow(words[1], "stream"); refusal != nil {
			return refusal
		}
		return anything{}
	},

	"type": func(m *model, words []string) any {
		entry, found := m.get(words[1])
		if !found {
			return "none"
		}
		return entry.kind
	},
	"object": func(m *model, words []string) any { return anything{} },

	"flushall": func(m *model, words []string) any {
		clear(m.databases[0])
		clear(m.databases[1])
		return "OK"
	},
	"flushdb": func(m *model, words []string) any {
		clear(m.databases[m.selected])
		return "OK"
	},
}

// changeString changes the string at a key, "" if there is none, and leaves its
// expiry alone. Nothing changes when the function returns refusals.
func (m *model) changeString(key string, change func(text string) (string, any)) any {
	entry, found := m.get(key)
	if found && entry.kind != "string" {
		return refusals{refusedType}
	}
	if !found {
		entry = modelEntry{kind: "string", expiry: noExpiry}
	}
	text, reply := change(entry.text)
	if _, refused := reply.(refusals); !refused {
		entry.text = text
		m.put(key, entry)
	}
	return reply
}

// grow adds an element to a key that has none or the kind.
func (m *model) grow(key, kind string) (modelEntry, any) {
	entry, found := m.get(key)
	if found && entry.kind != kind {
		return entry, refusals{refusedType}
	}
	if !found {
		entry = modelEntry{kind: kind, expiry: noExpiry}
	}
	entry.size++
	m.put(key, entry)
	return entry, nil
}

func addOne(kind string) func(m *model, words []string) any {
	return func(m *model, words []string) any {
		if _, refusal := m.grow(words[1], kind); refusal != nil {
			return refusal
		}
		return int64(1)
	}
}

func mustParse(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

// agrees says whether a reply is the expected one.
func agrees(expected, got any) bool {
	switch expected := expected.(type) {
	case anything:
		_, refused := got.(servertest.ErrorReply)
		return !refused
	case refusals:
		text, refused := got.(servertest.ErrorReply)
		return refused && slices.ContainsFunc(expected, func(prefix string) bool {
			return len(text) >= len(prefix) && strings.EqualFold(string(text[:len(prefix)]), prefix)
		})
	case []any:
		replies, ok := got.([]any)
		if !ok || len(replies) != len(expected) {
			return false
		}
		for i := range expected {
			if !agrees(expected[i], replies[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(expected, got)
}

// ---- The fuzzer: random steps, on the server and on the model. ----

type fuzzer struct {
	t      *testing.T
	random *rand.Rand
	server *servertest.Server
	wire   *servertest.Wire
	model  *model

	denied map[string]bool // commands that a server out of memory refuses
	full   bool            // the server is out of memory

	// One step: what to send, and what to expect.
	buffer   []byte
	sent     [][]string
	expected []any
	touched  map[string]bool // keys to look at afterwards
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
	server := servertest.Start(t, servertest.Options{
		Module: servertest.DebugModule(t),
		Config: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "no",
			"--auto-aof-rewrite-min-size", "1mb", "--databases", "2"},
	})
	f := &fuzzer{
		t:       t,
		random:  rand.New(rand.NewPCG(seed, 0)),
		server:  server,
		wire:    server.Wire(t),
		model:   newModel(),
		denied:  map[string]bool{},
		touched: map[string]bool{},
	}
	for name := range modelCommands {
		reply, err := f.wire.Do("command", "info", name)
		require.NoError(t, err)
		f.denied[name] = strings.Contains(fmt.Sprint(reply), "denyoom")
	}
	require.True(t, f.denied["cl.throttle"] && f.denied["set"] && !f.denied["del"])

	f.send("OK", "acl", "setuser", "garbage", "on", ">garbage", "~garbage:*", "+@all", "-@dangerous", "-@admin", "-@keyspace", "+del")
	f.send("fuzz", "function", "load", fuzzLibrary)
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
	f.look()

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

// look adds the commands that show what the keys hold.
func (f *fuzzer) look() {
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
		// Others would be in keys that nobody meant to write.
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
	f.send(expiry, "pexpiretime", key)
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
	if f.full && f.denied[name] && (name != "cl.throttle" || len(words) >= 5) {
		return refusals{"OOM command not allowed when used memory > 'maxmemory'"}
	}
	if len(words) < 2 && name != "flushall" && name != "flushdb" {
		f.model.met[refusedArity]++
		return refusals{refusedArity}
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
	case dice < 0.93:
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

// settle takes keys out of the game that expire about now, by the server's clock:
// whether they are still there would depend on how fast everybody is.
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
		if name := queue[i][0]; name == "cl.throttle" && len(queue[i]) < 5 {
			aborted = true
			f.send(refusals{refusedArity}, queue[i]...)
		} else {
			f.send("QUEUED", queue[i]...)
		}
	}
	if f.chance(0.1) {
		f.send("OK", "discard")
		return
	}
	if aborted {
		f.send(refusals{"EXECABORT"}, "exec")
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
		m.now = epoch.UnixNano()
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
		f.send(refusals{"ERR"}, append([]string{"config", "set"}, pick(f, [][]string{
			{"funnel.compat", "redis-cell"}, {"funnel.compat", word}, {"funnel." + word, "1"}, {word + "?", word},
		})...)...)
	default:
		setting := pick(f, [][]string{
			{"hz", "100"}, {"hz", "10"},
			{"slowlog-log-slower-than", "0"}, {"slowlog-log-slower-than", "10000"},
			{"notify-keyspace-events", "KEA"}, {"notify-keyspace-events", ""},
			{"lazyfree-lazy-expire", "yes"}, {"lazyfree-lazy-expire", "no"},
			{"maxmemory-policy", "allkeys-lfu"}, {"maxmemory-policy", "volatile-lru"}, {"maxmemory-policy", "noeviction"},
			{"latency-tracking", "no"}, {"latency-tracking", "yes"},
			{"active-expire-effort", "10"}, {"active-expire-effort", "1"},
			{"tracking-table-max-keys", "1"}, {"tracking-table-max-keys", "1000000"},
			{"maxmemory-samples", "1"},
		})
		// Out of memory, a server with another policy evicts all keys.
		if !f.full || setting[0] != "maxmemory-policy" {
			f.send("OK", append([]string{"config", "set"}, setting...)...)
		}
	}
}

// memory takes the server's memory away for a while.
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
		compat := pick(f, [][]string{{}, {"compat", "none"}, {"compat", "redis-cell"}})
		f.model.surplus = 0
		if slices.Contains(compat, "redis-cell") {
			f.model.surplus = 1
		}
		// Servers that look ahead in a pipeline (Redis 8.4, Valkey 9) find commands
		// before they are unloaded or loaded, whatever the module.
		f.all = false
		f.send("OK", "module", "unload", "funnel")
		f.finish()
		f.send(refusals{"ERR unknown command"}, "cl.throttle", "a", "1", "1", "1")
		f.send("OK", append([]string{"module", "load", servertest.DebugModule(f.t)}, compat...)...)
		f.finish()
		f.all = true
		f.send(f.model.now, "funnel.debug", "clock", fmt.Sprint(f.model.now))
	case 3:
		f.send(anything{}, "script", "flush")
		f.send(anything{}, "memory", "purge")
		f.send(anything{}, "info", "everything")
		f.send(anything{}, "command", "docs")
	}
}

// command makes a command, most often CL.THROTTLE.
func (f *fuzzer) command() []string {
	if f.chance(0.65) {
		return f.throttle()
	}
	key := pick(f, fuzzKeys)
	f.member++
	member := strconv.Itoa(f.member)
	name := pick(f, fuzzNames)
	switch name {
	case "set":
		return append([]string{name, key, f.value()}, pick(f, [][]string{
			nil, {"nx"}, {"xx"}, {"keepttl"}, {"pxat", f.expiry()},
		})...)
	case "append":
		return []string{name, key, pick(f, []string{"", "0", "x", "7", f.value()})}
	case "incrby":
		return []string{name, key, pick(f, []string{"0", "1", "-1", "1000000000", "-9223372036854775807", "9223372036854775807"})}
	case "setrange":
		return []string{name, key, strconv.Itoa(f.random.IntN(25)), strconv.Itoa(f.random.IntN(10))}
	case "pexpireat":
		return []string{name, key, f.expiry()}
	case "rename":
		return []string{name, key, pick(f, fuzzKeys)}
	case "copy":
		return []string{name, key, pick(f, fuzzKeys), "replace"}
	case "lpush", "sadd":
		return []string{name, key, member}
	case "hset":
		return []string{name, key, member, "value"}
	case "zadd":
		return []string{name, key, "1", member}
	case "xadd":
		return []string{name, key, "*", "field", member}
	case "object":
		return []string{"type", key}
	case "flush":
		if f.chance(0.9) {
			return []string{"get", key}
		}
		return []string{pick(f, []string{"flushall", "flushdb"}), pick(f, []string{"sync", "async"})}
	}
	return []string{name, key}
}

var fuzzNames = []string{
	"get", "set", "set", "set", "append", "incrby", "setrange", "getdel", "del", "del", "del", "unlink", "pexpireat",
	"persist", "rename", "copy", "lpush", "lpop", "sadd", "hset", "zadd", "xadd", "type", "object", "flush",
}

// value makes a string to find where a funnel is expected.
func (f *fuzzer) value() string {
	now := big.NewInt(f.model.now)
	switch f.random.IntN(6) {
	case 0:
		return pick(f, []string{"", "0", "00", "-1", "+1", " 1", "1 ", "1.0", "1e3", "abc", "\x00", "0x10", "１２",
			"9223372036854775807", "9223372036854775808", "18446744073709551616", strings.Repeat("9", 5000),
			"HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"})
	case 1:
		return strconv.FormatInt(f.scaled(), 10)
	default: // a TAT from about now to some minutes ahead
		return now.Add(now, big.NewInt(f.random.Int64N(int64(5*time.Minute))-int64(time.Minute))).String()
	}
}

// expiry makes a Unix time in milliseconds, well away from the present.
func (f *fuzzer) expiry() string {
	return pick(f, []string{"1", "1000000000000", "4102444800000", "4102444800001", "9000000000000", "9223372036854"})
}

// malformed makes a call that must be refused, whatever the key holds.
func (f *fuzzer) malformed() []string {
	words := append([]string{"cl.throttle", pick(f, fuzzKeys)}, pick(f, fuzzRates)...)
	switch f.random.IntN(6) {
	case 0:
		return words[:f.random.IntN(4)+1]
	case 1:
		return append(words, "1", "1", f.odd(f.positive))
	case 2: // all right one by one
		return append(words[:2], "9223372036854775807", "3", f.positive())
	}
	wrong := pick(f, []string{"", "-1", "1e3", "x", "9223372036854775808", "1 ", "%s", "\xff\x00", strings.Repeat("1", f.random.IntN(2000)+20)})
	words = append(words, "1")
	words[f.random.IntN(4)+2] = wrong
	return words
}

// throttle makes a call: sensible, or valid, or hostile.
func (f *fuzzer) throttle() []string {
	words := []string{"cl.throttle", pick(f, fuzzKeys)}
	switch dice := f.random.Float64(); {
	case dice < 0.6:
		rate := pick(f, fuzzRates)
		words = append(words, rate...)
		if f.chance(0.7) {
			limit := mustParse(rate[0])
			words = append(words, pick(f, []string{
				"0", "1", "2", strconv.FormatInt(limit, 10), strconv.FormatInt(limit/3, 10),
				new(big.Int).Add(big.NewInt(limit), big.NewInt(1)).String(),
			}))
		}
	case dice < 0.8:
		words = append(words, f.positive(), f.positive(), f.seconds())
		if f.chance(0.7) {
			words = append(words, strconv.FormatInt(f.scaled(), 10))
		}
	default:
		words = append(words, f.odd(f.positive), f.odd(f.positive), f.odd(f.seconds))
		if f.chance(0.7) {
			words = append(words, f.odd(f.positive))
		}
		if f.chance(0.1) {
			words = append(words, f.odd(f.positive))
		}
		if f.chance(0.1) {
			words = words[:f.random.IntN(len(words))+1]
		}
	}
	return words
}

var fuzzRates = [][]string{
	{"15", "30", "60"}, {"15", "30", "60"}, {"1", "1", "1"}, {"3", "7", "1.5"}, {"100", "1000", "1"},
	{"5", "1", "0.000000001"}, {"5", "1", "0.0000015"},
	{"2147483648", "2147483648", "3600.000000001"},
	{"9223372036854775807", "1", "0.000000001"}, {"9223372036854775806", "1", "0.000000001"},
	{"1", "1", "9223372036.854775807"}, {"1", "1", "5000000000"}, {"3", "3", "9000000000"},
	{"1", "9223372036854775807", "9223372036.854775807"},
}

// scaled makes a number from 0 to 2^63-1 of any order of magnitude.
func (f *fuzzer) scaled() int64 {
	switch f.random.IntN(4) {
	case 0:
		return pick(f, []int64{0, 1, 2, 1<<31 - 1, 1 << 31, 1 << 32, 1 << 53, 1 << 62, math.MaxInt64 - 1, math.MaxInt64})
	default:
		return f.random.Int64() >> f.random.IntN(63)
	}
}

func (f *fuzzer) positive() string { return strconv.FormatInt(max(1, f.scaled()), 10) }

func (f *fuzzer) seconds() string {
	whole := f.scaled() / 1e9
	if f.chance(0.3) {
		return strconv.FormatInt(whole, 10)
	}
	fraction := fmt.Sprintf("%09d", f.random.IntN(1e9))
	return fmt.Sprintf("%d.%s", whole, fraction[:f.random.IntN(9)+1])
}

// odd makes one in three words odd.
func (f *fuzzer) odd(sound func() string) string {
	word := sound()
	if f.chance(0.67) {
		return word
	}
	switch f.random.IntN(4) {
	case 0:
		return pick(f, []string{"", "0", "-1", "-0", "+1", "01", " 1", "1 ", "1.", ".5", "1.0", "0.0", "1e3", "0x1f", "1,5",
			"inf", "nan", "null", "１", "\x00", "1\x00", "\r\n", "*1\r\n$4\r\nPING\r\n", "%s%n%d", "$(reboot)", "'", "\xff\xfe",
			"0.0000000001", "1.0000000000", "9223372036.854775808", "9223372037",
			"9223372036854775808", "18446744073709551615", "18446744073709551617", "99999999999999999999",
			"-9223372036854775808", "-9223372036854775809", strings.Repeat("1", 1000), strings.Repeat("\xff", 10000)})
	case 1: // a byte that is another one
		bytes := []byte(word)
		bytes[f.random.IntN(len(bytes))] = byte(f.random.IntN(256))
		return string(bytes)
	case 2: // more digits than fit
		return word + strconv.FormatUint(f.random.Uint64(), 10)
	default:
		bytes := make([]byte, f.random.IntN(30))
		for i := range bytes {
			bytes[i] = byte(f.random.IntN(256))
		}
		return string(bytes)
	}
}

// sendGarbage sends bytes that resemble commands on a connection of its own,
// which goes away without waiting for anything. Its user may touch no key of the
// fuzzer, so that even a command that comes out by chance cannot disturb it.
func (f *fuzzer) sendGarbage() {
	f.garbage++
	wire, err := f.server.TryWire()
	require.NoError(f.t, err, "the server takes no connections any more")
	defer wire.Close()
	reply, err := wire.Do("auth", "garbage", "garbage")
	require.NoError(f.t, err)
	require.Equal(f.t, "OK", reply)

	content := mutate(f.random, "garbage:1")
	_, err = wire.Write(content)
	if err == nil && f.chance(0.5) {
		// Let it read to the end and answer; where a command is not complete, it
		// closes without.
		if err = wire.Conn.(*net.TCPConn).CloseWrite(); err == nil {
			require.NoError(f.t, wire.SetReadDeadline(time.Now().Add(servertest.Patience)))
			_, err = io.Copy(io.Discard, wire)
		}
	}
	// That the server ends such a connection is its good right.
	var network *net.OpError
	require.True(f.t, err == nil || errors.As(err, &network) && !network.Timeout(), "%v: the server hangs on %q", err, content)
}

// mutate makes a few calls and spoils them.
func mutate(random *rand.Rand, key string) []byte {
	var content []byte
	for range random.IntN(4) + 1 {
		content = servertest.AppendCommand(content, "cl.throttle", key, "15", "30", "60")
	}
	for range random.IntN(6) + 1 {
		at := random.IntN(len(content))
		switch random.IntN(5) {
		case 0:
			content[at] = byte(random.IntN(256))
		case 1:
			content = slices.Delete(content, at, min(len(content), at+random.IntN(8)+1))
		case 2:
			content = content[:at]
		case 3:
			lines := []string{"*1000000000\r\n", "$536870912\r\n", "*-1\r\n", "$-1\r\n", "*0\r\n", "\r\n", "$99999999999999999999\r\n",
				"*3\r\n*3\r\n", "cl.throttle garbage:2 1 1 1\r\n", "\"unbalanced\r\n", "PING\r\n", ">2\r\n", "%1\r\n", "_\r\n",
				strings.Repeat("x", 70000), strings.Repeat("*1\r\n", 50)}
			content = slices.Insert(content, at, []byte(lines[random.IntN(len(lines))])...)
		case 4:
			content = slices.Insert(content, at, bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(300))...)
		}
		if len(content) == 0 {
			content = []byte("\r\n")
		}
	}
	return content
}

func (f *fuzzer) chance(probability float64) bool { return f.random.Float64() < probability }

func pick[T any](f *fuzzer, choices []T) T { return choices[f.random.IntN(len(choices))] }
