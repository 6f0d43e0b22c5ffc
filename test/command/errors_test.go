// Each error has its full text here, and changes nothing. TestCommandsAgreeWithTheContract tries
// more values of keys.

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
	maxInt  = "9223372036854775807"  // the largest integer of 64 bits
	century = "9223372036.854775807" // the same number of nanoseconds in seconds: almost three centuries
)

// requireRefused requires the error of a call, and that it changes nothing.
func requireRefused(t *testing.T, client *redis.Client, want string, words ...any) {
	before := servertest.Dumps(t, client)
	dirty := servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save")
	require.EqualError(t, client.Do(t.Context(), words...).Err(), want, "%.200q", fmt.Sprint(words...))
	require.Equal(t, before, servertest.Dumps(t, client))
	require.Equal(t, dirty, servertest.InfoField(t, client, "persistence", "rdb_changes_since_last_save"))
}

// TestErrors provokes each error by a call of one row, and by a call of eleven rows of which the
// tenth is wrong. Commands that take one row take no slots, and CL.THROTTLE takes no quotas. The
// fuzzer tries all numbers of words.
func TestErrors(t *testing.T) {
	client, _ := servertest.StartWithClock(t)
	require.NoError(t, client.RPush(t.Context(), "list", "a").Err())
	values := client.MSet(t.Context(), "word", "abc", "funnel", 1, "full", "used:"+maxInt, "none", "used:0")
	require.NoError(t, values.Err())
	require.NoError(t, client.Do(t.Context(), "zadd", "slots", maxInt, "a").Err())
	nine := " " // rows without an error
	for row := range 9 {
		nine += fmt.Sprint(row, " 2 1 1 1 ")
	}
	for _, c := range []struct {
		funnel string
		begins contract.Error
		ends   string
	}{
		{"k 1.5 1 1 1", contract.ErrCapacity, "1 to " + maxInt + ", not '1.5'"},
		{"k 0 1 1 1", contract.ErrCapacity, "1 to " + maxInt + ", not '0'"},
		{"k 2 0 1 1", contract.ErrCount, ", not '0'"},
		{"k 2 ~\x1f\x7f漏 1 1", contract.ErrCount, ", not '~?????'"},
		{"k 2 " + strings.Repeat("9", 40) + " 1 1", contract.ErrCount, ", not '" + strings.Repeat("9", 40) + "'"},
		{"k 2 1 0 1", contract.ErrPeriod, ", not '0'"},
		{"k 2 1 1 -1", contract.ErrQuantity, ", not '-1'"},
		{"k 2 1000000001 1 1", contract.ErrEmissionInterval, ": got capacity 2, count 1000000001, period 1, quantity 1"},
		{"k " + maxInt + " 1 1 1", contract.ErrTolerance, ": got capacity " + maxInt + ", count 1, period 1, quantity 1"},
		{"k 2 1 1 " + maxInt, contract.ErrIncrement, ": got capacity 2, count 1, period 1, quantity " + maxInt},
		{"list 2 1 1 1", contract.ErrType, ""},
		{"slots 2 1 1 0", contract.ErrType, ""},
		{"word 2 1 1 0", contract.ErrFunnel, ""},
		{"k 1 1 " + century + " 1", contract.ErrTAT, ": got capacity 1, count 1, period " + century + ", quantity 1"},
		{"k -1 slots 0 a", contract.ErrLimit, ", not '-1'"},
		{"k " + maxInt + "0 Slots 1 a", contract.ErrLimit, ", not '" + maxInt + "0'"},
		{"k 2 SLOTS 0.000999999 a", contract.ErrTTL, ", not '0.000999999'"},
		{"k 2 SLOTS 1e3 a", contract.ErrTTL, ", not '1e3'"},
		{"k 2 SLOTS 1 " + strings.Repeat("h", 256), contract.ErrHolder, ", not '" + strings.Repeat("h", 40) + "' and more"},
		{"k 2 SLOTTS 1 a", contract.ErrCount, ", not 'SLOTTS'"},
		{"list 2 SLOTS 1 a", contract.ErrType, ""},
		{"word 0 SLOTS 1 a", contract.ErrType, ""},
		{"k -1 UNTIL 0 x", contract.ErrLimit, ", not '-1'"},
		{"k 2 until 0 x", contract.ErrUntil, ", not '0'"},
		{"k 2 UNTIL 9223372036.854775808 x", contract.ErrUntil, ", not '9223372036.854775808'"},
		{"k 2 UNTIL + x", contract.ErrUntil, ", not '+'"},
		{"k 2 UNTIL +0.000999999 x", contract.ErrUntil, ", not '+0.000999999'"},
		{"k 2 UNTIL ++1 x", contract.ErrUntil, ", not '++1'"},
		{"k 2 UNTIL +9223372036.854775808 x", contract.ErrUntil, ", not '+9223372036.854775808'"},
		{"k 2 UNTIL +1 x", contract.ErrQuantity, ", not 'x'"},
		{"k 2 UNTIL +" + century + " 1", contract.ErrPeriodEnd, ": got until +" + century + ", quantity 1"},
		{"word 2 UNTIL +" + century + " 1", contract.ErrQuota, ""},
		{"k 2 UNTIL 1 x", contract.ErrQuantity, ", not 'x'"},
		{"k 2 UNTILL 1 1", contract.ErrCount, ", not 'UNTILL'"},
		// They differ from UNTIL and SLOTS in the upper bits of one letter.
		{"k 2 5NTIL 5000000000 1", contract.ErrCount, ", not '5NTIL'"},
		{"k 2 \xd5NTIL 5000000000 1", contract.ErrCount, ", not '?NTIL'"},
		{"k 2 UNTI, 5000000000 1", contract.ErrCount, ", not 'UNTI,'"},
		{"k 2 3LOTS 1 a", contract.ErrCount, ", not '3LOTS'"},
		{"list 2 UNTIL 4102444800 1", contract.ErrEnded, ": got 4102444800, and it is 4102444800"},
		{"list 2 UNTIL 5000000000 1", contract.ErrType, ""},
		{"slots 2 UNTIL 5000000000 0", contract.ErrType, ""},
		{"word 2 UNTIL 5000000000 0", contract.ErrQuota, ""},
		{"funnel 2 UNTIL 5000000000 1", contract.ErrQuota, ""},
		{"none 2 UNTIL 5000000000 1", contract.ErrQuota, ""},
		{"full 2 1 1 1", contract.ErrFunnel, ""},
		{"full 2 SLOTS 1 a", contract.ErrType, ""},
		{"full 2 UNTIL 5000000000 1", contract.ErrUsed, ": got until 5000000000, quantity 1"},
		{"k 2 SLOTS " + century + " a", contract.ErrEnd, ": got ttl " + century},
	} {
		for _, command := range commands {
			isSlots := strings.Contains(strings.ToUpper(c.funnel), " SLOTS ")
			isQuota := strings.Contains(strings.ToUpper(c.funnel), " UNTIL ")
			never := c.begins == command.without || isSlots && command.maxRows() == 1 || isQuota && command.name == "cl.throttle"
			never = never || c.begins == contract.ErrUsed && command.name != "cl.charge"
			never = never || (c.begins == contract.ErrEnd || c.begins == contract.ErrEnded) && command.name == "cl.refund"
			if never {
				continue
			}
			begins, ends := c.begins, c.ends
			word := strings.Fields(c.funnel)[3]
			if word[0] == '+' && command.name == "cl.refund" {
				begins, ends = contract.ErrUntilOfRefund, ", not '"+word+"'"
			}
			if command.name == "cl.throttle" && strings.HasPrefix(c.funnel, "k 0 ") {
				ends += ": for clients of redis-cell, whose argument is one less than the limit, " +
					"load the module with 'compat redis-cell'"
			}
			requireRefused(t, client, string(begins)+ends, servertest.Words(command.name+" "+c.funnel)...)
			if command.maxRows() > 1 {
				line := command.name + nine + c.funnel + " last 2 1 1 1"
				requireRefused(t, client, string(begins.Of(10))+ends, servertest.Words(line)...)
			} else {
				requireRefused(t, client, string(contract.ErrCount)+", not 'SLOTS'", command.name, "k", 2, "SLOTS", 1, 1)
			}
		}
	}
	for _, command := range commands {
		requireRefused(t, client, string(contract.ErrCount), command.name, "k", 2, "", 1, 1)
		if command.name == "cl.throttle" {
			requireRefused(t, client, string(contract.ErrCount)+", not 'UNTIL'", command.name, "k", 2, "UNTIL", 5000000000, 1)
		}
		for _, call := range command.calls(keyNames(command.maxRows())...) {
			require.NotContains(t, servertest.Try(client, call), "wrong number")
			want := "ERR wrong number of arguments for '" + command.name + "' command"
			requireRefused(t, client, want, servertest.Words(call+" k 2 1 1 1")...)
		}
	}
}

