// What is refused: each error, its full text, and that it changes nothing.

package command_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

const (
	most    = "9223372036854775807"
	century = "9223372036.854775807"
)

// requireRefused requires the error of a call, and that it changes nothing.
func requireRefused(t *testing.T, client *redis.Client, want string, words ...any) {
	t.Helper()
	before := servertest.Dumps(t, client)
	dirty := servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")
	require.EqualError(t, client.Do(t.Context(), words...).Err(), want, "%.200q", fmt.Sprint(words...))
	require.Equal(t, before, servertest.Dumps(t, client))
	require.Equal(t, dirty, servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save"))
}

// TestNumberOfWords: one reply for none, for a part of a funnel, and for more funnels than a
// command takes.
func TestNumberOfWords(t *testing.T) {
	_, client := servertest.Shared(t)
	var words []any
	for _, key := range keyNames(1000) {
		words = append(words, key, 2, 1, 1, 1)
	}
	for _, c := range commands {
		accepted := map[int]bool{}
		for count := 1; count <= c.most(); count++ {
			for _, line := range c.calls(keyNames(count)...) {
				accepted[len(strings.Fields(line))-1] = true
				require.NotContains(t, servertest.Try(client, line), "wrong number", line)
			}
		}
		require.NoError(t, client.FlushAll(t.Context()).Err())
		for _, count := range []int{0, 3, 4, 5, 6, 7, 9, 10, 11, 12, 319, 320, 321, 322, 325, 326, 5000} {
			if !accepted[count] {
				requireRefused(t, client, "ERR wrong number of arguments for '"+c.name+"' command", append([]any{c.name}, words[:count]...)...)
			}
		}
	}
}

// TestErrors, each with its full text: of a call of one funnel, and of three, of which the
// second is wrong.
func TestErrors(t *testing.T) {
	_, client := servertest.Shared(t)
	require.NoError(t, client.RPush(t.Context(), "list", "a").Err())
	require.NoError(t, client.Set(t.Context(), "word", "abc", 0).Err())
	for _, c := range []struct {
		funnel string
		begins contract.Error
		ends   string
	}{
		{"k 1.5 1 1 1", contract.ErrCapacity, "1 to " + most + ", not '1.5'"},
		{"k 0 1 1 1", contract.ErrCapacity, "1 to " + most + ", not '0'"},
		{"k 2 0 1 1", contract.ErrCount, ", not '0'"},
		{"k 2 1 0 1", contract.ErrPeriod, ", not '0'"},
		{"k 2 1 0.0000000001 1", contract.ErrPeriod, ", not '0.0000000001'"},
		{"k 2 1 1 -1", contract.ErrQuantity, ", not '-1'"},
		{"k 2 1 1 01", contract.ErrQuantity, ", not '01'"},
		{"k 2 1000000001 1 1", contract.ErrEmissionInterval, ": got capacity 2, count 1000000001, period 1, quantity 1"},
		{"k " + most + " 1 1 1", contract.ErrTolerance, ": got capacity " + most + ", count 1, period 1, quantity 1"},
		{"k 2 1 1 " + most, contract.ErrIncrement, ": got capacity 2, count 1, period 1, quantity " + most},
		{"list 2 1 1 1", contract.ErrType, ""},
		{"word 2 1 1 0", contract.ErrFunnel, ""},
		{"k 1 1 " + century + " 1", contract.ErrTAT, ": got capacity 1, count 1, period " + century + ", quantity 1"},
	} {
		for _, command := range commands {
			if c.begins == command.without {
				continue
			}
			ends := c.ends
			if command.name == "cl.throttle" && strings.HasPrefix(c.funnel, "k 0 ") {
				ends += ": for clients of redis-cell, whose argument is one less than the limit, load the module with 'compat redis-cell'"
			}
			requireRefused(t, client, string(c.begins)+ends, servertest.Words(command.name+" "+c.funnel)...)
			if command.most() > 1 {
				line := command.name + " first 2 1 1 1 " + c.funnel + " last 2 1 1 1"
				requireRefused(t, client, string(c.begins.Of(2))+c.ends, servertest.Words(line)...)
			}
		}
	}
}

// TestBadArgumentsLeaveTheKeyAlone: it is not even opened, which would delete one that has expired.
func TestBadArgumentsLeaveTheKeyAlone(t *testing.T) {
	_, client := servertest.Shared(t)
	ctx := t.Context()
	require.NoError(t, client.Do(ctx, "debug", "set-active-expire", 0).Err())
	defer client.Do(ctx, "debug", "set-active-expire", 1)
	require.NoError(t, client.Set(ctx, "key", 1, time.Millisecond).Err())
	time.Sleep(2 * time.Millisecond)
	for _, c := range commands {
		for _, bad := range []string{"15 1", "x 1 1 1", "15 x 1 1", "15 1 x 1", "15 1 1 x", "15 1000000001 1 1", most + " 1 1 1"} {
			require.Regexp(t, "^ERR ", servertest.Try(client, c.name+" key "+bad))
		}
	}
	require.EqualValues(t, 1, client.DBSize(ctx).Val())
	servertest.Call(t, client, "cl.throttle key 15 30 60 0")
	require.Zero(t, client.DBSize(ctx).Val(), "a call that is fine finds it expired")
}

// TestErrorsOfAnyBytes are a line, not a flood, and let nothing into the protocol.
func TestErrorsOfAnyBytes(t *testing.T) {
	_, client := servertest.Shared(t)
	long := strings.Repeat("9", 1<<20)
	for _, c := range commands {
		for at := 2; at <= 5; at++ {
			for word, shown := range map[string]string{"a\r\nb\x00\xff": "not 'a??b??'", "1." + long: "and more"} {
				words := servertest.Words(c.name + " k 1 1 1 1")
				words[at] = word
				err := client.Do(t.Context(), words...).Err()
				require.ErrorContains(t, err, shown)
				require.Less(t, len(err.Error()), 512)
			}
		}
	}
	require.Equal(t, "PONG", client.Ping(t.Context()).Val(), "the connection is still in step")
}

// TestKeysThatHoldNoFunnel, of other types or with other values: they reply an error, also
// to a peek, and stay as they are.
func TestKeysThatHoldNoFunnel(t *testing.T) {
	_, client := servertest.Shared(t)
	ctx := t.Context()
	for _, write := range [][]any{
		{"rpush", "list", "a"}, {"sadd", "set", "a"}, {"hset", "hash", "a", 1}, {"zadd", "sorted", 1, "a"}, {"xadd", "stream", "*", "a", 1},
		{"set", "nothing", ""}, {"set", "negative", "-5"}, {"set", "2^63", "9223372036854775808"}, {"set", "zero-byte", "5\x00"},
		{"set", "leading-zeros", "005"}, {"set", "binary", "\xff\xfe\x00\x01"}, {"set", "10MB-of-digits", strings.Repeat("1", 10<<20)},
	} {
		require.NoError(t, client.Do(ctx, write...).Err())
		key, want := write[1].(string), string(contract.ErrFunnel)
		if write[0] != "set" {
			want = client.Get(ctx, key).Err().Error() // WRONGTYPE, in the words of the server
		}
		before := client.Dump(ctx, key).Val()
		for _, c := range commands {
			for _, quantity := range []string{"0", "1"} {
				require.Equal(t, want, servertest.Try(client, c.name+" "+key+" 15 30 60 "+quantity), c.name)
			}
		}
		require.True(t, before == client.Dump(ctx, key).Val(), key)
		require.EqualValues(t, -1, client.PTTL(ctx, key).Val(), "no expiry was added")
	}
}
