package command_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

const (
	notCapacity  = "capacity must be an integer from 1 to 9223372036854775807"
	notCount     = "count must be an integer from 1 to 9223372036854775807"
	notPeriod    = "period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits"
	notQuantity  = "quantity must be an integer from 0 to 9223372036854775807"
	notInterval  = "count is too large for period: less than 1 nanosecond per token"
	notTolerance = "capacity and period are too large together for count: a full funnel must drain within 2^63-1 nanoseconds (292 years)"
	notIncrement = "quantity and period are too large together for count: the tokens must leak within 2^63-1 nanoseconds (292 years)"
	notMaxWait   = "max_wait must be seconds from 0 to 9223372036.854775807 with up to 9 fraction digits"
	notSeveral   = "max_wait must be 0 for several funnels: ask again after the wait that a limited call replies"
	notTwice     = "the key is named twice in this call: ask once, for all of its tokens"
	notFunnel    = "the key does not hold a funnel: its value is not an integer from 0 to 9223372036854775807"
	notTAT       = "quantity and period are too large together for count: the funnel must be empty again before the year 2262, 2^63-1 nanoseconds after the epoch"
	notType      = "WRONGTYPE Operation against a key holding the wrong kind of value"
)

var funnelsCommands = []string{"cl.reserve", "cl.peek", "cl.charge", "cl.refund"}

// startWithoutFunnels has keys that are no funnels, and one that is empty only at the end
// of time.
func startWithoutFunnels(t *testing.T) *redis.Client {
	t.Helper()
	client := servertest.StartClient(t)
	ctx := context.Background()
	for _, number := range []string{"1", "2"} {
		require.NoError(t, client.RPush(ctx, "list"+number, "a").Err())
		require.NoError(t, client.Set(ctx, "word"+number, "abc", 0).Err())
	}
	require.NoError(t, client.Set(ctx, "late", "9223372036854775807", 0).Err())
	return client
}

