// The commands that the fuzzer sends: sound, valid but odd, and hostile.

package model_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"funnel/internal/contract"
)

// Words makes commands at random, sound and malformed.
type words struct {
	random   *rand.Rand
	now      *int64             // the clock of the module
	receipts map[string][]int64 // that calls were given, by key
	favorite float64            // the dice of most rows, for a while, so that rows meet keys of their kind
}

func (w *words) chance(probability float64) bool { return w.random.Float64() < probability }

func pick[T any](w *words, choices []T) T { return choices[w.random.IntN(len(choices))] }

var (
	fuzzKeys = []string{"a", "b", "", "\x00\xff\r\n", "漏斗:{tag}", "user:reply", strings.Repeat("k", 300)}

	fuzzRates = [][]string{
		{"15", "30", "60"}, {"15", "30", "60"}, {"1", "1", "1"}, {"3", "7", "1.5"}, {"100", "1000", "1"},
		{"5", "1", "0.000000001"}, {"5", "1", "0.0000015"},
		{"2147483648", "2147483648", "3600.000000001"},
		{"9223372036854775807", "1", "0.000000001"}, {"9223372036854775806", "1", "0.000000001"},
		{"1", "1", "9223372036.854775807"}, {"1", "1", "5000000000"}, {"3", "3", "9000000000"},
		{"1", "9223372036854775807", "9223372036.854775807"},
	}

	oddWords = []string{"", "0", "-1", "-0", "+1", "01", " 1", "1 ", "1.", ".5", "1.0", "0.0", "1e3", "0x1f", "1,5",
		"inf", "nan", "null", "１", "\x00", "1\x00", "\r\n", "*1\r\n$4\r\nPING\r\n", "%s%n%d", "$(reboot)", "'", "\xff\xfe",
		"0.0000000001", "1.0000000000", "9223372036.854775808", "9223372037",
		"9223372036854775808", "18446744073709551615", "18446744073709551617", "99999999999999999999",
		"-9223372036854775808", "-9223372036854775809", strings.Repeat("1", 1000), strings.Repeat("\xff", 10000)}
)

// command makes a command, most often one of ours.
func (w *words) command() []string {
	if w.chance(0.75) {
		return w.ours()
	}
	key := pick(w, fuzzKeys)
	// A Unix time in milliseconds, well away from the present.
	expiry := pick(w, []string{"1", "1000000000000", "4102444800000", "4102444800001", "9000000000000", "9223372036854",
		strconv.FormatInt(max(1, w.end()/1e6), 10)})
	return pick(w, [][]string{
		{"get", key},
		{"set", key, w.value()}, {"set", key, w.value()},
		{"set", key, w.value(), "pxat", expiry},
		{"append", key, pick(w, []string{"", "0", "x", "7", w.value()})},
		{"del", key}, {"del", key}, {"del", key},
		{"lpush", key, "element"},
		{"zadd", key, w.score(), pick(w, fuzzHolders)}, {"zadd", key, w.score(), pick(w, fuzzHolders)},
		{"zrem", key, pick(w, fuzzHolders)},
	})
}

var fuzzHolders = []string{"request-1", "request-2", "request-3", "\x00", "\xff\r\n", strings.Repeat("h", 255)}

// score makes a score that another client gives a member: about now, or any number.
func (w *words) score() string {
	now := *w.now / 1e6
	return pick(w, []string{"inf", "-inf", "-1", "0", "0.5", "1e300", "9223372036854775808", "9223372036854774784", "9300000000000.5",
		strconv.FormatInt(now, 10), strconv.FormatInt(now+1, 10), strconv.FormatInt(now+1, 10) + ".25",
		strconv.FormatInt(now+w.random.Int64N(120_000)-60_000, 10)})
}

