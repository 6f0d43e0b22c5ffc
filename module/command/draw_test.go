// Rows drawn at random, the largest and smallest numbers among them, and gathered where the answer changes.

package command

import (
	"fmt"
	"math"
	"strings"

	"pgregory.net/rapid"

	"funnel/internal/contract"
)

// between generates numbers from low to high, both included, with both ends as likely as the middle.
func between(low, high int64) *rapid.Generator[int64] {
	reach := uint64(high) - uint64(low)
	nearLow, nearHigh := high, low
	if reach > 100 {
		nearLow, nearHigh = low+100, high-100
	}
	return rapid.OneOf(
		rapid.Just(low),
		rapid.Just(high),
		rapid.Int64Range(low, nearLow),
		rapid.Int64Range(nearHigh, high),
		rapid.Int64Range(low, high),
	)
}

// around generates neighbours of the centre that are no less than 0.
func around(centre int64) *rapid.Generator[int64] {
	return rapid.Map(rapid.Int64Range(-2, 2), func(step int64) int64 { return max(plus(centre, step), 0) })
}

// plus adds and stops at the last instant, like a clock of 63 bits would.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// seconds writes nanoseconds as the commands take them.
func seconds(nanoseconds int64) string {
	return fmt.Sprintf("%d.%09d", nanoseconds/1e9, nanoseconds%1e9)
}

// A drawnRow is the words of a row behind its key, and what the key holds.
type drawnRow struct {
	words     [4]string
	value     contract.Value
	tat, wait int64 // of a funnel, or 0
}

var (
	oddWords = []string{"", "0", "-1", "01", "x", "1e9", "0.0009", "9223372036854775808", "9223372036.854775808", "SLOT", "SLOTSS",
		"UNTI", "UNTILL", strings.Repeat("h", 255), strings.Repeat("h", 256), strings.Repeat("\xff", 100)}

	oddValues = []contract.Value{{}, {Type: "list"}, {Type: "zset", Scores: map[string]float64{"h": 1}},
		{Type: "string"}, {Type: "string", Text: "abc"}, {Type: "string", Text: "-1"}, {Type: "string", Text: "01"},
		{Type: "string", Text: "0"}, {Type: "string", Text: "9223372036854775808"}, {Type: "string", Text: "used:"},
		{Type: "string", Text: "used:0"}, {Type: "string", Text: "used:01"}, {Type: "string", Text: "Used:1"},
		{Type: "string", Text: "uSed:1"}, {Type: "string", Text: "us\x00d:1"}, {Type: "string", Text: "useD:1"}, {Type: "string", Text: "used;1"},
		{Type: "string", Text: "used:-1"}, {Type: "string", Text: "used:9223372036854775808"}}
)

// drawRow draws a row of one of the kinds, which now and then is odd.
func drawRow(t *rapid.T, now int64) (row drawnRow) {
	switch rapid.SampledFrom([]string{"funnel", "funnel", "slots", "quota", "quota", "numbers"}).Draw(t, "kind") {
	case "funnel":
		row = drawFunnel(t, now)
	case "slots":
		row = drawSlots(t, now)
	case "quota":
		row = drawQuota(t, now)
	default:
		number := between(0, math.MaxInt64)
		row.words = [4]string{fmt.Sprint(number.Draw(t, "capacity")), fmt.Sprint(number.Draw(t, "count")),
			seconds(number.Draw(t, "period")), fmt.Sprint(number.Draw(t, "quantity"))}
	}
	if rapid.IntRange(1, 8).Draw(t, "8: an odd word") == 8 {
		row.words[rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "place")] = rapid.SampledFrom(oddWords).Draw(t, "word")
	}
	if rapid.IntRange(1, 8).Draw(t, "8: an odd value") == 8 {
		expiry := row.value.Expiry
		if row.value = rapid.SampledFrom(oddValues).Draw(t, "value"); row.value.Type == "string" {
			row.value.Expiry = expiry
		}
	}
	return row
}

// drawLastWords draws the last words of a call by their names in the contract.
func (row drawnRow) drawLastWords(t *rapid.T, now int64) map[string]string {
	last := rapid.OneOf(rapid.Just(int64(0)), around(row.wait), around(max(now, 0)), around(row.tat),
		between(0, math.MaxInt64)).Draw(t, "last word")
	if rapid.IntRange(1, 8).Draw(t, "8: an odd last word") == 8 {
		odd := rapid.SampledFrom(oddWords).Draw(t, "word")
		return map[string]string{"max_wait": odd, "tat": odd}
	}
	return map[string]string{"max_wait": seconds(last), "tat": fmt.Sprint(last)}
}

