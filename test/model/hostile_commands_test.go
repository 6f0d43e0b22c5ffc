package model_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// The words that the fuzzer of hostile_test.go sends: commands, sound
// and malformed, and bytes that are none.

// command makes a command, most often CL.THROTTLE.
func (f *fuzzer) command() []string {
	if f.chance(0.65) {
		return f.throttle()
	}
	key := pick(f, fuzzKeys)
	f.member++
	member := strconv.Itoa(f.member)
	name := pick(f, fuzzNames)
	switch name {
	case "set":
		return append([]string{name, key, f.value()}, pick(f, [][]string{
			nil, {"nx"}, {"xx"}, {"keepttl"}, {"pxat", f.expiry()},
		})...)
	case "append":
		return []string{name, key, pick(f, []string{"", "0", "x", "7", f.value()})}
	case "incrby":
		return []string{name, key, pick(f, []string{"0", "1", "-1", "1000000000", "-9223372036854775807", "9223372036854775807"})}
	case "setrange":
		return []string{name, key, strconv.Itoa(f.random.IntN(25)), strconv.Itoa(f.random.IntN(10))}
	case "pexpireat":
		return []string{name, key, f.expiry()}
	case "rename":
		return []string{name, key, pick(f, fuzzKeys)}
	case "copy":
		return []string{name, key, pick(f, fuzzKeys), "replace"}
	case "lpush", "sadd":
		return []string{name, key, member}
	case "hset":
		return []string{name, key, member, "value"}
	case "zadd":
		return []string{name, key, "1", member}
	case "xadd":
		return []string{name, key, "*", "field", member}
	case "object":
		return []string{"type", key}
	case "flush":
		if f.chance(0.9) {
			return []string{"get", key}
		}
		return []string{pick(f, []string{"flushall", "flushdb"}), pick(f, []string{"sync", "async"})}
	}
	return []string{name, key}
}

var fuzzNames = []string{
	"get", "set", "set", "set", "append", "incrby", "setrange", "getdel", "del", "del", "del", "unlink", "pexpireat",
	"persist", "rename", "copy", "lpush", "lpop", "sadd", "hset", "zadd", "xadd", "type", "object", "flush",
}

// value makes a string to find where a funnel is expected.
func (f *fuzzer) value() string {
	now := big.NewInt(f.model.now)
	switch f.random.IntN(6) {
	case 0:
		return pick(f, []string{"", "0", "00", "-1", "+1", " 1", "1 ", "1.0", "1e3", "abc", "\x00", "0x10", "１２",
			"9223372036854775807", "9223372036854775808", "18446744073709551616", strings.Repeat("9", 5000),
			"HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"})
	case 1:
		return strconv.FormatInt(f.scaled(), 10)
	default: // a TAT from about now to some minutes ahead
		return now.Add(now, big.NewInt(f.random.Int64N(int64(5*time.Minute))-int64(time.Minute))).String()
	}
}

// expiry makes a Unix time in milliseconds, well away from the present.
func (f *fuzzer) expiry() string {
	return pick(f, []string{"1", "1000000000000", "4102444800000", "4102444800001", "9000000000000", "9223372036854"})
}

// malformed makes a call that is an error, whatever the key holds.
func (f *fuzzer) malformed() []string {
	words := append([]string{"cl.throttle", pick(f, fuzzKeys)}, pick(f, fuzzRates)...)
	switch f.random.IntN(6) {
	case 0:
		return words[:f.random.IntN(4)+1]
	case 1:
		return append(words, "1", "1", f.odd(f.positive))
	case 2: // all right one by one
		return append(words[:2], "9223372036854775807", "3", f.positive())
	}
	wrong := pick(f, []string{"", "-1", "1e3", "x", "9223372036854775808", "1 ", "%s", "\xff\x00", strings.Repeat("1", f.random.IntN(2000)+20)})
	words = append(words, "1")
	words[f.random.IntN(4)+2] = wrong
	return words
}

// throttle makes a call: sensible, or valid, or hostile.
func (f *fuzzer) throttle() []string {
	words := []string{"cl.throttle", pick(f, fuzzKeys)}
	switch dice := f.random.Float64(); {
	case dice < 0.6:
		rate := pick(f, fuzzRates)
		words = append(words, rate...)
		if f.chance(0.7) {
			limit := mustParse(rate[0])
			words = append(words, pick(f, []string{
				"0", "1", "2", strconv.FormatInt(limit, 10), strconv.FormatInt(limit/3, 10),
				new(big.Int).Add(big.NewInt(limit), big.NewInt(1)).String(),
			}))
		}
	case dice < 0.8:
		words = append(words, f.positive(), f.positive(), f.seconds())
		if f.chance(0.7) {
			words = append(words, strconv.FormatInt(f.scaled(), 10))
		}
	default:
		words = append(words, f.odd(f.positive), f.odd(f.positive), f.odd(f.seconds))
		if f.chance(0.7) {
			words = append(words, f.odd(f.positive))
		}
		if f.chance(0.1) {
			words = append(words, f.odd(f.positive))
		}
		if f.chance(0.1) {
			words = words[:f.random.IntN(len(words))+1]
		}
	}
	return words
}

