// Every operation decides as package contract says, for sets of slots drawn where the answer changes.

package slots_test

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/internal/contract"
	"funnel/slots"
)

const (
	millisecond = int64(1e6)

	// today is an instant in 2026, not on a millisecond.
	today = 1_800_000_000_000*millisecond + 1
)

// operations are the methods of Slots, by their names in the contract.
var operations = map[string]func(s *slots.Slots, now int64) error{
	"reserve": (*slots.Slots).Reserve,
	"peek":    (*slots.Slots).Peek,
	"charge":  (*slots.Slots).Charge,
	"refund":  func(s *slots.Slots, now int64) error { s.Refund(now); return nil },
}

// stateOf describes the slots that run, by holder, to one holder.
func stateOf(ends map[string]int64, holder string) slots.State {
	state := slots.State{Own: ends[holder], Running: int64(len(ends))}
	for other, end := range ends {
		if other == holder {
			continue
		}
		if state.First == 0 || end < state.First {
			state.First = end
		}
		state.Last = max(state.Last, end)
	}
	return state
}

// A question is a call of the holder "h". Ends are of the slots that run, in milliseconds.
type question struct {
	operation       string
	limit, ttl, now int64
	ends            map[string]int64
}

// ask answers a question by this package. The Decision holds numbers of an earlier call.
func (q question) ask() (slots.Decision, error) {
	request, err := slots.NewRequest(q.limit, q.ttl)
	if err != nil {
		if request != (slots.Request{}) {
			panic("a request beside an error")
		}
		return slots.Decision{}, err
	}
	s := slots.Slots{Request: request, State: stateOf(q.ends, "h"),
		Decision: slots.Decision{Limited: true, Limit: 77, Remaining: 77, Wait: 77, ResetAfter: 77, Held: 77, End: 77}}
	if s.State.Running > q.limit { // all numbers above the limit mean the same
		s.State.Running = q.limit + 1
	}
	if s.State.Running < q.limit { // then First does not matter
		s.State.First = 77
	}
	if err := operations[q.operation](&s, q.now); err != nil {
		return slots.Decision{}, err
	}
	if s.Changes() != (s.Decision.End != q.ends["h"]) {
		return slots.Decision{}, fmt.Errorf("Changes is %v", s.Changes())
	}
	return s.Decision, nil
}

// contract answers a question by package contract, whose requests are in range.
func (q question) contract() (slots.Decision, error) {
	switch {
	case q.limit < 0:
		return slots.Decision{}, slots.ErrLimit
	case q.ttl < millisecond:
		return slots.Decision{}, slots.ErrTTL
	}
	row := contract.Slots{Limit: big.NewInt(q.limit), TTL: big.NewInt(q.ttl), Holder: "h"}
	now := big.NewInt(q.now)
	d, end, failure := row.Decide(q.operation, q.ends, now)
	if failure != "" {
		return slots.Decision{}, slots.Error(strings.TrimPrefix(string(failure), "ERR "))
	}
	held := new(big.Int).Sub(new(big.Int).Mul(big.NewInt(q.ends["h"]), big.NewInt(millisecond)), now)
	decision := slots.Decision{Limited: d.Limited, Limit: d.Limit, Remaining: d.Remaining, Wait: d.Wait,
		ResetAfter: d.ResetAfter, End: end}
	switch {
	case held.Sign() <= 0:
	case held.IsInt64():
		decision.Held = held.Int64()
	default:
		decision.Held = math.MaxInt64
	}
	return decision, nil
}

// questions generates calls whose limits and ends gather where the answer changes.
var questions = rapid.Custom(func(t *rapid.T) question {
	q := question{
		operation: rapid.SampledFrom([]string{"reserve", "peek", "charge", "refund"}).Draw(t, "operation"),
		limit: rapid.OneOf(rapid.Int64Range(-1, 4),
			rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64})).Draw(t, "limit"),
		ttl: rapid.OneOf(rapid.Int64Range(millisecond-1, 3*millisecond), rapid.Int64Range(math.MinInt64, math.MaxInt64),
			rapid.Int64Range(math.MaxInt64-today-2, math.MaxInt64-today+2)).Draw(t, "ttl"),
		now:  rapid.OneOf(rapid.Int64Range(today-2, today+2), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "now"),
		ends: map[string]int64{},
	}
	end := rapid.OneOf(rapid.Int64Range(1, 4), rapid.Int64Range(1, 1<<62), rapid.Just(int64(math.MaxInt64)))
	for _, holder := range []string{"h", "a", "b", "c", "d"} {
		if rapid.Bool().Draw(t, holder+" has a slot") {
			ahead := end.Draw(t, "end of "+holder)
			q.ends[holder] = int64(min(uint64(q.now/millisecond)+uint64(ahead), math.MaxInt64))
		}
	}
	return q
})

// More than rapid's 100 checks by default: a check is cheap. -rapid.checks on the command line overrides it.
func init() {
	if err := flag.Set("rapid.checks", "20000"); err != nil {
		panic(err)
	}
}

func TestOperationsAgreeWithTheContract(t *testing.T) {
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		q := questions.Draw(t, "question")
		got, err := q.ask()
		want, wantErr := q.contract()
		require.Equal(t, wantErr, err, "package and contract differ: %+v", q)
		require.Equal(t, want, got, "package and contract differ: %+v", q)
		met[fmt.Sprint(q.operation, " limited ", got.Limited, ", held ", got.Held > 0, ", error ", err)]++
	})
	for _, outcome := range []string{
		"reserve limited true, held false, error <nil>", "reserve limited false, held false, error <nil>",
		"reserve limited false, held true, error <nil>", "peek limited true, held false, error <nil>",
		"charge limited true, held true, error <nil>", "charge limited false, held false, error <nil>",
		"refund limited false, held true, error <nil>", "reserve limited false, held false, error " + slots.ErrEnd.Error(),
		"peek limited false, held false, error " + slots.ErrLimit.Error(),
		"charge limited false, held false, error " + slots.ErrTTL.Error(),
	} {
		require.Greater(t, met[outcome], 30, "%s was hardly met: %v", outcome, met)
	}
}