// drawFunnel draws the emission interval first, then what still fits beside it.
func drawFunnel(t *rapid.T, now int64) (row drawnRow) {
	interval := rapid.OneOf(between(1, math.MaxInt64), between(1, 100*second)).Draw(t, "emission interval")
	most := math.MaxInt64 / interval
	capacity := rapid.OneOf(between(1, most), between(1, min(20, most))).Draw(t, "capacity")
	count := between(1, most).Draw(t, "count")
	period := between(interval*count, plus(interval*count, count-1)).Draw(t, "period")
	quantity := rapid.OneOf(between(0, capacity), around(capacity), between(0, math.MaxInt64)).Draw(t, "quantity")

	full := plus(now, interval*capacity)
	tats := []*rapid.Generator[int64]{around(now), around(full), between(now, full), between(0, math.MaxInt64)}
	if quantity <= capacity {
		increment := interval * quantity
		tats = append(tats, around(full-increment), around(math.MaxInt64-increment))
	}
	row.words = [4]string{fmt.Sprint(capacity), fmt.Sprint(count), seconds(period), fmt.Sprint(quantity)}
	if rapid.Bool().Draw(t, "stored") {
		row.tat = rapid.OneOf(tats...).Draw(t, "tat")
		row.value = contract.Value{Type: "string", Text: fmt.Sprint(row.tat)}
	}
	if quantity <= capacity {
		row.wait = max(0, row.tat-now) - interval*(capacity-quantity)
	}
	return row
}

// drawSlots draws slots of which the holder h may have one.
func drawSlots(t *rapid.T, now int64) (row drawnRow) {
	limit := rapid.OneOf(rapid.Int64Range(0, 5), between(0, math.MaxInt64)).Draw(t, "limit")
	ttl := rapid.OneOf(rapid.Int64Range(1e6-1, 3e6), between(1, math.MaxInt64), around(math.MaxInt64-now)).Draw(t, "ttl")
	word := rapid.SampledFrom([]string{"SLOTS", "slots", "sLoTs"}).Draw(t, "word")
	row.words = [4]string{fmt.Sprint(limit), word, seconds(ttl), "h"}
	ends := rapid.OneOf(
		rapid.Map(rapid.Int64Range(-1, 4), func(ahead int64) float64 { return float64(now/1e6 + ahead) }),
		rapid.Map(between(1, 1<<62), func(ahead int64) float64 { return float64(plus(now/1e6, ahead)) }),
		rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1), float64(now/1e6) + 0.5, 9_300_000_000_000}))
	scores := map[string]float64{}
	for _, holder := range []string{"h", "a", "b", "c", "d"} {
		if rapid.Bool().Draw(t, holder+" has a slot") {
			scores[holder] = ends.Draw(t, "end of "+holder)
			row.value = contract.Value{Type: "zset", Scores: scores}
		}
	}
	return row
}

// drawQuota draws a period that ends about when its key expires, or ends.
func drawQuota(t *rapid.T, now int64) (row drawnRow) {
	some := rapid.Int64Range(0, 12)
	limit := rapid.OneOf(some, between(0, math.MaxInt64)).Draw(t, "limit")
	used := rapid.OneOf(rapid.Just(int64(0)), some, around(limit), between(0, math.MaxInt64)).Draw(t, "used")
	quantity := rapid.OneOf(some, around(max(0, limit-used)), around(math.MaxInt64-used),
		between(0, math.MaxInt64)).Draw(t, "quantity")
	until := rapid.OneOf(between(plus(now, 1), plus(now, 20*second)), between(plus(now, 1), plus(now, 3e6)), around(now),
		between(0, math.MaxInt64)).Draw(t, "until")
	word := rapid.SampledFrom([]string{"UNTIL", "until", "uNtIl"}).Draw(t, "word")
	row.words = [4]string{fmt.Sprint(limit), word, seconds(until), fmt.Sprint(quantity)}
	if used > 0 {
		expiry := rapid.OneOf(rapid.Just(int64(contract.NoExpiry)), around(now/1e6), around(until/1e6),
			between(now/1e6, now/1e6+20_000), rapid.Just(int64(math.MaxInt64))).Draw(t, "expiry")
		row.value = contract.Value{Type: "string", Text: fmt.Sprint("used:", used), Expiry: expiry}
	}
	return row
}