var fuzzRates = [][]string{
	{"15", "30", "60"}, {"15", "30", "60"}, {"1", "1", "1"}, {"3", "7", "1.5"}, {"100", "1000", "1"},
	{"5", "1", "0.000000001"}, {"5", "1", "0.0000015"},
	{"2147483648", "2147483648", "3600.000000001"},
	{"9223372036854775807", "1", "0.000000001"}, {"9223372036854775806", "1", "0.000000001"},
	{"1", "1", "9223372036.854775807"}, {"1", "1", "5000000000"}, {"3", "3", "9000000000"},
	{"1", "9223372036854775807", "9223372036.854775807"},
}

// scaled makes a number from 0 to 2^63-1 of any order of magnitude.
func (f *fuzzer) scaled() int64 {
	switch f.random.IntN(4) {
	case 0:
		return pick(f, []int64{0, 1, 2, 1<<31 - 1, 1 << 31, 1 << 32, 1 << 53, 1 << 62, math.MaxInt64 - 1, math.MaxInt64})
	default:
		return f.random.Int64() >> f.random.IntN(63)
	}
}

func (f *fuzzer) positive() string { return strconv.FormatInt(max(1, f.scaled()), 10) }

func (f *fuzzer) seconds() string {
	whole := f.scaled() / 1e9
	if f.chance(0.3) {
		return strconv.FormatInt(whole, 10)
	}
	fraction := fmt.Sprintf("%09d", f.random.IntN(1e9))
	return fmt.Sprintf("%d.%s", whole, fraction[:f.random.IntN(9)+1])
}

// odd makes one in three words odd.
func (f *fuzzer) odd(sound func() string) string {
	word := sound()
	if f.chance(0.67) {
		return word
	}
	switch f.random.IntN(4) {
	case 0:
		return pick(f, []string{"", "0", "-1", "-0", "+1", "01", " 1", "1 ", "1.", ".5", "1.0", "0.0", "1e3", "0x1f", "1,5",
			"inf", "nan", "null", "１", "\x00", "1\x00", "\r\n", "*1\r\n$4\r\nPING\r\n", "%s%n%d", "$(reboot)", "'", "\xff\xfe",
			"0.0000000001", "1.0000000000", "9223372036.854775808", "9223372037",
			"9223372036854775808", "18446744073709551615", "18446744073709551617", "99999999999999999999",
			"-9223372036854775808", "-9223372036854775809", strings.Repeat("1", 1000), strings.Repeat("\xff", 10000)})
	case 1: // a byte that is another one
		bytes := []byte(word)
		bytes[f.random.IntN(len(bytes))] = byte(f.random.IntN(256))
		return string(bytes)
	case 2: // more digits than fit
		return word + strconv.FormatUint(f.random.Uint64(), 10)
	default:
		bytes := make([]byte, f.random.IntN(30))
		for i := range bytes {
			bytes[i] = byte(f.random.IntN(256))
		}
		return string(bytes)
	}
}

// sendGarbage sends bytes that resemble commands on a connection of its own,
// which goes away without waiting for anything. Its user may touch no key of the
// fuzzer, so that even a command that comes out by chance cannot disturb it.
func (f *fuzzer) sendGarbage() {
	f.garbage++
	wire, err := f.server.TryWire()
	require.NoError(f.t, err, "the server takes no connections any more")
	defer wire.Close()
	reply, err := wire.Do("auth", "garbage", "garbage")
	require.NoError(f.t, err)
	require.Equal(f.t, "OK", reply)

	content := mutate(f.random, "garbage:1")
	_, err = wire.Write(content)
	if err == nil && f.chance(0.5) {
		// Let it read to the end and answer; where a command is not complete, it
		// closes without.
		if err = wire.Conn.(*net.TCPConn).CloseWrite(); err == nil {
			require.NoError(f.t, wire.SetReadDeadline(time.Now().Add(servertest.Patience)))
			_, err = io.Copy(io.Discard, wire)
		}
	}
	// The server may close such a connection.
	var network *net.OpError
	require.True(f.t, err == nil || errors.As(err, &network) && !network.Timeout(), "%v: the server hangs on %q", err, content)
}

// mutate makes a few calls and changes bytes of them.
func mutate(random *rand.Rand, key string) []byte {
	var content []byte
	for range random.IntN(4) + 1 {
		content = servertest.AppendCommand(content, "cl.throttle", key, "15", "30", "60")
	}
	for range random.IntN(6) + 1 {
		at := random.IntN(len(content))
		switch random.IntN(5) {
		case 0:
			content[at] = byte(random.IntN(256))
		case 1:
			content = slices.Delete(content, at, min(len(content), at+random.IntN(8)+1))
		case 2:
			content = content[:at]
		case 3:
			lines := []string{"*1000000000\r\n", "$536870912\r\n", "*-1\r\n", "$-1\r\n", "*0\r\n", "\r\n", "$99999999999999999999\r\n",
				"*3\r\n*3\r\n", "cl.throttle garbage:2 1 1 1\r\n", "\"unbalanced\r\n", "PING\r\n", ">2\r\n", "%1\r\n", "_\r\n",
				strings.Repeat("x", 70000), strings.Repeat("*1\r\n", 50)}
			content = slices.Insert(content, at, []byte(lines[random.IntN(len(lines))])...)
		case 4:
			content = slices.Insert(content, at, bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(300))...)
		}
		if len(content) == 0 {
			content = []byte("\r\n")
		}
	}
	return content
}

func (f *fuzzer) chance(probability float64) bool { return f.random.Float64() < probability }

func pick[T any](f *fuzzer, choices []T) T { return choices[f.random.IntN(len(choices))] }
