package throttle

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
)

func TestParseInteger(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "9": 9, "10": 10, "1795236055976124882": 1795236055976124882,
		"9223372036854775807": math.MaxInt64,
	} {
		got, ok := parseInteger(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "-1", "-0", "+1", "00", "01", " 1", "1 ", "1.0", "1e3", "x", "1x", "/", ":", "\x00", "1\x00",
		"9223372036854775808", "9999999999999999999", "18446744073709551616", "10000000000000000000",
		strings.Repeat("1", 1<<20), "１",
	} {
		_, ok := parseInteger(text)
		require.False(t, ok, "%.30q", text)
	}
}

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0.0": 0, "60": 60e9, "0.5": 5e8, "0.000000001": 1, "1.000000001": 1e9 + 1,
		"9223372036": 9223372036e9, "9223372036.854775807": math.MaxInt64, "1.100000000": 11e8, "0.999999999": 999999999,
	} {
		got, ok := parseSeconds(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", ".", ".5", "5.", "1..2", "1.2.3", "-1", "+1", "1.-5", "1.+5", "1. 5", "1./", "1.:", "1e3", "inf", "nan", "0x10", "01", "00.5",
		"0.0000000001", "0.1234567890", "9223372036.854775808", "9223372037", "99999999999", "1.\x00",
		strings.Repeat("1", 1<<20), "1." + strings.Repeat("0", 1<<20),
	} {
		_, ok := parseSeconds(text)
		require.False(t, ok, "%.30q", text)
	}
}

// FuzzParse compares with patterns and arithmetic of any size.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"0", "15", "9223372036854775807", "9223372036854775808", "-1", "01",
		"0.5", "0.000000001", "9223372036.854775807", "9223372036.854775808", "1.", ".1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		number, ok := parseInteger(text)
		want, wantOK := contract.Integer(0, text)
		require.Equal(t, wantOK, ok)
		if ok {
			require.Equal(t, want.Int64(), number)
		}
		nanoseconds, ok := parseSeconds(text)
		want, wantOK = contract.Seconds(text)
		require.Equal(t, wantOK, ok)
		if ok {
			require.Equal(t, want.Int64(), nanoseconds)
		}
	})
}
