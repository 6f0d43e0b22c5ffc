// Random calls, and the check that the contract gives the same replies.

package soak_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
)

var rates = [][]string{{"20", "50", "1"}, {"100", "30", "0.5"}, {"5", "7", "3"}, {"1000", "100", "1"},
	{"3", "1000", "1"}}

// script is the client's script, which takes the clock from two keys.
var script = "local clock = {table.remove(KEYS, 1), table.remove(KEYS, 1)}\n" +
	strings.ReplaceAll(limiter.Script(), "redis.call('TIME')", "clock")

var scriptHash = redis.NewScript(script).Hash()

// lead is how far the clock of the commands is ahead of the server's clock, by which keys expire.
// So a key still exists at every instant at which a call counts it.
const lead = time.Minute

// A call is sent in a transaction that first sets the clock of the commands, and afterwards reads
// the keys of the call.
type call struct {
	words    []string
	byScript bool
	rows     [][]string
	now      int64 // by that clock, in Unix nanoseconds
	after    map[string]contract.Value
	reply    any
}

// anyCall returns a random call of some keys of the caller, by the module or the script. Some calls
// are errors.
func (c *caller) anyCall() *call {
	command := contract.Commands[rand.IntN(len(contract.Commands))]
	if command.Operation == "charge" && rand.IntN(2) == 0 { // charge less than is given back
		command, _ = contract.CommandOf("cl.refund")
	}
	keys := rand.Perm(4)[:1+rand.IntN(4)]
	if command.Rows == 1 {
		keys = []int{[]int{0, 1, 3}[rand.IntN(3)]}
	}
	call := &call{words: []string{command.Name}, byScript: !command.Seconds && rand.IntN(3) == 0,
		after: map[string]contract.Value{}}
	for _, key := range keys {
		call.rows = append(call.rows, c.anyRow(command.Operation, key))
		call.words = append(call.words, call.rows[len(call.rows)-1]...)
	}
	if len(keys) > 1 || keys[0] >= 2 || rand.IntN(2) == 0 {
		return call
	}
	receipt, given := c.receipts[call.rows[0][0]]
	if command.LastWord == "tat" && given {
		call.words = append(call.words, receipt)
	} else if command.LastWord == "max_wait" {
		call.words = append(call.words, []string{"0.0001", "0.05", "2"}[rand.IntN(3)])
	}
	return call
}

// skews are how far the clocks of callers who ask for quotas are ahead.
var skews = []time.Duration{0, 0, 0, 0, 0, 300 * time.Millisecond, -300 * time.Millisecond, -3 * time.Second,
	20 * time.Minute, 10 * 365 * 24 * time.Hour}

// anyRow returns a row for one key: slots for key 2, a quota of 9 in two seconds for key 3, and
// otherwise a funnel whose rate never changes.
func (c *caller) anyRow(operation string, key int) []string {
	name := fmt.Sprint(c.number, ":", key)
	dice := rand.IntN(100)
	if key < 2 || operation == "peek" && dice == 0 { // a funnel under the key of slots is WRONGTYPE
		rate := rates[(c.number+key)%len(rates)]
		quantity := []string{"1", "1", "1", "1", "2", "3", "7", "0"}[rand.IntN(8)]
		if dice < 5 && operation != "charge" {
			quantity = []string{"1001", "x"}[dice%2] // a quantity that never fits, or an error
		}
		return []string{name, rate[0], rate[1], rate[2], quantity}
	}
	if key == 3 {
		const period = 2 * time.Second
		until := time.Now().Add(lead + skews[rand.IntN(len(skews))]).Truncate(period).Add(period)
		return []string{name, "9", "UNTIL", fmt.Sprint(until.Unix()), fmt.Sprint(rand.IntN(5))}
	}
	limit := "3"
	if dice < 20 {
		limit = "0" // a renewal
	}
	return []string{name, limit, "SLOTS", []string{"0.05", "0.2", "1.0005"}[rand.IntN(3)], fmt.Sprint("h", rand.IntN(8))}
}

// send sends the call, and reads its reply and its keys. The script's clock has microseconds.
func (c *call) send(t testing.TB, wire *servertest.Wire) error {
	c.now = time.Now().Add(lead).UnixNano() / 1e3 * 1e3
	commands := [][]string{{"multi"}, {"funnel.debug", "clock", fmt.Sprint(c.now)}, c.form()}
	for _, row := range c.rows {
		read := []string{"get", row[0]}
		if strings.HasSuffix(row[0], ":2") {
			read = []string{"zrange", row[0], "0", "-1", "withscores"}
		}
		commands = append(commands, read, servertest.AskExpiry(t, row[0]))
	}
	var buffer []byte
	for _, words := range append(commands, []string{"exec"}) {
		buffer = servertest.AppendCommand(buffer, words...)
	}
	_, err := wire.Write(buffer)
	if err != nil {
		return err
	}
	for range commands {
		reply, err := wire.Receive()
		if err != nil || reply != "OK" && reply != "QUEUED" {
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
	words := []string{"evalsha", scriptHash, fmt.Sprint(2 + len(c.rows)), fmt.Sprint(c.now / 1e9),
		fmt.Sprint(c.now % 1e9 / 1e3)}
	arguments := []string{strings.TrimPrefix(c.words[0], "cl.")}
	for _, row := range c.rows {
		words, arguments = append(words, row[0]), append(arguments, row[1:]...)
	}
	return slices.Concat(words, arguments, c.words[1+5*len(c.rows):])
}

// check checks the reply, and the values of the keys after the call. The argument has their values
// before it.
func (c *call) check(values map[string]contract.Value) error {
	want := contract.Run(contract.Default, c.words, c.now, func(key string) contract.Value { return values[key] })
	text, isError := c.reply.(servertest.ErrorReply)
	if isError != (want.Err != "") || isError && !strings.HasPrefix(string(text), string(want.Err)) ||
		!isError && !reflect.DeepEqual(want.Reply, c.reply) {
		return fmt.Errorf("the reply is not %+v: %+v, of %+v", want, *c, values)
	}
	held := maps.Clone(values)
	for _, write := range want.Writes {
		held[write.Key] = write.Value
	}
	for key, got := range c.after {
		hasExpired := got.Type == "" && held[key].Expiry <= time.Now().UnixMilli()
		if !hasExpired && !reflect.DeepEqual(held[key], got) {
			return fmt.Errorf("%s does not hold %+v: %+v, of %+v", key, held[key], *c, values)
		}
	}
	return nil
}

// valueOf returns the value of a key, from the replies of GET or ZRANGE WITHSCORES, and of
// PEXPIRETIME.
func valueOf(reply any, expiry int64) contract.Value {
	members, isSet := reply.([]any)
	text, isText := reply.(string)
	if isText {
		return contract.Value{Type: "string", Text: text, Expiry: expiry}
	} else if !isSet || len(members) == 0 {
		return contract.Value{}
	}
	scores := map[string]float64{}
	for pair := range slices.Chunk(members, 2) {
		scores[pair[0].(string)], _ = strconv.ParseFloat(pair[1].(string), 64)
	}
	return contract.Value{Type: "zset", Scores: scores, Expiry: expiry}
}