// slots makes limit, SLOTS, ttl and holder.
func (w *words) slots() []string {
	limit := pick(w, []string{"0", "1", "2", "2", "3", "9223372036854775807", w.odd(w.positive)})
	ttl := pick(w, []string{"30", "60", "0.001", "0.0015", "2.5", "9223372036.854775807", w.odd(w.seconds)})
	holder := pick(w, fuzzHolders)
	if w.chance(0.03) {
		holder = pick(w, oddWords)
	}
	return []string{limit, pick(w, []string{"SLOTS", "slots", "Slots"}), ttl, holder}
}

// quota makes limit, UNTIL, until and quantity.
func (w *words) quota() []string {
	limit := pick(w, []string{"0", "1", "5", "5", "5", "20", "9007199254740992", "9223372036854775807", w.odd(w.positive)})
	until := pick(w, []string{"9223372036.854775807", w.odd(w.seconds)})
	if w.chance(0.95) {
		end := w.end()
		until = fmt.Sprintf("%d.%09d", end/1e9, end%1e9)
	}
	quantity := pick(w, []string{"0", "1", "1", "2", "3", "6", w.odd(w.positive)})
	return []string{limit, pick(w, []string{"UNTIL", "until", "Until"}), until, quantity}
}

// end makes the end of a period: most often a border that is a few seconds ahead, off by little, or now.
func (w *words) end() int64 {
	border := min(*w.now, math.MaxInt64-int64(2*time.Hour))
	border += int64(8*time.Second) - border%int64(8*time.Second)
	return max(0, pick(w, []int64{border, border, border, border, border, border + 1, border + 1e6, border - 1, border + 1e9,
		border - int64(8*time.Second), border + int64(8*time.Second), border + int64(time.Hour), *w.now - 1, *w.now}))
}

// value makes a string to find where a funnel or a quota is expected.
func (w *words) value() string {
	dice := w.random.IntN(8)
	if w.favorite > 0.2 && w.favorite < mostQuotas && w.chance(0.8) {
		dice = 6
	}
	switch dice {
	case 6:
		return "used:" + pick(w, []string{"1", "4", "5", "9007199254740991", "9223372036854775807", w.odd(w.positive)})
	case 7:
		return pick(w, []string{"used:", "used:0", "used:05", "Used:1", "used:1 ", "used:-1", "used:9223372036854775808", "5"})
	case 0:
		return pick(w, append(oddWords, "00", "1.0", strings.Repeat("9", 5000), "9223372036854775807"))
	case 1:
		return strconv.FormatInt(w.scaled(), 10)
	default: // a TAT from about now to some minutes ahead
		now := big.NewInt(*w.now)
		return now.Add(now, big.NewInt(w.random.Int64N(int64(5*time.Minute))-int64(time.Minute))).String()
	}
}

// ours makes a call of one of our commands, most often of one to three funnels, most often
// of different keys. What may be left out may be missing.
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
	call := []string{command.Name}
	for i := range length {
		key := fmt.Sprint("many:", order[i])
		if order[i] < len(fuzzKeys) {
			key = fuzzKeys[order[i]]
		}
		if w.chance(0.02) {
			key = pick(w, fuzzKeys)
		}
		call = append(append(call, key), w.arguments()...)
	}
	switch {
	case command.MinWords == 5 && w.chance(0.3):
		call = call[:len(call)-1]
	case command.LastWord == "tat" && (length == 1 && w.chance(0.7) || w.chance(0.05)):
		call = append(call, w.receipt(call[1]))
	case command.LastWord == "max_wait" && w.chance(0.5):
		maxWait := "0"
		if length == 1 || w.chance(0.1) {
			maxWait = pick(w, []string{"0.5", "2", "60", "0.000000001", "9223372036.854775807", w.odd(w.seconds)})
		}
		call = append(call, maxWait)
	}
	return w.miscounted(call)
}

