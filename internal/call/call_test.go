// A call takes from a funnel, slots and a quota, or from none of them. Package module/command
// compares whole commands with package contract.

package call_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/quota"
	"funnel/slots"
)

const (
	second = int64(1e9)
	now    = 1_800_000_000 * second
)

// rowsOf returns three rows. The first asks for 3 tokens of a funnel that holds level of 10 tokens
// and leaks one in a second. The second asks for one of 2 slots: another holder has a slot for 5
// seconds. The third asks for 6 of a quota of 10, of which 4 are used, until half a minute from
// now. The key of the quota expires in a minute.
func rowsOf(t *testing.T, level int64) []call.Row {
	rate, err := gcra.NewRate(10, 1, second)
	require.NoError(t, err)
	tokens, err := rate.Request(3)
	require.NoError(t, err)
	slot, err := slots.NewRequest(2, 30*second)
	require.NoError(t, err)
	part, err := quota.NewRequest(10, now+30*second, 6)
	require.NoError(t, err)
	end, expiry := (now+5*second)/1e6, (now+60*second)/1e6
	return []call.Row{
		{Kind: call.Funnel, Funnel: gcra.Funnel{Request: tokens, TAT: now + level*second}},
		{Kind: call.Slots, Slots: slots.Slots{Request: slot, State: slots.State{Running: 1, First: end, Last: end}}},
		{Kind: call.Quota, Quota: quota.Quota{Request: part, State: quota.State{Used: 4, Expiry: expiry}}},
	}
}

func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		operation call.Operation
		level     int64
		want      string // for each row: limited, remaining, wait and reset after in seconds, and whether the state changes
		sum       call.Summary
	}{
		"all rows allow the call": {
			call.Reserve, 2, "false 5 0 5 true, false 0 0 30 true, false 0 0 30 true", call.Summary{Asks: true},
		},
		"the funnel limits: the slot stays free, and the quota only cuts its period": {
			call.Reserve, 8, "true 2 1 8 false, false 1 0 5 false, false 6 0 30 true",
			call.Summary{Asks: true, Limited: true, Wait: second},
		},
		"a peek takes nothing, and each row says what it would": {
			call.Peek, 8, "true 2 1 8 false, false 1 0 5 false, false 6 0 30 false",
			call.Summary{Asks: true, Limited: true, Wait: second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows := rowsOf(t, c.level)
			_, err := c.operation.Apply(rows, now, 0, gcra.NoReceipt)
			require.NoError(t, err)
			var got []string
			for i := range rows {
				d := rows[i].Decision()
				got = append(got, fmt.Sprint(d.Limited, d.Remaining, d.Wait/second, d.ResetAfter/second, rows[i].Changes()))
			}
			require.Equal(t, c.want, strings.Join(got, ", "))
			require.Equal(t, c.sum, call.Summarize(rows))
		})
	}
}
