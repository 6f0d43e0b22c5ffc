// The commands that the fuzzer sends: sound, odd but valid, and hostile.

package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"funnel/internal/contract"
)

// words makes commands at random, valid and malformed. Package contract draws rows, values and last
// words.
type words struct {
	random   *rand.Rand
	now      *int64             // the clock of the module
	receipts map[string][]int64 // the receipts of calls, by key
	favorite string             // the kind of most rows for some time, so that rows meet keys of their kind
}

func (w *words) chance(probability float64) bool { return w.random.Float64() < probability }

func pick[T any](w *words, choices []T) T { return choices[w.random.IntN(len(choices))] }

var (
	fuzzKeys = []string{"a", "b", "", "\x00\xff\r\n", "漏斗:{tag}", "user:reply", strings.Repeat("k", 300)}

	fuzzRates = [][3]string{{"15", "30", "60"}, {"15", "30", "60"}, {"1", "1", "1"}, {"3", "7", "1.5"},
		{"100", "1000", "1"}}

	fuzzHolders = []string{"request-1", "request-2", "request-3", "\x00", "\xff\r\n", strings.Repeat("h", 255)}
)

// A drawn row has the words of a row after its key, and a value that other commands put into the
// key.
type drawn struct {
	contract.DrawnRow
	last map[string]string // by name
}

// row draws a row.
func (w *words) row() (row drawn) {
	kinds := []string{"funnel", "funnel", "slots", "quota", "quota", "numbers"}
	if w.favorite == "" || w.chance(0.01) {
		w.favorite = pick(w, kinds)
	}
	kind := w.favorite
	if w.chance(0.2) {
		kind = pick(w, kinds)
	}
	row = rapid.Custom(func(t *rapid.T) (row drawn) {
		row.DrawnRow = contract.DrawRow(t, *w.now, kind)
		row.last = row.DrawLastWords(t, *w.now)
		return row
	}).Example(w.random.Int())
	if row.Words[3] == "h" {
		row.Words[3] = pick(w, fuzzHolders)
	}
	if w.chance(0.5) { // below are rows as calls before and after have them: a drawn row seldom fits its key
		return row
	}
	switch kind {
	case "funnel":
		rate := pick(w, fuzzRates)
		row.Words = [4]string{rate[0], rate[1], rate[2], pick(w, []string{"0", "1", "1", "2", rate[0]})}
	case "slots":
		row.Words[0] = pick(w, []string{"0", "1", "2", "3"})
		row.Words[2] = pick(w, []string{"30", "60", "0.001", "0.0015", "2.5"})
	case "quota":
		until := fmt.Sprint(*w.now/8e9*8 + 8)
		row.Words[0] = pick(w, []string{"1", "5", "20"})
		row.Words[2] = pick(w, []string{until, until, "+8", "+0.5", "+0.001"})
	}
	return row
}

// command makes a command, most often one of ours.
func (w *words) command() []string {
	if w.chance(0.75) {
		return w.ours()
	}
	key := pick(w, fuzzKeys)
	value := w.row().Value
	// A Unix time in milliseconds, well away from the present.
	expiry := pick(w, []string{"1", "1000000000000", "4102444800000", "4102444800001", "9000000000000", "9223372036854",
		strconv.FormatInt(max(1, min(value.Expiry, math.MaxInt64/1_000_000)), 10)})
	now := *w.now / 1e6
	score := pick(w, []string{"inf", "-inf", "0.5", "1e300", "9223372036854775808", "9300000000000.5",
		fmt.Sprint(now), fmt.Sprint(now), fmt.Sprint(now + 1), fmt.Sprintf("%d.25", now),
		fmt.Sprint(now + w.random.Int64N(60_000))})
	return pick(w, [][]string{
		{"get", key},
		{"set", key, value.Text}, {"set", key, value.Text},
		{"set", key, value.Text, "pxat", expiry},
		{"append", key, pick(w, []string{"", "0", "x", "7", value.Text})},
		{"del", key}, {"del", key}, {"del", key},
		{"lpush", key, "element"},
		{"zadd", key, score, pick(w, fuzzHolders)}, {"zadd", key, score, pick(w, fuzzHolders)},
		{"zrem", key, pick(w, fuzzHolders)},
	})
}

// ours makes a call of one of our commands, most often with one to three rows, most often of
// different keys. Optional words may be missing.
func (w *words) ours() []string {
	command := pick(w, contract.Commands)
	length := pick(w, []int{1, 1, 1, 1, 2, 2, 3, len(fuzzKeys)})
	if w.chance(0.005) {
		length = pick(w, []int{64, 65})
	}
	if command.Rows == 1 && !w.chance(0.01) {
		length = 1
	}
	order := w.random.Perm(max(length, len(fuzzKeys)))
	call, row := []string{command.Name}, drawn{}
	for i := range length {
		key := fmt.Sprint("many:", order[i])
		if order[i] < len(fuzzKeys) {
			key = fuzzKeys[order[i]]
		}
		if w.chance(0.02) {
			key = pick(w, fuzzKeys)
		}
		row = w.row()
		call = append(append(call, key), row.Words[:]...)
	}
	switch {
	case command.MinWords == 5 && w.chance(0.3):
		call = call[:len(call)-1]
	case command.LastWord == "tat" && (length == 1 && w.chance(0.7) || w.chance(0.05)):
		call = append(call, w.receipt(call[1], row.last["tat"]))
	case command.LastWord == "max_wait" && (length == 1 && w.chance(0.5) || w.chance(0.05)):
		call = append(call, row.last["max_wait"])
	case w.chance(0.02): // one word more, or some words less
		call = append(call, "1")[:w.random.IntN(len(call)+1)+1]
	}
	return call
}

// receipt makes the last word of a refund. Most often it is a receipt of that key, exact, or wrong
// by a few nanoseconds or by a second.
func (w *words) receipt(key, other string) string {
	held := w.receipts[key]
	if len(held) == 0 || w.chance(0.2) {
		return other
	}
	off := pick(w, []int64{0, 0, 1, -1, 2, -2, int64(time.Second), -int64(time.Second)})
	receipt := pick(w, held)
	return strconv.FormatInt(max(0, receipt+min(off, math.MaxInt64-receipt)), 10)
}

// keysOf returns the keys of a command: the first word, and every fifth word from there if the
// command takes several rows.
func keysOf(call []string) (keys []string) {
	step := len(call)
	command, _ := contract.CommandOf(call[0])
	if command.Rows > 1 {
		step = 5
	}
	for at := 1; at < len(call); at += step {
		keys = append(keys, call[at])
	}
	return keys
}
