// What each command replies and stores, call after call, to the nanosecond. The fuzzer of
// test/model also has values that other commands have written, in any encoding.

package command_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
)

// A step of a story is a call at an instant, its reply, and the state after it.
type step struct {
	at    string // after the first instant
	call  string
	reply string
	state string // of each key: see stateOf
}

const late = "late=1422479h47m16.854775807s" // 2^63-1 nanoseconds after 1970

// stories are sequences of calls, with the replies of the contract. Most funnels hold two tokens
// and leak one in a second.
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
		{"0s", "cl.charge late 1 1 5120927236.854775807 1", "0 0 [0 1 0 0 5120927236.854775807 1422479h47m16.854775807s]",
			late},
		{"0s", "cl.reserve late 2 1 1 1 9223372036", string(contract.ErrTAT), late},
		{"0s", "cl.reserve a 2 1 1 1 late 2 1 1 1",
			"1 5120927235.854775807 [0 2 2 0 0] [1 2 0 5120927235.854775807 5120927236.854775807]", late},
		{"0s", "cl.reserve a 2 1 1 1 new 1 1 9223372036 1", string(contract.ErrTAT.Of(2)), late},
		{"0s", "cl.take late 9223372036 1 1 1", string(contract.ErrTAT), late},
		{"0s", "cl.charge late 2 1 1 1", string(contract.ErrTAT), late},
		{"0s", "cl.refund late 2 1 1 1", "1 5120927233.854775807 [1 2 0 5120927233.854775807 5120927235.854775807]",
			"late=1422479h47m15.854775807s"},
	},
	"throttle rounds seconds up": {
		{"0s", "cl.throttle k 1 1 1.000000001", "0 1 0 -1 2", "k=1.000000001s"},
		{"1ns", "cl.throttle k 1 1 1.000000001", "1 1 0 1 1", "k=1.000000001s"},
		{"1.000000001s", "cl.throttle k 1 1 1.000000001", "0 1 0 -1 2", "k=2.000000002s"},
	},
	"the longest time that there is": {
		{"-4102444800s", "cl.reserve k 1 1 9223372036.854775807 1 9223372036.854775807",
			"0 0 [0 1 0 0 9223372036.854775807 1422479h47m16.854775807s]", "k" + late[4:]},
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
	"tokens are taken from all funnels, and not later": {
		{"0s", "cl.reserve a 2 1 1 1 b 2 1 1 1 0.000000001", string(contract.ErrMaxWaits) + ", not '0.000000001'", ""},
		{"0s", "cl.reserve a 2 1 1 1 b 4 2 1 3", "0 0 [0 2 1 0 1 1s] [0 4 1 0 1.5 1.5s]", "a=1s b=1.5s"},
		{"0.5s", "cl.reserve b 4 2 1 1 c 1 1 1 1 a 2 1 1 1 0", "0 0 [0 4 1 0 1.5 2s] [0 1 0 0 1 1.5s] [0 2 0 0 1.5 2s]",
			"a=2s b=2s c=1.5s"},
		{"0.5s", "cl.reserve a 2 1 1 0 d 2 1 1 1", "0 0 [0 2 0 0 1.5] [0 2 1 0 1 1.5s]", "a=2s b=2s c=1.5s d=1.5s"},
	},
	"tokens are taken from all funnels or none": {
		{"0s", "cl.charge b 2 1 1 1 c 2 1 1 2", "0 0 [0 2 1 0 1 1s] [0 2 0 0 2 2s]", "b=1s c=2s"},
		{"0.5s", "cl.reserve c 2 1 1 1 b 2 1 1 1 a 2 1 1 1 0", "1 0.5 [1 2 0 0.5 1.5] [0 2 1 0 0.5] [0 2 2 0 0]",
			"b=1s c=2s"},
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
		{"1s", "cl.reserve k 1 1 1.000000001 1 0.000000001", "0 0.000000001 [0 1 0 0.000000001 1.000000002 2.000000002s]",
			"k=2.000000002s"},
		{"1.999s", "cl.refund k 1 1 0.001000001 1", "0 0 [0 1 0 0 0.000000001]", "k=1.999000001s"},
		{"10s", "cl.charge k 3 7 0.5 1", "0 0 [0 3 2 0 0.071428571 10.071428571s]", "k=10.071428571s"},
		{"11s", "cl.throttle k 1 1 0.002", "0 1 0 -1 1", "k=11.002s"},
		{"3h", "cl.take k 3 3 1 4", "1 0.333333333 [1 3 0 0.333333333 0.999999999 3h0m0.999999999s] 3", "k=3h0m0.999999999s"},
	},
	"a slot is taken, renewed and given back": {
		{"0s", "cl.reserve k 2 SLOTS 30 a", "0 0 [0 2 1 0 30]", "k{a:30s}"},
		{"10s", "cl.reserve k 0 slots 30 a", "0 0 [0 0 0 0 30 20]", "k{a:40s}"},
		{"10s", "cl.peek k 2 Slots 1 a", "0 0 [0 2 1 0 30 30]", "k{a:40s}"},
		{"10s", "cl.reserve k 2 SLOTS 1 a 0", "0 0 [0 2 1 0 1 30]", "k{a:11s}"},
		{"10.5s", "cl.refund k 9 SLOTS 30 a", "0 0 [0 9 9 0 0 0.5]", ""},
		{"10.5s", "cl.refund k 2 SLOTS 30 a", "0 0 [0 2 2 0 0]", ""},
		{"10.5s", "cl.reserve k 0 SLOTS 30 a", "1 -1 [1 0 0 -1 0]", ""},
		{"10.5s", "cl.peek k 1 SLOTS 30 a", "0 0 [0 1 1 0 0]", ""},
	},
	"no more than limit slots run": { // as in KumoMTA's test: a, b, not c, and c after a
		{"0s", "cl.reserve k 2 SLOTS 30 a", "0 0 [0 2 1 0 30]", "k{a:30s}"},
		{"5s", "cl.reserve k 2 SLOTS 30 b", "0 0 [0 2 0 0 30]", "k{a:30s b:35s}"},
		{"10s", "cl.reserve k 2 SLOTS 30 c", "1 20 [1 2 0 20 25]", "k{a:30s b:35s}"},
		{"10s", "cl.reserve k 1 SLOTS 30 c", "1 20 [1 1 0 20 25]", "k{a:30s b:35s}"},
		{"10s", "cl.reserve k 1 SLOTS 30 a", "0 0 [0 1 0 0 30 20]", "k{b:35s a:40s}"},
		{"10s", "cl.peek k 9223372036854775807 SLOTS 30 c", "0 0 [0 9223372036854775807 9223372036854775805 0 30]",
			"k{b:35s a:40s}"},
		{"10s", "cl.peek k 0 SLOTS 30 c", "1 -1 [1 0 0 -1 30]", "k{b:35s a:40s}"},
		{"11s", "cl.refund k 2 SLOTS 30 a", "0 0 [0 2 1 0 24 29]", "k{b:35s}"},
		{"11s", "cl.reserve k 2 SLOTS 30 c", "0 0 [0 2 0 0 30]", "k{b:35s c:41s}"},
	},
	"a slot ends when the clock reaches its millisecond": {
		{"500ns", "cl.reserve k 1 SLOTS 0.001 a", "0 0 [0 1 0 0 0.0019995]", "k{a:2ms}"},
		{"1.999999ms", "cl.reserve k 1 SLOTS 0.001 b", "1 0.000000001 [1 1 0 0.000000001 0.000000001]", "k{a:2ms}"},
		{"2ms", "cl.reserve k 0 SLOTS 0.001 a", "1 -1 [1 0 0 -1 0]", "k{a:2ms}"},
		{"2ms", "cl.refund k 1 SLOTS 0.001 a", "0 0 [0 1 1 0 0]", "k{a:2ms}"},
		{"2ms", "cl.reserve k 1 SLOTS 0.001 b", "0 0 [0 1 0 0 0.001]", "k{b:3ms}"},
		{"3ms", "cl.reserve k 1 SLOTS 0.0010001 b", "0 0 [0 1 0 0 0.002]", "k{b:5ms}"},
	},
	"a slot that was renewed too late is given back twice, and lets nobody in": { // rails/solid_queue 761
		{"0s", "cl.reserve k 1 SLOTS 30 a", "0 0 [0 1 0 0 30]", "k{a:30s}"},
		{"31s", "cl.reserve k 1 SLOTS 30 b", "0 0 [0 1 0 0 30]", "k{b:1m1s}"},
		{"31s", "cl.reserve k 0 SLOTS 30 a", "1 -1 [1 0 0 -1 30]", "k{b:1m1s}"},
		{"32s", "cl.refund k 1 SLOTS 30 a", "0 0 [0 1 0 0 29]", "k{b:1m1s}"},
		{"32s", "cl.refund k 1 SLOTS 30 a", "0 0 [0 1 0 0 29]", "k{b:1m1s}"},
		{"32s", "cl.reserve k 1 SLOTS 30 c", "1 29 [1 1 0 29 29]", "k{b:1m1s}"},
	},
	"charge takes a slot that is not free": {
		{"0s", "cl.reserve k 1 SLOTS 30 a", "0 0 [0 1 0 0 30]", "k{a:30s}"},
		{"0s", "cl.charge k 1 SLOTS 20 b", "1 20 [1 1 0 20 30]", "k{b:20s a:30s}"},
		{"0s", "cl.charge k 2 SLOTS 20 b", "0 0 [0 2 0 0 30 20]", "k{b:20s a:30s}"},
		{"0s", "cl.charge k 0 SLOTS 40 c", "1 20 [1 0 0 20 40]", "k{b:20s a:30s c:40s}"},
		{"0s", "cl.refund k 0 SLOTS 30 b", "0 0 [0 0 0 0 40 20]", "k{a:30s c:40s}"},
		{"0s", "cl.charge new 0 SLOTS 10 a", "1 10 [1 0 0 10 10]", "k{a:30s c:40s} new{a:10s}"},
	},
	"members that others wrote count by their scores, rounded up": {
		{"0s", "zadd k -inf gone 4102444799999.5 half 4102444800000.5 soon inf ever", "4",
			"k{gone:-Inf half:-500µs soon:500µs ever:+Inf}"},
		{"0s", "cl.reserve k 2 SLOTS 1 a", "1 0.001 [1 2 0 0.001 9223372036.854775807]",
			"k{gone:-Inf half:-500µs soon:500µs ever:+Inf}"},
		{"0s", "cl.reserve k 3 SLOTS 1 a", "0 0 [0 3 0 0 9223372036.854775807]", "k{soon:500µs a:1s ever:+Inf}"},
		{"1ms", "cl.refund k 3 SLOTS 1 ever", "0 0 [0 3 2 0 0.999 9223372036.854775807]", "k{a:1s}"},
		{"1ms", "cl.reserve k 3 SLOTS 1 b", "0 0 [0 3 1 0 1]", "k{a:1s b:1.001s}"},
	},
	"a quota is used until its period ends, and then anew": {
		{"0s", "cl.reserve k 10 UNTIL ^60s 4", "0 0 [0 10 6 0 60 ^60s]", "k=used:4@1m0s"},
		{"20s", "cl.reserve k 10 until ^60s 6 0", "0 0 [0 10 0 0 40 ^60s]", "k=used:10@1m0s"},
		{"20s", "cl.reserve k 10 Until ^60s 1", "1 40 [1 10 0 40 40]", "k=used:10@1m0s"},
		{"20s", "cl.reserve k 10 UNTIL ^60s 11", "1 -1 [1 10 0 -1 40]", "k=used:10@1m0s"},
		{"20s", "cl.reserve k 10 UNTIL ^60s 0", "0 0 [0 10 0 0 40]", "k=used:10@1m0s"},
		{"59.999999999s", "cl.reserve k 10 UNTIL ^60s 1", "1 0.000000001 [1 10 0 0.000000001 0.000000001]", "k=used:10@1m0s"},
		{"60s", "cl.reserve k 10 UNTIL ^60s 1", "ENDED until must be later than the server's clock", "k=used:10@1m0s"},
		{"60s", "cl.reserve k 10 UNTIL ^120s 1", "0 0 [0 10 9 0 60 ^120s]", "k=used:1@2m0s"},
	},
	"a period begins with the first call, and is the same for all": {
		{"0.5ms", "cl.peek k 5 UNTIL +900 1", "0 0 [0 5 5 0 0]", ""},
		{"0.5ms", "cl.reserve k 5 UNTIL +900 0", "0 0 [0 5 5 0 0]", ""},
		{"0.5ms", "cl.reserve k 5 UNTIL +900 2", "0 0 [0 5 3 0 900.0005 ^900.001s]", "k=used:2@15m0.001s"},
		{"100s", "cl.reserve k 5 UNTIL +60 1", "0 0 [0 5 2 0 800.001 ^900.001s]", "k=used:3@15m0.001s"},
		{"100s", "cl.take k 5 UNTIL +9000 4", "1 800.001 [1 5 0 800.001 800.001 ^900.001s] 2", "k=used:5@15m0.001s"},
		{"100s", "cl.reserve k 5 UNTIL +0.001 1", "1 800.001 [1 5 0 800.001 800.001]", "k=used:5@15m0.001s"},
		{"100s", "cl.charge k 5 UNTIL +1 1", "1 800.001 [1 5 0 800.001 800.001 ^900.001s]", "k=used:6@15m0.001s"},
		{"100s", "cl.peek k 5 UNTIL +1 1", "1 800.001 [1 5 0 800.001 800.001]", "k=used:6@15m0.001s"},
		{"100s", "cl.refund k 5 UNTIL +900 2", "INVALID until must be the Unix time that a reply named: " +
			"it says which period counted the quantity, not '+900'", "k=used:6@15m0.001s"},
		{"200s", "cl.refund k 5 UNTIL ^900.001s 2", "0 0 [0 5 1 0 700.001]", "k=used:4@15m0.001s"},
		{"900.000999999s", "cl.reserve k 5 UNTIL +900 2", "1 0.000000001 [1 5 1 0.000000001 0.000000001]",
			"k=used:4@15m0.001s"},
		{"900.001s", "cl.refund k 5 UNTIL ^900.001s 1", "0 0 [0 5 5 0 0]", "k=used:4@15m0.001s"},
		{"900.001s", "cl.charge k 5 UNTIL ^900.001s 1", "ENDED until must be later than the server's clock",
			"k=used:4@15m0.001s"},
		{"1000s", "cl.reserve k 5 UNTIL +900 5", "0 0 [0 5 0 0 900 ^1900s]", "k=used:5@31m40s"},
		{"1000s", "cl.reserve k 5 UNTIL ^1500s 1", "1 500 [1 5 0 500 500]", "k=used:5@25m0s"},
		{"1000s", "cl.reserve k 6 UNTIL +900 1", "0 0 [0 6 0 0 500 ^1500s]", "k=used:6@25m0s"},
	},
	"a key that does not expire gets the end of a period that begins": {
		{"0s", "append k used:5", "6", "k=used:5"},
		{"0s", "cl.peek k 5 UNTIL +900 1", "1 900 [1 5 0 900 900]", "k=used:5"},
		{"0s", "cl.reserve k 5 UNTIL +900 1", "1 900 [1 5 0 900 900]", "k=used:5@15m0s"},
		{"1s", "cl.reserve k 5 UNTIL +900 1", "1 899 [1 5 0 899 899]", "k=used:5@15m0s"},
	},
	"no period begins that would end after 2262": {
		{"0s", "cl.reserve f 2 1 1 1 k 5 UNTIL +5120927236.854 1",
			"0 0 [0 2 1 0 1 1s] [0 5 4 0 5120927236.854 ^5120927236.854s]", "f=1s k=used:1@1422479h47m16.854s"},
		{"0s", "cl.reserve f 2 1 1 1 l 5 UNTIL +5120927236.854000001 0", "INVALID row 2: until is too large: " +
			"the period must end before the year 2262, 2^63-1 nanoseconds after the epoch", "f=1s k=used:1@1422479h47m16.854s"},
		{"0s", "cl.reserve k 5 UNTIL +9223372036.854775807 1", "0 0 [0 5 3 0 5120927236.854 ^5120927236.854s]",
			"f=1s k=used:2@1422479h47m16.854s"},
	},
	"quotas, slots and tokens are taken all or none": {
		{"0s", "cl.reserve f 2 1 1 1 s 1 SLOTS 30 a k 9 UNTIL ^60s 4", "0 0 [0 2 1 0 1 1s] [0 1 0 0 30] [0 9 5 0 60 ^60s]",
			"f=1s k=used:4@1m0s s{a:30s}"},
		{"0s", "cl.reserve f 2 1 1 1 s 1 SLOTS 40 a k 9 UNTIL ^60s 6", "1 60 [0 2 1 0 1] [0 1 0 0 30 30] [1 9 5 60 60]",
			"f=1s k=used:4@1m0s s{a:30s}"},
		{"0s", "cl.reserve k 9 UNTIL ^60s 1 s 1 SLOTS 40 b", "1 30 [0 9 5 0 60] [1 1 0 30 30]",
			"f=1s k=used:4@1m0s s{a:30s}"},
		{"0s", "cl.refund s 1 SLOTS 40 a k 9 UNTIL ^60s 4 f 2 1 1 1", "0 0 [0 1 1 0 0 30] [0 9 9 0 0] [0 2 2 0 0]", ""},
	},
}

