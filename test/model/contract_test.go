package model_test

import (
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"funnel/internal/servertest"
)

// What a server answers and holds, by the contract: a model of CL.THROTTLE in
// integers of any size, and of the other commands that meet its keys.

const noExpiry = math.MinInt64

// A modelEntry is what a key holds.
type modelEntry struct {
	kind   string // as TYPE names it
	text   string // of a string
	size   int64  // how many elements, of anything else
	expiry int64  // Unix milliseconds, or noExpiry
}

// A model follows a server. Its commands take the words of a command and return
// the reply: nil, int64, string, []any, or errorReplies or anything.
type model struct {
	databases [2]map[string]modelEntry
	selected  int
	now       int64 // nanoseconds, by the clock of the module
	surplus   int64 // limit minus capacity
	instant   int64 // milliseconds, by the clock of the server
	met       map[string]int
}

// ErrorReplies are what an error reply may begin with, whatever the case: the
// contract leaves open which of several things that are too large together an error
// names.
type errorReplies []string

// Anything is a reply that the model does not predict.
type anything struct{}

func newModel() *model {
	return &model{
		databases: [2]map[string]modelEntry{{}, {}},
		now:       servertest.Epoch.UnixNano(),
		met:       map[string]int{},
	}
}

// What the model counts, and a fuzzer has to meet.
const (
	metAllowed = "allowed"
	metLimited = "limited"
	metNever   = "limited for ever"
	metPeeked  = "peeked"

	errArity     = "ERR wrong number of arg"
	errCapacity  = "ERR capacity must be"
	errCount     = "ERR count must be"
	errPeriod    = "ERR period must be"
	errQuantity  = "ERR quantity must be"
	errInterval  = "ERR count is too large for period"
	errTolerance = "ERR capacity and period are too large together"
	errIncrement = "ERR quantity and period are too large together"
	errValue     = "ERR the key does not hold a funnel"
	errType      = "WRONGTYPE Operation against a key holding the wrong kind of value"
)

var modelOutcomes = []string{
	metAllowed, metLimited, metNever, metPeeked,
	errArity, errCapacity, errCount, errPeriod, errQuantity,
	errInterval, errTolerance, errIncrement, errValue, errType,
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
		return errorReplies{errArity}, []string{errArity}
	}
	var faults errorReplies
	unless := func(sound bool, fault string) {
		if !sound {
			faults = append(faults, fault)
		}
	}

	// Arguments come first, from the left.
	capacity := integerFrom(1-m.surplus, words[2])
	count := integerFrom(1, words[3])
	period := nanosecondsFrom(words[4])
	quantity := big.NewInt(1)
	if len(words) == 6 {
		quantity = integerFrom(0, words[5])
	}
	unless(capacity != nil, errCapacity)
	unless(count != nil, errCount)
	unless(period != nil, errPeriod)
	unless(quantity != nil, errQuantity)
	if faults != nil {
		return faults[:1], faults[:1]
	}

	// Then what is too large together.
	limit := new(big.Int).Add(capacity, big.NewInt(m.surplus))
	T := new(big.Int).Quo(period, count)
	tau := new(big.Int).Mul(T, limit)
	increment := new(big.Int).Mul(T, quantity)
	unless(T.Sign() > 0, errInterval)
	unless(tau.Cmp(biggest) <= 0 && limit.Cmp(biggest) <= 0, errTolerance)
	unless(increment.Cmp(biggest) <= 0, errIncrement)
	if faults != nil {
		return faults, faults[:1]
	}

	// Only then is the key read.
	now, tat := big.NewInt(m.now), big.NewInt(m.now)
	if entry, found := m.get(words[1]); found {
		if entry.kind != "string" {
			return errorReplies{errType}, []string{errType}
		}
		if tat = integerFrom(0, entry.text); tat == nil {
			return errorReplies{errValue}, []string{errValue}
		}
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
		return errorReplies{errIncrement}, []string{errIncrement}
	}
	met = []string{metPeeked}
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
			return errorReplies{errType}
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
					return text, errorReplies{"ERR value is not an integer"}
				}
				text = "0"
			}
			number, err := strconv.ParseInt(text, 10, 64)
			if err != nil || strconv.FormatInt(number, 10) != text {
				return text, errorReplies{"ERR value is not an integer"}
			}
			step := mustParse(words[2])
			sum := new(big.Int).Add(big.NewInt(number), big.NewInt(step))
			if !sum.IsInt64() {
				return text, errorReplies{"ERR increment or decrement would overflow"}
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
			return errorReplies{errType}
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
			return errorReplies{"ERR no such key"}
		}
		m.remove(words[1])
		m.put(words[2], entry)
		return "OK"
	},

	"copy": func(m *model, words []string) any { // COPY source destination REPLACE
		if words[1] == words[2] {
			return errorReplies{"ERR source and destination objects are the same"}
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
			return errorReplies{"ERR source and destination objects are the same"}
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
		entry, failure := m.grow(words[1], "list")
		if failure != nil {
			return failure
		}
		return entry.size
	},
	"lpop": func(m *model, words []string) any {
		entry, found := m.get(words[1])
		switch {
		case !found:
			return nil
		case entry.kind != "list":
			return errorReplies{errType}
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
		if _, failure := m.grow(words[1], "stream"); failure != nil {
			return failure
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
// expiry alone. Nothing changes when the function returns errorReplies.
func (m *model) changeString(key string, change func(text string) (string, any)) any {
	entry, found := m.get(key)
	if found && entry.kind != "string" {
		return errorReplies{errType}
	}
	if !found {
		entry = modelEntry{kind: "string", expiry: noExpiry}
	}
	text, reply := change(entry.text)
	if _, isError := reply.(errorReplies); !isError {
		entry.text = text
		m.put(key, entry)
	}
	return reply
}

// grow adds an element to a key that has none or the kind.
func (m *model) grow(key, kind string) (modelEntry, any) {
	entry, found := m.get(key)
	if found && entry.kind != kind {
		return entry, errorReplies{errType}
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
		if _, failure := m.grow(words[1], kind); failure != nil {
			return failure
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
		_, isError := got.(servertest.ErrorReply)
		return !isError
	case errorReplies:
		text, isError := got.(servertest.ErrorReply)
		return isError && slices.ContainsFunc(expected, func(prefix string) bool {
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
