// Rows drawn at random. Extreme numbers are frequent, and so are numbers at which the answer
// changes.

package contract

import (
	"fmt"
	"math"
	"strings"

	"pgregory.net/rapid"
)

// Between generates numbers from low to high, both included, with both ends as likely as the
// middle.
func Between(low, high int64) *rapid.Generator[int64] {
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

// Around generates neighbours of the centre that are at least 0.
func Around(centre int64) *rapid.Generator[int64] {
	return rapid.Map(rapid.Int64Range(-2, 2), func(step int64) int64 { return max(plus(centre, step), 0) })
}

// plus adds two numbers, and stops at the largest number of 63 bits.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// A DrawnRow has the words of a row after its key, and the value of the key.
type DrawnRow struct {
	Words     [4]string
	Value     Value
	tat, wait int64 // of a funnel, or 0
}

var (
	oddWords = []string{"", "0", "-1", "01", "x", "1e9", "0.0009", "9223372036854775808", "9223372036.854775808",
		"SLOT", "SLOTSS", "UNTI", "UNTILL", strings.Repeat("h", 255), strings.Repeat("\xff", 100), "-0",
		"+1", "+", "++1", "+-1", "+01", "+0.0009", "+0.001", "+1e3", "1+", " 1", "1.", ".5",
		"1e3", "inf", "１", "\x00", "1\x00", "*1\r\n$4\r\nPING\r\n", "%s%n%d", "0.0000000001", "18446744073709551617",
		strings.Repeat("1", 1000)}

	oddValues = []Value{{}, {Type: "list"}, {Type: "zset", Scores: map[string]float64{"h": 1}},
		{Type: "string"}, {Type: "string", Text: "abc"}, {Type: "string", Text: "-1"}, {Type: "string", Text: "01"},
		{Type: "string", Text: "0"}, {Type: "string", Text: "9223372036854775808"}, {Type: "string", Text: "used:"},
		{Type: "string", Text: "used:0"}, {Type: "string", Text: "used:01"}, {Type: "string", Text: "Used:1"},
		{Type: "string", Text: "uSed:1"}, {Type: "string", Text: "us\x00d:1"}, {Type: "string", Text: "useD:1"},
		{Type: "string", Text: "used;1"},
		{Type: "string", Text: "1795365029 46200000"}, {Type: "string", Text: "0x95365029462000000"}, // which Lua reads
		{Type: "string", Text: "179536502946200000x"}, {Type: "string", Text: "1e0             1e0"},
		{Type: "string", Text: "used:-1"}, {Type: "string", Text: "used:9223372036854775808"}}
)

// DrawRow draws a row of one of these kinds. Some rows have an odd word or value.
func DrawRow(t *rapid.T, now int64, kinds ...string) (row DrawnRow) {
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "funnel":
		row = drawFunnel(t, now)
	case "slots":
		row = drawSlots(t, now)
	case "quota":
		row = drawQuota(t, now)
	default:
		number := Between(0, math.MaxInt64)
		row.Words = [4]string{fmt.Sprint(number.Draw(t, "capacity")), fmt.Sprint(number.Draw(t, "count")),
			seconds(number.Draw(t, "period")), fmt.Sprint(number.Draw(t, "quantity"))}
	}
	if rapid.IntRange(1, 8).Draw(t, "8: an odd word") == 8 {
		row.Words[rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "place")] = rapid.SampledFrom(oddWords).Draw(t, "word")
	}
	if rapid.IntRange(1, 8).Draw(t, "8: an odd value") == 8 {
		expiry := row.Value.Expiry
		row.Value = rapid.SampledFrom(oddValues).Draw(t, "value")
		if row.Value.Type == "string" {
			row.Value.Expiry = expiry
		}
	}
	return row
}

// DrawLastWords draws the last words of a call, by their names.
func (row DrawnRow) DrawLastWords(t *rapid.T, now int64) map[string]string {
	last := rapid.OneOf(rapid.Just(int64(0)), Around(row.wait), Around(max(now, 0)), Around(row.tat),
		Between(0, math.MaxInt64)).Draw(t, "last word")
	if rapid.IntRange(1, 8).Draw(t, "8: an odd last word") == 8 {
		odd := rapid.SampledFrom(oddWords).Draw(t, "word")
		return map[string]string{"max_wait": odd, "tat": odd}
	}
	return map[string]string{"max_wait": seconds(last), "tat": fmt.Sprint(last)}
}