// stateOf returns the state of each key: its TAT as the time after the first instant, its slots, or
// the used sum of its quota. It requires that a funnel expires at its TAT, rounded up to the next
// millisecond.
func stateOf(t *testing.T, client *redis.Client) string {
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	require.NoError(t, err)
	slices.Sort(keys)
	for i, key := range keys {
		if client.Type(ctx, key).Val() == "zset" {
			keys[i] += slotsOf(t, client, key)
			continue
		}
		value, err := client.Get(ctx, key).Result()
		require.NoError(t, err)
		if strings.HasPrefix(value, "used:") {
			keys[i] += quotaOf(t, client, key, value)
			continue
		}
		tat, err := strconv.ParseInt(value, 10, 64)
		require.NoError(t, err)
		require.Equal(t, tat/1e6+(tat%1e6+999_999)/1e6, servertest.ExpiryOf(t, client, key), key)
		keys[i] += "=" + time.Unix(0, tat).Sub(servertest.Epoch).String()
	}
	return strings.Join(keys, " ")
}

// slotsOf returns the holders of slots and the ends of the slots, as times after the first instant.
func slotsOf(t *testing.T, client *redis.Client, key string) string {
	members, err := client.ZRangeWithScores(context.Background(), key, 0, -1).Result()
	require.NoError(t, err)
	var words []string
	for _, member := range members {
		word := fmt.Sprint(member.Score)
		if milliseconds := member.Score - float64(servertest.Epoch.UnixMilli()); !math.IsInf(milliseconds, 0) {
			whole, part := math.Modf(milliseconds)
			word = (time.Duration(whole)*time.Millisecond + time.Duration(part*1e6)).String()
		}
		words = append(words, fmt.Sprint(member.Member, ":", word))
	}
	expiry, last := int64(-1), members[len(members)-1].Score
	if last < 1<<63 {
		expiry = int64(math.Ceil(last))
	}
	require.Equal(t, expiry, servertest.ExpiryOf(t, client, key), "%s: %v", key, words)
	return "{" + strings.Join(words, " ") + "}"
}

