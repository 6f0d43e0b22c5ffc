// What each command replies and stores, call after call, to the nanosecond.

package command_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
)

// A step of a story is a call at an instant, and what comes of it.
type step struct {
	at    string // after the first instant
	call  string
	reply string
	state string // the TAT of each key, after the first instant
}

const late = "late=1422479h47m16.854775807s" // 2^63-1 nanoseconds after 1970

// stories are the rows of the contract. Unless they say otherwise, a funnel holds two
// tokens and leaks one in a second.
var stories = map[string][]step{
	"throttle takes what fits, or says when it will": {
		{"0s", "cl.throttle k 10 1 1 4", "0 10 6 -1 4", "k=4s"},
		{"0s", "cl.throttle k 10 1 1 0", "0 10 6 -1 4", "k=4s"},
		{"0s", "cl.throttle k 10 1 1 7", "1 10 6 1 4", "k=4s"},
		{"0s", "cl.throttle k 10 1 1 11", "1 10 6 -1 4", "k=4s"},
		{"0s", "cl.throttle k 10 1 1 6", "0 10 0 -1 10", "k=10s"},
		{"0s", "cl.throttle k 10 1 1", "1 10 0 1 10", "k=10s"},
		{"0s", "cl.throttle new 10 1 1 11", "1 10 10 -1 0", "k=10s"},
	},
	"too late is an error only of tokens that are taken": {
		{"0s", "cl.charge late 1 1 5120927236.854775807 1", "0 0 [0 1 0 0 5120927236.854775807 1422479h47m16.854775807s]", late},
		{"0s", "cl.reserve late 2 1 1 1 9223372036", string(contract.ErrTAT), late},
		{"0s", "cl.reserve a 2 1 1 1 late 2 1 1 1", "1 5120927235.854775807 [0 2 2 0 0] [1 2 0 5120927235.854775807 5120927236.854775807]", late},
		{"0s", "cl.reserve a 2 1 1 1 new 1 1 9223372036 1", string(contract.ErrTAT.Of(2)), late},
		{"0s", "cl.take late 9223372036 1 1 1", string(contract.ErrTAT), late},
		{"0s", "cl.charge late 2 1 1 1", string(contract.ErrTAT), late},
		{"0s", "cl.refund late 2 1 1 1", "1 5120927233.854775807 [1 2 0 5120927233.854775807 5120927235.854775807]", "late=1422479h47m15.854775807s"},
	},
	"throttle rounds seconds up": {
		{"0s", "cl.throttle k 1 1 1.000000001", "0 1 0 -1 2", "k=1.000000001s"},
		{"1ns", "cl.throttle k 1 1 1.000000001", "1 1 0 1 1", "k=1.000000001s"},
		{"1.000000001s", "cl.throttle k 1 1 1.000000001", "0 1 0 -1 2", "k=2.000000002s"},
	},
	"the clock of the machine may step: what is stored stays": {
		{"0s", "cl.throttle k 15 30 60 5", "0 15 10 -1 10", "k=10s"},
		{"-18s", "cl.throttle k 15 30 60", "0 15 0 -1 30", "k=12s"},
	},
	"the longest time that there is": {
		{"-4102444800s", "cl.reserve k 1 1 9223372036.854775807 1 9223372036.854775807", "0 0 [0 1 0 0 9223372036.854775807 1422479h47m16.854775807s]", "k" + late[4:]},
		{"0s", "cl.refund k 1 1 9223372036.854775807 1", "0 0 [0 1 1 0 0]", ""},
		{"0s", "cl.throttle k 9223372036854775807 1 0.000000001", "0 9223372036854775807 9223372036854775806 -1 1", "k=1ns"},
	},
	"reservations are served in the order of asking": {
		{"0s", "cl.reserve k 2 1 1 1", "0 0 [0 2 1 0 1 1s]", "k=1s"},
		{"0s", "cl.reserve k 2 1 1 1 0", "0 0 [0 2 0 0 2 2s]", "k=2s"},
		{"0s", "cl.reserve k 2 1 1 1 1", "0 1 [0 2 0 1 3 3s]", "k=3s"},
		{"0.25s", "cl.reserve k 2 1 1 3 9223372036.854775807", "1 -1 [1 2 0 -1 2.75]", "k=3s"},
		{"0.25s", "cl.throttle k 2 1 1 1", "1 2 0 2 3", "k=3s"},
	},
	"reserve says how long to wait before asking again, and never": {
		{"0s", "cl.reserve k 2 1 1 2 0.5", "0 0 [0 2 0 0 2 2s]", "k=2s"},
		{"1.499999999s", "cl.reserve k 2 1 1 2 0.5", "1 0.000000001 [1 2 1 0.000000001 0.500000001]", "k=2s"},
		{"1.5s", "cl.reserve k 2 1 1 2 0.5", "0 0.5 [0 2 0 0.5 2.5 4s]", "k=4s"},
	},
	"reserve with quantity 0 writes nothing": {
		{"0s", "cl.charge k 2 1 1 5", "1 3 [1 2 0 3 5 5s]", "k=5s"},
		{"0s", "cl.reserve k 2 1 1 0", "1 3 [1 2 0 3 5]", "k=5s"},
		{"0s", "cl.reserve k 2 1 1 0 3", "0 3 [0 2 0 3 5]", "k=5s"},
	},
	"tokens are taken from all funnels, and not later": {
		{"0s", "cl.reserve a 2 1 1 1 b 2 1 1 1 0.000000001", string(contract.ErrMaxWaits) + ", not '0.000000001'", ""},
		{"0s", "cl.reserve a 2 1 1 1 b 4 2 1 3", "0 0 [0 2 1 0 1 1s] [0 4 1 0 1.5 1.5s]", "a=1s b=1.5s"},
		{"0.5s", "cl.reserve b 4 2 1 1 c 1 1 1 1 a 2 1 1 1 0", "0 0 [0 4 1 0 1.5 2s] [0 1 0 0 1 1.5s] [0 2 0 0 1.5 2s]", "a=2s b=2s c=1.5s"},
		{"0.5s", "cl.reserve a 2 1 1 0 d 2 1 1 1", "0 0 [0 2 0 0 1.5] [0 2 1 0 1 1.5s]", "a=2s b=2s c=1.5s d=1.5s"},
	},
	"tokens are taken from all funnels or none": {
		{"0s", "cl.charge b 2 1 1 1 c 2 1 1 2", "0 0 [0 2 1 0 1 1s] [0 2 0 0 2 2s]", "b=1s c=2s"},
		{"0.5s", "cl.reserve c 2 1 1 1 b 2 1 1 1 a 2 1 1 1 0", "1 0.5 [1 2 0 0.5 1.5] [0 2 1 0 0.5] [0 2 2 0 0]", "b=1s c=2s"},
		{"0.5s", "cl.reserve c 2 1 1 2 b 2 1 1 2", "1 1.5 [1 2 0 1.5 1.5] [1 2 1 0.5 0.5]", "b=1s c=2s"},
		{"0.5s", "cl.reserve c 2 1 1 2 a 2 1 1 3 b 2 1 1 1", "1 -1 [1 2 0 1.5 1.5] [1 2 2 -1 0] [0 2 1 0 0.5]", "b=1s c=2s"},
	},
	"take takes as many tokens as fit": {
		{"0s", "cl.take k 10 1 1 4", "0 0 [0 10 6 0 4 4s] 4", "k=4s"},
		{"0.25s", "cl.take k 10 1 1 6", "0 0 [0 10 0 0 9.75 10s] 6", "k=10s"},
		{"1s", "cl.take k 10 1 1 2", "1 1 [1 10 0 1 10 11s] 1", "k=11s"},
		{"20s", "cl.take k 10 1 1 9223372036854775807", "1 1 [1 10 0 1 10 30s] 10", "k=30s"},
	},
	"take from an overfull funnel waits for one more token": {
		{"0s", "cl.charge k 2 1 1 5", "1 3 [1 2 0 3 5 5s]", "k=5s"},
		{"3.999999999s", "cl.take k 2 1 1 9", "1 0.000000001 [1 2 0 0.000000001 1.000000001] 0", "k=5s"},
		{"4s", "cl.take k 2 1 1 9", "1 1 [1 2 0 1 2 6s] 1", "k=6s"},
	},
	"peek tells what reserve would, and the state as it is": {
		{"0s", "cl.peek k 2 1 1 3", "1 -1 [1 2 2 -1 0]", ""},
		{"0s", "cl.charge k 2 1 1 1", "0 0 [0 2 1 0 1 1s]", "k=1s"},
		{"0.25s", "cl.peek k 2 1 1 2", "1 0.75 [1 2 1 0.75 0.75]", "k=1s"},
		{"0.25s", "cl.peek new 5 1 1 6 k 2 1 1 2", "1 -1 [1 5 5 -1 0] [1 2 1 0.75 0.75]", "k=1s"},
	},
	"charge accounts for tokens whatever the funnel holds": {
		{"0s", "cl.charge k 2 1 1 2", "0 0 [0 2 0 0 2 2s]", "k=2s"},
		{"0s", "cl.charge k 2 1 1 1", "1 1 [1 2 0 1 3 3s]", "k=3s"},
		{"0s", "cl.charge k 2 1 1 7", "1 8 [1 2 0 8 10 10s]", "k=10s"},
		{"7.999999999s", "cl.charge k 2 1 1 0", "1 0.000000001 [1 2 0 0.000000001 2.000000001]", "k=10s"},
		{"30s", "cl.charge k 2 1 1 1", "0 0 [0 2 1 0 1 31s]", "k=31s"},
		{"30s", "cl.charge new 2 1 1 3 k 2 1 1 1", "1 1 [1 2 0 1 3 33s] [0 2 0 0 2 32s]", "k=32s new=33s"},
	},
	"refund gives back, but nothing that has leaked": {
		{"0s", "cl.refund k 2 1 1 1", "0 0 [0 2 2 0 0]", ""},
		{"0s", "cl.charge k 2 1 1 4", "1 2 [1 2 0 2 4 4s]", "k=4s"},
		{"0s", "cl.refund k 2 1 1 1", "1 1 [1 2 0 1 3]", "k=3s"},
		{"0.5s", "cl.refund k 2 1 1 1", "0 0 [0 2 0 0 1.5]", "k=2s"},
		{"0.5s", "cl.refund k 2 1 1 1", "0 0 [0 2 1 0 0.5]", "k=1s"},
		{"0.999999999s", "cl.refund k 2 1 1 1", "0 0 [0 2 2 0 0]", ""},
		{"1s", "cl.charge k 2 1 1 1", "0 0 [0 2 1 0 1 2s]", "k=2s"},
		{"3s", "cl.refund k 2 1 1 1", "0 0 [0 2 2 0 0]", "k=2s"},
		{"3s", "cl.charge a 2 1 1 1 b 2 1 1 2", "0 0 [0 2 1 0 1 4s] [0 2 0 0 2 5s]", "a=4s b=5s k=2s"},
		{"3s", "cl.refund a 2 1 1 1 b 2 1 1 1 k 2 1 1 1", "0 0 [0 2 2 0 0] [0 2 1 0 1] [0 2 2 0 0]", "b=4s k=2s"},
	},
	"refund with a receipt leaves the tokens of others": {
		{"0s", "cl.reserve k 10 10 1 10", "0 0 [0 10 0 0 1 1s]", "k=1s"},
		{"1.1s", "cl.reserve k 10 10 1 10", "0 0 [0 10 0 0 1 2.1s]", "k=2.1s"},
		{"1.1s", "cl.refund k 10 10 1 10 @1s", "0 0 [0 10 0 0 1]", "k=2.1s"},
	},
	"refund with a receipt gives back what has not leaked": {
		{"0s", "cl.reserve k 10 10 1 10", "0 0 [0 10 0 0 1 1s]", "k=1s"},
		{"0.25s", "cl.refund k 10 10 1 2 @1s", "0 0 [0 10 4 0 0.55]", "k=800ms"},
		{"0.25s", "cl.refund k 10 10 1 8 @1s", "0 0 [0 10 10 0 0]", ""},
		{"1s", "cl.take k 10 10 1 4", "0 0 [0 10 6 0 0.4 1.4s] 4", "k=1.4s"},
		{"1s", "cl.charge k 10 10 1 12", "1 0.6 [1 10 0 0.6 1.6 2.6s]", "k=2.6s"},
		{"1.25s", "cl.refund k 10 10 1 1 @1.4s", "1 0.25 [1 10 0 0.25 1.25]", "k=2.5s"},
		{"1.25s", "cl.refund k 10 10 1 9 @1.4s", "1 0.1 [1 10 0 0.1 1.1]", "k=2.35s"},
		{"1.25s", "cl.refund k 10 10 1 9 @1.250000001s", "1 0.099999999 [1 10 0 0.099999999 1.099999999]", "k=2.349999999s"},
		{"1.4s", "cl.refund k 10 10 1 9 0", "0 0 [0 10 0 0 0.949999999]", "k=2.349999999s"},
		{"1.4s", "cl.refund k 10 10 1 9 9223372036854775807", "0 0 [0 10 9 0 0.049999999]", "k=1.449999999s"},
	},
	"refund moves nobody forward": {
		{"0s", "cl.reserve k 1 1 1 1 9", "0 0 [0 1 0 0 1 1s]", "k=1s"},
		{"0s", "cl.reserve k 1 1 1 1 9", "0 1 [0 1 0 1 2 2s]", "k=2s"},
		{"0s", "cl.reserve k 1 1 1 1 9", "0 2 [0 1 0 2 3 3s]", "k=3s"},
		{"0s", "cl.refund k 1 1 1 1", "1 1 [1 1 0 1 2]", "k=2s"},
		{"0s", "cl.reserve k 1 1 1 1 9", "0 2 [0 1 0 2 3 3s]", "k=3s"},
	},
	"to the nanosecond, and expire in the next millisecond": {
		{"0s", "cl.reserve k 1 1 1.000000001 1", "0 0 [0 1 0 0 1.000000001 1.000000001s]", "k=1.000000001s"},
		{"1s", "cl.reserve k 1 1 1.000000001 1 0.000000001", "0 0.000000001 [0 1 0 0.000000001 1.000000002 2.000000002s]", "k=2.000000002s"},
		{"1.999s", "cl.refund k 1 1 0.001000001 1", "0 0 [0 1 0 0 0.000000001]", "k=1.999000001s"},
		{"10s", "cl.charge k 3 7 0.5 1", "0 0 [0 3 2 0 0.071428571 10.071428571s]", "k=10.071428571s"},
		{"11s", "cl.throttle k 1 1 0.002", "0 1 0 -1 1", "k=11.002s"},
		{"3h", "cl.take k 3 3 1 4", "1 0.333333333 [1 3 0 0.333333333 0.999999999 3h0m0.999999999s] 3", "k=3h0m0.999999999s"},
	},
}

func TestStories(t *testing.T) {
	_, client := servertest.Shared(t)
	clock := servertest.ClockOf(client)
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, client.FlushAll(t.Context()).Err())
			for _, step := range steps {
				step.call = withTATs(step.call)
				at, err := time.ParseDuration(step.at)
				require.NoError(t, err)
				clock.Set(t, servertest.Epoch.Add(at))
				reply, _, _ := strings.Cut(servertest.Try(client, step.call), ": got ")
				require.Equal(t, step.reply, reply, "%s at %s", step.call, step.at)
				require.Equal(t, step.state, stateOf(t, client), "%s at %s", step.call, step.at)
			}
		})
	}
}