// TestBadArgumentsLeaveTheKeyAlone: a call with a wrong argument does not open its key. Opening a
// key that has expired would delete the key.
func TestBadArgumentsLeaveTheKeyAlone(t *testing.T) {
	client, _ := servertest.StartWithClock(t)
	ctx := t.Context()
	require.NoError(t, client.Do(ctx, "debug", "set-active-expire", 0).Err())
	defer client.Do(ctx, "debug", "set-active-expire", 1)
	require.NoError(t, client.Set(ctx, "key", 1, time.Millisecond).Err())
	time.Sleep(2 * time.Millisecond)
	for _, c := range commands {
		for _, bad := range []string{
			"15 1", "x 1 1 1", "15 x 1 1", "15 1 x 1", "15 1 1 x", "15 1000000001 1 1", maxInt + " 1 1 1",
			"-1 SLOTS 1 a", "1 UNTIL 1 x",
		} {
			require.Regexp(t, "^(INVALID|ERR wrong number of) ", servertest.Try(client, c.name+" key "+bad))
		}
	}
	require.EqualValues(t, 1, client.DBSize(ctx).Val())
	servertest.Call(t, client, "cl.throttle key 15 30 60 0")
	require.Zero(t, client.DBSize(ctx).Val(), "a call without an error finds it expired")
}