// receipt makes the last word of a refund: most often a receipt of that key, exact or off by some
// nanoseconds or seconds.
func (w *words) receipt(key string) string {
	held := w.receipts[key]
	if len(held) == 0 || w.chance(0.2) {
		return pick(w, []string{"0", "9223372036854775807", strconv.FormatInt(*w.now, 10), w.odd(w.positive), w.value()})
	}
	off := pick(w, []int64{0, 0, 1, -1, 2, -2, int64(time.Second), -int64(time.Second)})
	if receipt := pick(w, held); receipt <= math.MaxInt64-max(0, off) {
		return strconv.FormatInt(max(0, receipt+off), 10)
	}
	return "9223372036854775807"
}

// miscounted makes a call with a word more or some less, now and then.
func (w *words) miscounted(call []string) []string {
	switch w.random.IntN(50) {
	case 0:
		return append(call, w.odd(w.positive))
	case 1:
		return call[:w.random.IntN(len(call))+1]
	}
	return call
}

const mostQuotas = 0.45 // a dice from 0.2 on makes quotas

// arguments makes the words of a row behind its key: sensible, or valid, or hostile.
func (w *words) arguments() []string {
	if w.chance(0.01) {
		w.favorite = w.random.Float64()
	}
	dice := w.random.Float64()
	if w.chance(0.8) {
		dice = w.favorite
	}
	switch {
	case dice < 0.2:
		return w.slots()
	case dice < mostQuotas:
		return w.quota()
	case dice < 0.8:
		rate := pick(w, fuzzRates)
		limit := mustParse(rate[0])
		return append(rate[:3:3], pick(w, []string{
			"0", "1", "1", "2", strconv.FormatInt(limit, 10), strconv.FormatInt(limit/3, 10),
			new(big.Int).Add(big.NewInt(limit), big.NewInt(1)).String(),
		}))
	case dice < 0.92:
		return []string{w.positive(), w.positive(), w.seconds(), strconv.FormatInt(w.scaled(), 10)}
	default:
		return []string{w.odd(w.positive), w.odd(w.positive), w.odd(w.seconds), w.odd(w.positive)}
	}
}

// keysOf are the keys of a command: the first word, and of the commands that take
// several funnels, every fifth.
func keysOf(call []string) (keys []string) {
	step := len(call)
	if command, _ := contract.CommandOf(call[0]); command.Rows > 1 {
		step = 5
	}
	for at := 1; at < len(call); at += step {
		keys = append(keys, call[at])
	}
	return keys
}

// scaled makes a number from 0 to 2^63-1 of any order of magnitude.
func (w *words) scaled() int64 {
	if w.chance(0.25) {
		return pick(w, []int64{0, 1, 2, 1<<31 - 1, 1 << 31, 1 << 32, 1 << 53, 1 << 62, math.MaxInt64 - 1, math.MaxInt64})
	}
	return w.random.Int64() >> w.random.IntN(63)
}

func (w *words) positive() string { return strconv.FormatInt(max(1, w.scaled()), 10) }

func (w *words) seconds() string {
	whole := w.scaled() / 1e9
	if w.chance(0.3) {
		return strconv.FormatInt(whole, 10)
	}
	fraction := fmt.Sprintf("%09d", w.random.IntN(1e9))
	return fmt.Sprintf("%d.%s", whole, fraction[:w.random.IntN(9)+1])
}

// odd makes one in three words odd.
func (w *words) odd(sound func() string) string {
	word := sound()
	if w.chance(0.67) {
		return word
	}
	switch w.random.IntN(4) {
	case 0:
		return pick(w, oddWords)
	case 1: // a byte that is another one
		bytes := []byte(word)
		bytes[w.random.IntN(len(bytes))] = byte(w.random.IntN(256))
		return string(bytes)
	case 2: // more digits than fit
		return word + strconv.FormatUint(w.random.Uint64(), 10)
	default:
		bytes := make([]byte, w.random.IntN(30))
		for i := range bytes {
			bytes[i] = byte(w.random.IntN(256))
		}
		return string(bytes)
	}
}
