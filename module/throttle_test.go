package module

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
)

// messageCapacity is C.MESSAGE_CAPACITY without the terminating zero, which the
// C side insists on.
const messageCapacity = 511

func requestOf(arguments ...string) request {
	request := request{
		capacity: arguments[0], count: arguments[1], period: arguments[2], quantity: "1",
		now: 1795236055976124882,
	}
	if len(arguments) > 3 {
		request.quantity = arguments[3]
	}
	return request
}

// reasonOf is the reason for which a request is refused.
func reasonOf(t testing.TB, request *request) string {
	t.Helper()
	_, _, ok := throttle(request)
	require.False(t, ok)
	return request.refusal.reason
}

func TestThrottleAnswersTheSeeds(t *testing.T) {
	request := requestOf("15", "30", "60")
	decision, quantity, ok := throttle(&request)
	require.True(t, ok)
	require.EqualValues(t, 1, quantity)
	require.Equal(t, gcra.Decision{
		Limit: 15, Remaining: 14, RetryAfter: gcra.NoRetry, ResetAfter: 2e9, TAT: request.now + 2e9,
	}, decision)
}

func TestThrottleReadsTheStoredTAT(t *testing.T) {
	request := requestOf("15", "30", "60", "0")
	request.stored, request.storedValue = storedString, strconv.FormatInt(request.now+30e9, 10)
	decision, _, ok := throttle(&request)
	require.True(t, ok)
	require.Zero(t, decision.Remaining)
	require.EqualValues(t, 30e9, decision.ResetAfter)
}

// TestArgumentsAreJudgedBeforeTheKey, as by the server's own commands.
func TestArgumentsAreJudgedBeforeTheKey(t *testing.T) {
	request := requestOf("15", "30", "x")
	request.stored = storedOtherType
	require.Equal(t, badPeriod, reasonOf(t, &request))
	request.period = "60"
	require.Equal(t, wrongType, reasonOf(t, &request))
}

func TestRedisCellModeAddsOneToTheCapacity(t *testing.T) {
	request := requestOf("0", "1", "1")
	require.Equal(t, badCapacity, reasonOf(t, &request))
	request.limitSurplus = 1
	decision, _, ok := throttle(&request)
	require.True(t, ok)
	require.EqualValues(t, 1, decision.Limit)

	request.capacity = "x"
	require.Equal(t, badCapacityRedisCell, reasonOf(t, &request))
	request.capacity = strconv.Itoa(math.MaxInt64)
	require.Equal(t, gcra.ErrTolerance.Error(), reasonOf(t, &request))
}

// FuzzThrottle: whatever the arguments and the value, there is either a decision
// or an error of one printable line that fits its buffer, and nothing is
// allocated on the way.
func FuzzThrottle(f *testing.F) {
	f.Add("15", "30", "60", "1", "1795236055976124882", int64(1795236055976124882), false)
	f.Add("0", "1", "0.000000001", "0", "", int64(0), true)
	f.Add(strings.Repeat("9", 19), "1", "9223372036.854775807", strings.Repeat("\xff", 100), "-1", int64(-1), false)
	f.Add("1", "9223372036854775807", "9223372036.854775807", "9223372036854775807", "0", int64(1), false)
	f.Add("9223372036854775807", "9223372036854775807", "9223372036.854775807", "9223372036854775807", "0", int64(1), false)
	f.Fuzz(func(t *testing.T, capacity, count, period, quantity, stored string, now int64, redisCell bool) {
		request := request{
			capacity: capacity, count: count, period: period, quantity: quantity,
			stored: storedString, storedValue: stored, now: now,
		}
		if redisCell {
			request.limitSurplus = 1
		}
		buffer := make([]byte, 0, messageCapacity)
		var message []byte
		var decision gcra.Decision
		var ok bool
		allocations := testing.AllocsPerRun(1, func() {
			decision, _, ok = throttle(&request)
			message = request.refusal.appendTo(buffer, &request)
		})
		require.Zero(t, allocations)
		if ok {
			require.GreaterOrEqual(t, decision.Remaining, int64(0))
			require.LessOrEqual(t, decision.Remaining, decision.Limit)
			return
		}
		require.LessOrEqual(t, len(message), messageCapacity)
		require.Regexp(t, `^(ERR|WRONGTYPE) [ -~]+$`, string(message))
	})
}