// quotaOf returns the used sum of a quota, and when its key expires, as the time after the first
// instant.
func quotaOf(t *testing.T, client *redis.Client, key, value string) string {
	if expiry := servertest.ExpiryOf(t, client, key); expiry >= 0 {
		value += "@" + time.UnixMilli(expiry).Sub(servertest.Epoch).String()
	}
	return "=" + value
}

var instants = regexp.MustCompile(`(?:UNTIL |')\+|\^\d[0-9.]*s|@\d[0-9.]*s|\+\d+`)

// withInstants replaces times after the first instant by the words of commands and replies: @1.5s
// becomes a TAT or a receipt, ^1.5s an until, and +1500 the Unix milliseconds of a slot's end or an
// expiry. UNTIL +1500 stays, and so does '+1500'.
func withInstants(text string) string {
	return instants.ReplaceAllStringFunc(text, func(word string) string {
		if strings.HasSuffix(word, "+") {
			return word
		}
		kind, span := word[0], word[1:]
		if kind == '+' {
			span += "ms"
		}
		after, err := time.ParseDuration(span)
		if err != nil {
			panic(err)
		}
		switch at := servertest.Epoch.Add(after); kind {
		case '@':
			return fmt.Sprint(at.UnixNano())
		case '^':
			return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()), "0"), ".")
		default:
			return fmt.Sprint(at.UnixMilli())
		}
	})
}