// requireRefused requires the error of a call, and that it changes nothing.
func requireRefused(t *testing.T, client *redis.Client, want string, words []any) {
	t.Helper()
	before := servertest.Dumps(t, client)
	dirty := servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")
	require.EqualError(t, client.Do(context.Background(), words...).Err(), want, "%.200q", fmt.Sprint(words))
	require.Equal(t, before, servertest.Dumps(t, client))
	require.Equal(t, dirty, servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save"))
}

// TestFunnelsNumberOfWords: one reply for none, for a part of a funnel, and for more than
// 64 funnels.
func TestFunnelsNumberOfWords(t *testing.T) {
	client := startWithoutFunnels(t)
	funnels := func(count, more int) (words []any) {
		for i := range count {
			words = append(words, fmt.Sprint("key:", i), 2, 1, 1, 1)
		}
		return append(words, []any{"a", 2, 1, 1}[:more]...)
	}
	for _, command := range funnelsCommands {
		for _, words := range [][]any{
			{}, funnels(0, 1), funnels(0, 4), funnels(1, 2), funnels(1, 3), funnels(1, 4), funnels(2, 2), funnels(63, 4),
			funnels(64, 2), funnels(64, 4), funnels(65, 0), funnels(65, 1), funnels(1000, 0),
		} {
			requireRefused(t, client, "ERR wrong number of arguments for '"+command+"' command", append([]any{command}, words...))
		}
		if command != "cl.reserve" { // which reads it as max_wait
			requireRefused(t, client, "ERR wrong number of arguments for '"+command+"' command", append([]any{command}, funnels(1, 1)...))
			requireRefused(t, client, "ERR wrong number of arguments for '"+command+"' command", append([]any{command}, funnels(64, 1)...))
		}
	}
}

// TestFunnelsErrors, each with its full text: of a call with one funnel, and with three, of
// which the second is wrong.
func TestFunnelsErrors(t *testing.T) {
	client := startWithoutFunnels(t)
	const most = "9223372036854775807"
	const century = "9223372036.854775807"
	all, some := funnelsCommands, []string{"cl.reserve", "cl.peek", "cl.charge"}
	for _, c := range []struct {
		funnel   string
		want     string
		commands []string
	}{
		{"k 1.5 1 1 1", notCapacity + ", not '1.5'", all},
		{"k " + most + "0 1 1 1", notCapacity + ", not '" + most + "0'", all},
		{"k 2 0 1 1", notCount + ", not '0'", all},
		{"k 2 -1 1 1", notCount + ", not '-1'", all},
		{"k 2 1 0 1", notPeriod + ", not '0'", all},
		{"k 2 1 1e3 1", notPeriod + ", not '1e3'", all},
		{"k 2 1 0.0000000001 1", notPeriod + ", not '0.0000000001'", all},
		{"k 2 1 1 -1", notQuantity + ", not '-1'", all},
		{"k 2 1 1 01", notQuantity + ", not '01'", all},
		{"k 2 1000000001 1 1", notInterval + ", not capacity 2, count 1000000001, period 1, quantity 1", all},
		{"k " + most + " 1 1 1", notTolerance + ", not capacity " + most + ", count 1, period 1, quantity 1", all},
		{"k 2 1 1 " + most, notIncrement + ", not capacity 2, count 1, period 1, quantity " + most, all},
		{"list1 2 1 1 1", notType, all},
		{"list1 2 1 1 0", notType, all},
		{"word1 2 1 1 1", notFunnel, all},
		{"word1 2 1 1 0", notFunnel, all},
		{"k 1 1 " + century + " 1", notTAT + ", not capacity 1, count 1, period " + century + ", quantity 1", some},
		{"late 1 1 1 1", notTAT + ", not capacity 1, count 1, period 1, quantity 1", []string{"cl.charge"}},
	} {
		for _, command := range c.commands {
			alone, among := "ERR "+c.want, "ERR funnel 2: "+c.want
			if c.want == notType {
				alone, among = notType, notType
			}
			requireRefused(t, client, alone, servertest.Words(command+" "+c.funnel))
			requireRefused(t, client, among, servertest.Words(command+" first 2 1 1 1 "+c.funnel+" last 2 1 1 1"))
		}
	}
}

// TestFunnelsErrorsOfTheWholeCall name no funnel, but for a key that is named twice.
func TestFunnelsErrorsOfTheWholeCall(t *testing.T) {
	client := startWithoutFunnels(t)
	for maxWait, shown := range map[string]string{
		"x": ", not 'x'", "-1": ", not '-1'", "1.": ", not '1.'", ".5": ", not '.5'", "inf": ", not 'inf'", "": "",
		"9223372036.854775808": ", not '9223372036.854775808'", "0.0000000001": ", not '0.0000000001'",
	} {
		one := append(servertest.Words("cl.reserve a 2 1 1 1"), maxWait)
		requireRefused(t, client, "ERR "+notMaxWait+shown, one)
		two := append(servertest.Words("cl.reserve a 2 1 1 1 b 2 1 1 1"), maxWait)
		requireRefused(t, client, "ERR "+notMaxWait+shown, two)
	}
	requireRefused(t, client, "ERR "+notSeveral+", not '0.000000001'", servertest.Words("cl.reserve a 2 1 1 1 b 2 1 1 1 0.000000001"))
	for _, command := range funnelsCommands {
		requireRefused(t, client, "ERR funnel 2: "+notTwice, servertest.Words(command+" a 2 1 1 1 a 2 1 1 1"))
		requireRefused(t, client, "ERR funnel 3: "+notTwice, servertest.Words(command+" a 2 1 1 1 b 2 1 1 1 a 3 1 1 0"))
		requireRefused(t, client, "ERR funnel 3: "+notTwice, servertest.Words(command+" a 2 1 1 1 b 2 1 1 1 b 2 1 1 1 a 2 1 1 1"))

		many := []any{command}
		for i := range 64 {
			many = append(many, fmt.Sprint("key:", i), 2, 1, 1, 1)
		}
		many[len(many)-5] = "key:17"
		requireRefused(t, client, "ERR funnel 64: "+notTwice, many)
		many[len(many)-4] = "x"
		requireRefused(t, client, "ERR funnel 64: "+notCapacity+", not 'x'", many)
	}
}

// TestFunnelsErrorsComeInOrder: of two things that are wrong, the one that the contract
// names first is the reply.
func TestFunnelsErrorsComeInOrder(t *testing.T) {
	client := startWithoutFunnels(t)
	const most = "9223372036854775807"
	type fault struct {
		name   string
		begins string // the error
		put    func(words []any)
	}
	set := func(at int, values ...any) func([]any) {
		return func(words []any) { copy(words[at:], values) }
	}
	// Words 1 to 5 are the first funnel, 6 to 10 the second; 11 is max_wait.
	ofFunnel := func(number int) (arguments, stored, tooLate []fault) {
		key := 5*number - 4
		which := fmt.Sprintf("ERR funnel %d: ", number)
		digit := fmt.Sprint(number)
		arguments = []fault{
			{"capacity", which + "capacity must", set(key+1, "x")},
			{"count", which + "count must", set(key+2, "x")},
			{"period", which + "period must", set(key+3, "x")},
			{"quantity", which + "quantity must", set(key+4, "x")},
			{"increment", which + "quantity and period are too large together for count: the tokens", set(key+4, most)},
		}
		stored = []fault{
			{"type", "WRONGTYPE", set(key, "list"+digit)},
			{"value", which + "the key does not hold", set(key, "word"+digit)},
		}
		tooLate = []fault{{"TAT", which + "quantity and period are too large together for count: the funnel",
			set(key+1, "1", "1", "9223372036.854775807", "1")}}
		return arguments, stored, tooLate
	}
	first, firstStored, firstLate := ofFunnel(1)
	second, secondStored, secondLate := ofFunnel(2)

	for _, command := range funnelsCommands {
		faults := slices.Concat(first, second)
		if command == "cl.reserve" {
			faults = append(faults,
				fault{"max_wait", "ERR max_wait must be seconds", set(11, "x")},
				fault{"max_wait of several", "ERR max_wait must be 0", set(11, "1")})
		}
		faults = append(faults, fault{"twice", "ERR funnel 2: the key is named twice", func(words []any) { words[6] = words[1] }})
		faults = slices.Concat(faults, firstStored, secondStored)
		if command != "cl.refund" {
			faults = slices.Concat(faults, firstLate, secondLate)
		}
		for i, earlier := range faults {
			for _, later := range faults[i:] {
				words := servertest.Words(command + " a 2 1 1 1 b 2 1 1 1")
				if command == "cl.reserve" {
					words = append(words, "0")
				}
				later.put(words) // first, since both may be about the same word
				earlier.put(words)
				err := client.Do(context.Background(), words...).Err()
				require.ErrorContains(t, err, earlier.begins, "%s before %s: %v", earlier.name, later.name, words)
				require.True(t, strings.HasPrefix(err.Error(), earlier.begins), err)
			}
			words := servertest.Words(command + " a 2 1 1 1 b 2 1 1 1 0 0 0")
			earlier.put(words)
			require.EqualError(t, client.Do(context.Background(), words...).Err(),
				"ERR wrong number of arguments for '"+command+"' command", earlier.name)
		}
	}
	require.ElementsMatch(t, []string{"list1", "list2", "word1", "word2", "late"}, client.Keys(context.Background(), "*").Val())
}

// TestFunnelsTooLateIsAnErrorOnlyOfWhatWouldBePoured: of a funnel that would by itself be
// allowed, or is charged.
func TestFunnelsTooLateIsAnErrorOnlyOfWhatWouldBePoured(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	ctx := context.Background()
	clock.Set(t, servertest.Epoch)
	end := int64(math.MaxInt64)
	require.NoError(t, client.Set(ctx, "late", end, 0).Err())
	require.NoError(t, client.Set(ctx, "full", servertest.Epoch.UnixNano()+2e9, 0).Err())
	before := servertest.Dumps(t, client)

	const century = " 1 1 9223372036.854775807 1"
	for call, want := range map[string]string{
		"cl.reserve late 2 1 1 0":                    "1 5120927234.854775807 [1 2 0 5120927234.854775807 5120927236.854775807]",
		"cl.reserve late 2 1 1 1":                    "1 5120927235.854775807 [1 2 0 5120927235.854775807 5120927236.854775807]",
		"cl.reserve late 2 1 1 0 9223372036":         "0 5120927234.854775807 [0 2 0 5120927234.854775807 5120927236.854775807]",
		"cl.reserve late 2 1 1 1 9223372036":         "ERR " + notTAT,
		"cl.reserve late 2 1 1 3 9223372036":         "1 -1 [1 2 0 -1 5120927236.854775807]",
		"cl.peek late 2 1 1 1":                       "1 5120927235.854775807 [1 2 0 5120927235.854775807 5120927236.854775807]",
		"cl.peek new" + century:                      "ERR " + notTAT,
		"cl.charge late 2 1 1 0":                     "1 5120927234.854775807 [1 2 0 5120927234.854775807 5120927236.854775807]",
		"cl.charge late 2 1 1 1":                     "ERR " + notTAT,
		"cl.reserve a 2 1 1 1 new" + century:         "ERR funnel 2: " + notTAT,
		"cl.reserve full 2 1 1 1 new" + century:      "ERR funnel 2: " + notTAT,
		"cl.reserve new" + century + " full 2 1 1 1": "ERR funnel 1: " + notTAT,
		"cl.charge a 2 1 1 1 late 2 1 1 1":           "ERR funnel 2: " + notTAT,
		"cl.reserve a 2 1 1 1 late 2 1 1 1":          "1 5120927235.854775807 [0 2 2 0 0] [1 2 0 5120927235.854775807 5120927236.854775807]",
	} {
		if strings.HasPrefix(want, "ERR") {
			err := client.Do(ctx, servertest.Words(call)...).Err()
			require.Error(t, err, call)
			require.True(t, strings.HasPrefix(err.Error(), want), "%s: %v", call, err)
		} else {
			require.Equal(t, want, servertest.Funnels(t, client, call), call)
		}
		require.Equal(t, before, servertest.Dumps(t, client), call)
	}
	require.Equal(t, "1 5120927233.854775807 [1 2 0 5120927233.854775807 5120927235.854775807]",
		servertest.Funnels(t, client, "cl.refund late 2 1 1 1"))
}