// drawFunnel draws the emission interval first, then numbers that fit beside it. Some numbers lie
// where the doubles, in which the scripts compute, cease to be exact.
func drawFunnel(t *rapid.T, now int64) (row DrawnRow) {
	intervals := rapid.OneOf(Between(1, math.MaxInt64), Between(1, 100e9), Between(1, 2e9), Between(1, 1e6))
	interval := intervals.Draw(t, "emission interval")
	most := math.MaxInt64 / interval
	ends := rapid.SampledFrom([]int64{4e6, 104 * 24 * 3600e9 / interval, 1 << 52 / interval})
	few, end := Between(1, min(1000, most)), min(most, max(1, ends.Draw(t, "end of doubles")))
	capacity := rapid.OneOf(few, few, few, Between(1, end), Around(end), Around(end), Between(1, most)).Draw(t, "capacity")
	capacity = min(max(capacity, 1), most)
	count := min(max(rapid.OneOf(few, Around(end), Between(1, most)).Draw(t, "count"), 1), most)
	period := Between(interval*count, plus(interval*count, count-1)).Draw(t, "period")
	quantities := rapid.OneOf(Between(0, capacity), Around(capacity), Around(end), Between(0, math.MaxInt64))
	quantity := quantities.Draw(t, "quantity")

	full := plus(now, interval*capacity)
	tats := []*rapid.Generator[int64]{Around(now), Around(full), Between(now, full), Around(plus(now, 1<<53)),
		Around(plus(now, 1<<52)), Between(0, math.MaxInt64)}
	if quantity <= capacity {
		increment := interval * quantity
		tats = append(tats, Around(full-increment), Around(full-increment), Around(plus(now, increment)),
			Around(math.MaxInt64-increment))
	}
	row.Words = [4]string{fmt.Sprint(capacity), fmt.Sprint(count), seconds(period), fmt.Sprint(quantity)}
	if rapid.IntRange(0, 3).Draw(t, "stored") > 0 {
		row.tat = rapid.OneOf(tats...).Draw(t, "tat")
		row.Value = Value{Type: "string", Text: fmt.Sprint(row.tat)}
	}
	if quantity <= capacity {
		row.wait = max(0, row.tat-now) - interval*(capacity-quantity)
	}
	return row
}

// drawSlots draws slots. The holder h may have one of them.
func drawSlots(t *rapid.T, now int64) (row DrawnRow) {
	limit := rapid.OneOf(rapid.Int64Range(0, 5), Between(0, math.MaxInt64)).Draw(t, "limit")
	ttl := rapid.OneOf(rapid.Int64Range(1e6-1, 3e6), Between(1, math.MaxInt64), Around(math.MaxInt64-now)).Draw(t, "ttl")
	word := rapid.SampledFrom([]string{"SLOTS", "slots", "sLoTs"}).Draw(t, "word")
	holder := rapid.SampledFrom([]string{"h", "h", "h", "h", "h", "h", "", strings.Repeat("h", 256)}).Draw(t, "holder")
	row.Words = [4]string{fmt.Sprint(limit), word, seconds(ttl), holder}
	ends := rapid.OneOf(
		rapid.Map(rapid.Int64Range(-1, 4), func(ahead int64) float64 { return float64(now/1e6 + ahead) }),
		rapid.Map(Between(1, 1<<62), func(ahead int64) float64 { return float64(plus(now/1e6, ahead)) }),
		rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1), float64(now/1e6) + 0.5, 9_300_000_000_000}))
	scores := map[string]float64{}
	for _, holder := range []string{"h", "a", "b", "c", "d"} {
		if rapid.Bool().Draw(t, holder+" has a slot") {
			scores[holder] = ends.Draw(t, "end of "+holder)
			row.Value = Value{Type: "zset", Scores: scores}
		}
	}
	return row
}

// drawQuota draws a quota. Its period ends about now, or about when its key expires, or begins with
// the call.
func drawQuota(t *rapid.T, now int64) (row DrawnRow) {
	some := rapid.Int64Range(0, 12)
	limit := rapid.OneOf(some, Between(0, math.MaxInt64)).Draw(t, "limit")
	used := rapid.OneOf(rapid.Just(int64(0)), some, Around(limit), Between(0, math.MaxInt64)).Draw(t, "used")
	quantity := rapid.OneOf(some, Around(max(0, limit-used)), Around(math.MaxInt64-used),
		Between(0, math.MaxInt64)).Draw(t, "quantity")
	until := rapid.OneOf(Between(plus(now, 1), plus(now, 20e9)), Between(plus(now, 1), plus(now, 3e6)), Around(now),
		Between(0, math.MaxInt64)).Draw(t, "until")
	end := seconds(until)
	if rapid.IntRange(1, 3).Draw(t, "3: from the first call") == 3 {
		lasts := rapid.OneOf(Between(1e6-1, 20e9), Between(1e6-1, 3e6), Around(math.MaxInt64-now),
			Around((math.MaxInt64-now)/1e6*1e6), Between(0, math.MaxInt64)).Draw(t, "lasts")
		until = plus(now, lasts)
		end = "+" + seconds(lasts)
	}
	word := rapid.SampledFrom([]string{"UNTIL", "until", "uNtIl"}).Draw(t, "word")
	row.Words = [4]string{fmt.Sprint(limit), word, end, fmt.Sprint(quantity)}
	if used > 0 {
		expiry := rapid.OneOf(rapid.Just(int64(NoExpiry)), Around(now/1e6), Around(until/1e6),
			Between(now/1e6, now/1e6+20_000), Around(plus(now/1e6, math.MaxInt64/1_000_000)),
			rapid.Just(int64(math.MaxInt64))).Draw(t, "expiry")
		row.Value = Value{Type: "string", Text: fmt.Sprint("used:", used), Expiry: expiry}
	}
	return row
}