func TestStories(t *testing.T) {
	client, clock := servertest.StartWithClock(t)
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, client.FlushAll(t.Context()).Err())
			for _, step := range steps {
				step.call, step.reply = withInstants(step.call), withInstants(step.reply)
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

// TestTheClockIsThatOfTheMachine: by the machine's clock, the instant of a call lies between the
// instants before and after it, to the nanosecond.
func TestTheClockIsThatOfTheMachine(t *testing.T) {
	ctx, client := t.Context(), servertest.StartClient(t)
	for range 100 {
		before := time.Now().UnixNano()
		servertest.Call(t, client, "cl.throttle key 1 1 60")
		after := time.Now().UnixNano()
		tat, err := client.GetDel(ctx, "key").Int64()
		require.NoError(t, err)
		require.LessOrEqual(t, before, tat-60e9)
		require.LessOrEqual(t, tat-60e9, after)
	}
}

// TestBrokenSets: RESTORE accepts sets with scores that are not numbers, or not in order. With such
// a set, no call crashes or hangs, and the script's CL.PEEK writes nothing.
func TestBrokenSets(t *testing.T) {
	client, _ := servertest.StartWithClock(t)
	ctx, script := t.Context(), redis.NewScript(limiter.Script())
	for name, payload := range map[string]string{
		"nan, h": "\x0c%%\x00\x00\x00\x15\x00\x00\x00\x04\x00\x00\x01n\x03\x03nan\x05\x01h\x03\x0d4102444830000" +
			"\xff\x09\x00\xb7y-\xcfNl\x9bg",
		"h, -5, inf": "\x0c,,\x00\x00\x00&\x00\x00\x00\x06\x00\x00\x01h\x03\x0d4102444830000\x0f\x01n\x03\x02-5" +
			"\x04\x01i\x03\x03inf\xff\x09\x00\x22^#$0\xda\xbcz",
		"nan of h": "\x0c\x13\x13\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01h\x03\x03nan\xff\x09\x00\xd8\xef\xc0\xb2\xc8\x11A\xfb",
	} {
		if err := client.RestoreReplace(ctx, "k", 0, payload).Err(); err != nil { // Valkey 9 refuses some of these sets
			require.ErrorContains(t, err, "Bad data format")
			continue
		}
		for _, call := range []string{"cl.peek k 1 SLOTS 30 h", "cl.refund k 1 SLOTS 30 h"} {
			require.NoError(t, client.RestoreReplace(ctx, "k", 0, payload).Err(), name)
			require.Contains(t, servertest.Call(t, client, call), " 1 0 ", "%s: %s", name, call)
		}
		require.NoError(t, client.RestoreReplace(ctx, "k", 0, payload).Err(), name)
		before := client.Dump(ctx, "k").Val()
		require.NoError(t, script.Eval(ctx, client, []string{"k"}, "peek", 3, "SLOTS", 30, "h").Err(), name)
		require.Equal(t, before, client.Dump(ctx, "k").Val(), name)
	}
}

// TestZCOUNTMayBeMissing: calls let the server count many slots. If ZCOUNT has been renamed, the
// module counts them.
func TestZCOUNTMayBeMissing(t *testing.T) {
	for _, config := range [][]string{{}, {"--rename-command", "zcount", "hidden"}} {
		client := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t), Config: config}).Client(t)
		servertest.ClockOf(client).Set(t, servertest.Epoch)
		const fill = `for i = 1, 300 do redis.call('ZADD', KEYS[1], i, 'ended:' .. i, 4102444800000 + i, 'running:' .. i) end`
		require.ErrorIs(t, client.Eval(t.Context(), fill, []string{"k"}).Err(), redis.Nil)
		for limit, want := range map[string]string{"300": "1 0.001 [1 300 0 0.001 0.3]", "999": "0 0 [0 999 699 0 0.3]"} {
			require.Equal(t, want, servertest.Call(t, client, "cl.peek k "+limit+" SLOTS 30 h"), "%q", config)
		}
	}
}
