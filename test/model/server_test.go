// The fuzzer's model of a server: its replies and its keys. Package contract executes the module's
// commands. Other commands are modelled as far as the fuzzer uses them.

package model_test

import (
	"maps"
	"reflect"
	"strconv"
	"strings"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

type entry struct {
	contract.Value
	size int64 // how many elements, of a list
}

// A server is the model of a real server.
type server struct {
	keys    map[string]entry
	mode    contract.Mode
	now     int64                     // nanoseconds, by the clock of the module
	instant int64                     // milliseconds, by the clock of the server
	met     map[string]map[string]int // how often each command had each outcome

	receipts map[string][]int64 // the latest receipts, by key
}

func newServer(mode contract.Mode) *server {
	return &server{keys: map[string]entry{}, mode: mode, now: servertest.Epoch.UnixNano(),
		met: map[string]map[string]int{}, receipts: map[string][]int64{}}
}

// fromFirstCall counts, beside the outcomes, calls without an error of which a row has a period
// from the first call.
const fromFirstCall = "UNTIL +"

// isFromFirstCall reports whether a row of a call has such a period.
func isFromFirstCall(words []string) bool {
	for at := 4; at < len(words); at += 5 {
		if strings.EqualFold(words[at-1], "until") && strings.HasPrefix(words[at], "+") {
			return true
		}
	}
	return false
}

// windows returns how many calls have succeeded that had such a row.
func (s *server) windows() (sum int) {
	for _, met := range s.met {
		sum += met[fromFirstCall]
	}
	return sum
}

// Replies are nil, int64, string, []any, or one of these.
type (
	// A failure is the beginning of an error reply, in upper or lower case.
	failure string

	// Anything is any reply but an error.
	anything struct{}
)

const wrongType = failure(contract.ErrType)

// get returns the value of a key, unless it has expired.
func (s *server) get(key string) (entry, bool) {
	held, found := s.keys[key]
	if !found || held.Expiry != contract.NoExpiry && held.Expiry < s.instant {
		delete(s.keys, key)
		return entry{}, false
	}
	return held, true
}

func (s *server) putString(key, text string, expiry int64) {
	s.keys[key] = entry{Value: contract.Value{Type: "string", Text: text, Expiry: expiry}}
}

// apply executes a command and returns the reply.
func (s *server) apply(words []string) any {
	command, ours := contract.CommandOf(words[0])
	if ours {
		get := func(key string) contract.Value {
			entry, _ := s.get(key)
			return entry.Value
		}
		outcome := contract.Run(s.mode, words, s.now, get)
		if s.met[command.Name] == nil {
			s.met[command.Name] = map[string]int{}
		}
		s.met[command.Name][outcome.Name]++
		if outcome.Err == "" && isFromFirstCall(words) {
			s.met[command.Name][fromFirstCall]++
		}
		for _, write := range outcome.Writes {
			s.keys[write.Key] = entry{Value: write.Value}
			receipts := s.receipts[write.Key]
			switch {
			case write.Value.Type == "":
				delete(s.keys, write.Key)
			case write.Value.Type == "string" && command.Operation != "refund" && !strings.HasPrefix(write.Value.Text, "used:"):
				s.receipts[write.Key] = append(receipts[max(0, len(receipts)-3):], mustParse(write.Value.Text))
			}
		}
		if outcome.Err != "" {
			return failure(outcome.Err)
		}
		return outcome.Reply
	}
	entry, found := s.get(words[1])
	types := map[string]string{"append": "string", "get": "string", "lpush": "list", "zadd": "zset", "zrem": "zset"}
	needed := types[words[0]]
	switch {
	case words[0] == "set": // key value [PXAT milliseconds]
		expiry := int64(contract.NoExpiry)
		if len(words) > 3 {
			expiry = mustParse(words[4])
		}
		s.putString(words[1], words[2], expiry)
		return "OK"
	case words[0] == "del":
		delete(s.keys, words[1])
		return number(found)
	case found && entry.Type != needed:
		return wrongType
	case words[0] == "zadd" || words[0] == "zrem":
		return s.changeSet(words, entry)
	case words[0] == "append":
		s.putString(words[1], entry.Text+words[2], entry.Expiry)
		return int64(len(entry.Text + words[2]))
	case words[0] == "lpush":
		entry.Type = "list"
		entry.size++
		s.keys[words[1]] = entry
		return entry.size
	case found:
		return entry.Text
	}
	return nil
}

// changeSet is ZADD key score member, and ZREM key member.
func (s *server) changeSet(words []string, set entry) any {
	scores := maps.Clone(set.Scores)
	if scores == nil {
		scores = map[string]float64{}
	}
	member := words[len(words)-1]
	_, had := scores[member]
	changed := had == (words[0] == "zrem")
	delete(scores, member)
	if words[0] == "zadd" {
		scores[member], _ = strconv.ParseFloat(words[2], 64)
	}
	set.Type, set.Scores = "zset", scores
	s.keys[words[1]] = set
	if len(scores) == 0 {
		delete(s.keys, words[1])
	}
	return number(changed)
}

// number is 1 for true, and 0 for false.
func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
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
