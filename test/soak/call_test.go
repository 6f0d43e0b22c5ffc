// Random calls, and whether the contract explains their replies.

package soak_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
)

var rates = [][]string{{"20", "50", "1"}, {"100", "30", "0.5"}, {"5", "7", "3"}, {"1000", "100", "1"}, {"3", "1000", "1"}}

var scriptHash = redis.NewScript(limiter.Script()).Hash()

// A call is sent in a transaction, which also sets the clock of the commands and reads the call's keys after it.
type call struct {
	words    []string
	byScript bool
	rows     [][]string
	now      int64 // by that clock, in Unix nanoseconds
	after    map[string]contract.Value
	reply    any
}

// anyCall returns a random call of one, two or all keys of the caller, by the module or the script. Some
// calls are wrong.
func (c *caller) anyCall() *call {
	command := contract.Commands[rand.IntN(len(contract.Commands))]
	if command.Operation == "charge" && rand.IntN(2) == 0 { // less than is given back
		command, _ = contract.CommandOf("cl.refund")
	}
	keys := rand.Perm(3)[:1+rand.IntN(3)]
	if command.Rows == 1 {
		keys = []int{rand.IntN(2)}
	}
	call := &call{words: []string{command.Name}, byScript: !command.Seconds && rand.IntN(3) == 0,
		after: map[string]contract.Value{}}
	for _, key := range keys {
		call.rows = append(call.rows, c.anyRow(command.Operation, key))
		call.words = append(call.words, call.rows[len(call.rows)-1]...)
	}
	if len(keys) > 1 || keys[0] == 2 || rand.IntN(2) == 0 {
		return call
	}
	if receipt, given := c.receipts[call.rows[0][0]]; command.LastWord == "tat" && given {
		call.words = append(call.words, receipt)
	} else if command.LastWord == "max_wait" {
		call.words = append(call.words, []string{"0.0001", "0.05", "2"}[rand.IntN(3)])
	}
	return call
}

// anyRow returns the words for one key: slots for the key 2, otherwise a funnel, whose rate never changes.
func (c *caller) anyRow(operation string, key int) []string {
	name, dice := fmt.Sprint(c.number, ":", key), rand.IntN(100)
	if key < 2 || operation == "peek" && dice == 0 { // a funnel under the key of slots is WRONGTYPE
		rate := rates[(c.number+key)%len(rates)]
		quantity := []string{"1", "1", "1", "1", "2", "3", "7", "0"}[rand.IntN(8)]
		if dice < 5 && operation != "charge" {
			quantity = []string{"1001", "x"}[dice%2] // which never fits, or is an error
		}
		return []string{name, rate[0], rate[1], rate[2], quantity}
	}
	limit := "3"
	if dice < 20 {
		limit = "0" // a renewal
	}
	return []string{name, limit, "SLOTS", []string{"0.05", "0.2", "1.0005"}[rand.IntN(3)], fmt.Sprint("h", rand.IntN(8))}
}

// send sends the call, and reads its reply and its keys. The script's clock has microseconds.
func (c *call) send(wire *servertest.Wire) error {
	c.now = time.Now().UnixNano() / 1e3 * 1e3
	commands := [][]string{{"multi"}, {"funnel.debug", "clock", fmt.Sprint(c.now)}, c.form()}
	for _, row := range c.rows {
		read := []string{"get", row[0]}
		if strings.HasSuffix(row[0], ":2") {
			read = []string{"zrange", row[0], "0", "-1", "withscores"}
		}
		commands = append(commands, read, servertest.AskExpiry(wire, row[0]))
	}
	var buffer []byte
	for _, words := range append(commands, []string{"exec"}) {
		buffer = servertest.AppendCommand(buffer, words...)
	}
	if _, err := wire.Write(buffer); err != nil {
		return err
	}
	for range commands {
		if reply, err := wire.Receive(); err != nil || reply != "OK" && reply != "QUEUED" {
			return fmt.Errorf("%v: %v %w", commands, reply, err)
		}
	}
	reply, err := wire.Receive()
	replies, isArray := reply.([]any)
	if err != nil || !isArray {
		return fmt.Errorf("%v: %v %w", commands, reply, err)
	}
	c.reply = replies[1]
	for i, row := range c.rows {
		c.after[row[0]] = valueOf(replies[2+2*i], replies[3+2*i].(int64))
	}
	return nil
}

