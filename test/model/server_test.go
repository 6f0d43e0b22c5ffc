package model_test

import (
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// What a server answers and holds: the commands of ours as package contract has them, and of the
// other commands those that the fuzzer sends, as far as it uses them.

// An entry is what a key holds.
type entry struct {
	contract.Value
	size   int64 // how many elements, of a list
	expiry int64 // Unix milliseconds, or noExpiry
}

const noExpiry = -1

// A server follows a real one.
type server struct {
	keys    map[string]entry
	mode    contract.Mode
	now     int64                     // nanoseconds, by the clock of the module
	instant int64                     // milliseconds, by the clock of the server
	met     map[string]map[string]int // how often each command came to each outcome
	writes  int                       // of funnels

	receipts map[string][]int64 // the latest that calls were given, by key
}

func newServer(mode contract.Mode) *server {
	return &server{keys: map[string]entry{}, mode: mode, now: servertest.Epoch.UnixNano(), met: map[string]map[string]int{}, receipts: map[string][]int64{}}
}

// Replies are nil, int64, string, []any, or one of these.
type (
	// A failure is what an error reply begins with, whatever the case.
	failure string

	// Anything is any reply but an error.
	anything struct{}
)

const wrongType = failure(contract.ErrType)

// get finds what is there for a client: not what has expired.
func (s *server) get(key string) (entry, bool) {
	held, found := s.keys[key]
	if !found || held.expiry != noExpiry && held.expiry < s.instant {
		delete(s.keys, key)
		return entry{expiry: noExpiry}, false
	}
	return held, true
}

func (s *server) putString(key, text string, expiry int64) {
	s.keys[key] = entry{Value: contract.Value{Type: "string", Text: text}, expiry: expiry}
}

// apply executes a command and returns the reply.
func (s *server) apply(words []string) any {
	if command, ours := contract.CommandOf(words[0]); ours {
		get := func(key string) contract.Value {
			entry, _ := s.get(key)
			return entry.Value
		}
		outcome := contract.Call(s.mode, words, s.now, get)
		if s.met[command.Name] == nil {
			s.met[command.Name] = map[string]int{}
		}
		s.met[command.Name][outcome.Name]++
		s.writes += len(outcome.Writes)
		for _, write := range outcome.Writes {
			if write.Value == "" {
				delete(s.keys, write.Key)
			} else {
				s.putString(write.Key, write.Value, write.Expiry)
				if receipts := s.receipts[write.Key]; command.Operation != "refund" {
					s.receipts[write.Key] = append(receipts[max(0, len(receipts)-3):], mustParse(write.Value))
				}
			}
		}
		if outcome.Err != "" {
			return failure(outcome.Err)
		}
		return outcome.Reply
	}
	entry, found := s.get(words[1])
	return commands[words[0]](s, words, entry, found)
}

// commands take their words and what is at the key, which is the first of them.
var commands = map[string]func(s *server, words []string, entry entry, found bool) any{
	"get": func(_ *server, _ []string, entry entry, found bool) any {
		switch {
		case !found:
			return nil
		case entry.Type != "string":
			return wrongType
		}
		return entry.Text
	},

	// SET key value [KEEPTTL | PXAT milliseconds]
	"set": func(s *server, words []string, entry entry, _ bool) any {
		expiry := int64(noExpiry)
		switch {
		case len(words) == 4:
			expiry = entry.expiry
		case len(words) == 5:
			expiry = mustParse(words[4])
		}
		s.putString(words[1], words[2], expiry)
		return "OK"
	},

	"append": func(s *server, words []string, entry entry, found bool) any {
		if found && entry.Type != "string" {
			return wrongType
		}
		text := entry.Text + words[2]
		s.putString(words[1], text, entry.expiry)
		return int64(len(text))
	},

	"incrby": func(s *server, words []string, entry entry, found bool) any {
		if found && entry.Type != "string" {
			return wrongType
		}
		if !found {
			entry.Text = "0"
		}
		number, err := strconv.ParseInt(entry.Text, 10, 64)
		if err != nil || strconv.FormatInt(number, 10) != entry.Text {
			return failure("ERR value is not an integer")
		}
		sum := new(big.Int).Add(big.NewInt(number), big.NewInt(mustParse(words[2])))
		if !sum.IsInt64() {
			return failure("ERR increment or decrement would overflow")
		}
		s.putString(words[1], sum.String(), entry.expiry)
		return sum.Int64()
	},

	"del": func(s *server, words []string, _ entry, found bool) any {
		delete(s.keys, words[1])
		if found {
			return int64(1)
		}
		return int64(0)
	},

	"pexpireat": func(s *server, words []string, entry entry, found bool) any {
		if !found {
			return int64(0)
		}
		entry.expiry = mustParse(words[2])
		if s.keys[words[1]] = entry; entry.expiry <= s.instant {
			delete(s.keys, words[1])
		}
		return int64(1)
	},

	"persist": func(s *server, words []string, entry entry, found bool) any {
		if !found || entry.expiry == noExpiry {
			return int64(0)
		}
		entry.expiry = noExpiry
		s.keys[words[1]] = entry
		return int64(1)
	},

	"lpush": func(s *server, words []string, entry entry, found bool) any {
		if found && entry.Type != "list" {
			return wrongType
		}
		entry.Type = "list"
		entry.size++
		s.keys[words[1]] = entry
		return entry.size
	},

	"llen": func(_ *server, _ []string, entry entry, found bool) any {
		if found && entry.Type != "list" {
			return wrongType
		}
		return entry.size
	},
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
	text, isError := got.(servertest.ErrorReply)
	switch expected := expected.(type) {
	case anything:
		return !isError
	case failure:
		return isError && len(text) >= len(expected) && strings.EqualFold(string(text[:len(expected)]), string(expected))
	case []any:
		replies, isArray := got.([]any)
		if !isArray || len(replies) != len(expected) {
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