// form returns the words that are sent: the command, or the script with its arguments.
func (c *call) form() []string {
	if !c.byScript {
		return c.words
	}
	words, arguments := []string{"evalsha", scriptHash, fmt.Sprint(len(c.rows))}, []string{strings.TrimPrefix(c.words[0], "cl.")}
	for _, row := range c.rows {
		words, arguments = append(words, row[0]), append(arguments, row[1:]...)
	}
	return slices.Concat(words, arguments, c.words[1+5*len(c.rows):])
}

// isExplained reports whether there is an instant at which the contract replies and stores the same. Each
// condition of a reply begins or ends to hold at some instant, so it suffices to try these instants.
func (c *call) isExplained() bool {
	unit := int64(1)
	if c.byScript {
		unit = 1000
	}
	return slices.ContainsFunc(c.instants(), func(instant int64) bool {
		instant = (instant + unit - 1) / unit * unit
		if instant < c.sent/unit*unit || instant > c.answer {
			return false
		}
		return c.is(contract.Run(contract.Default, c.words, instant, func(key string) contract.Value { return c.before[key] }))
	})
}

// is reports whether the reply and the keys are as the outcome says.
func (c *call) is(outcome contract.Outcome) bool {
	if text, isError := c.reply.(servertest.ErrorReply); isError != (outcome.Err != "") ||
		isError && !strings.HasPrefix(string(text), string(outcome.Err)) ||
		!isError && !reflect.DeepEqual(outcome.Reply, c.reply) {
		return false
	}
	expected := maps.Clone(c.before)
	for _, write := range outcome.Writes {
		expected[write.Key] = write.Value
	}
	for key, value := range expected {
		if got := c.after[key]; !isSame(value, got, c.answer) || got.Type != "" && c.expiries[key] != expiryOf(got) {
			return false
		}
	}
	return true
}

// instants returns the instants at which a condition of the reply begins to hold.
func (c *call) instants() []int64 {
	instants := []int64{c.sent}
	command, _ := contract.CommandOf(c.words[0])
	reply, isReply := c.reply.([]any)
	for i, row := range c.rows {
		before, after := lastOf(c.before[row[0]]), lastOf(c.after[row[0]])
		instants = append(instants, before)
		switch {
		case !isReply:
		case command.Seconds:
			interval := nanoseconds(row[3]) / number(row[2])
			increment, tolerance := interval*number(row[4]), interval*number(row[1])
			full := before + increment - tolerance
			instants = append(instants, after-increment, after-reply[4].(int64)*1e9, after-tolerance+reply[2].(int64)*interval,
				full, full-reply[3].(int64)*1e9)
		default:
			fields := reply[2].([]any)[i].([]any)
			instants = append(instants, after-nanoseconds(fields[4]))
			if row[2] == "SLOTS" {
				for _, end := range c.before[row[0]].Scores {
					instants = append(instants, int64(end)*1e6, int64(end)*1e6-nanoseconds(fields[5]))
				}
			} else if command.Operation == "refund" {
				instants = append(instants, before-nanoseconds(row[3])/number(row[2])*number(row[4]))
			}
		}
	}
	return instants
}

// valueOf returns the value of a key, from the reply of GET or of ZRANGE WITHSCORES.
func valueOf(reply any) contract.Value {
	members, isSet := reply.([]any)
	if text, isText := reply.(string); isText {
		return contract.Value{Type: "string", Text: text}
	} else if !isSet || len(members) == 0 {
		return contract.Value{}
	}
	scores := map[string]float64{}
	for pair := range slices.Chunk(members, 2) {
		scores[pair[0].(string)] = float64(number(pair[1].(string)))
	}
	return contract.Value{Type: "zset", Scores: scores}
}

// isSame reports whether a key that held one value holds the other, or has expired by then.
func isSame(held, got contract.Value, now int64) bool {
	if got.Type == "" {
		return held.Type == "" || expiryOf(held) <= now/1e6
	}
	return held.Type == got.Type && held.Text == got.Text && maps.Equal(held.Scores, got.Scores)
}

// lastOf returns the TAT of a funnel, or when the last slot ends.
func lastOf(value contract.Value) (instant int64) {
	if value.Type == "zset" {
		return int64(slices.Max(slices.Collect(maps.Values(value.Scores)))) * 1e6
	} else if value.Type == "string" {
		return number(value.Text)
	}
	return 0
}

func expiryOf(value contract.Value) int64 { return (lastOf(value) + 1e6 - 1) / 1e6 }

func nanoseconds(word any) int64 {
	if word == "-1" {
		return math.MaxInt64
	}
	seconds, _ := contract.Seconds(word.(string))
	return seconds.Int64()
}

func number(word string) int64 {
	number, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}
