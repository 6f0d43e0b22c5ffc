package httplimit

import (
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter/internal/wait"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	const date = "Sat, 01 Jan 2000 00:00:"
	for _, c := range []struct {
		text, date string
		want       time.Duration
	}{
		{text: "", want: 0},
		{text: "0", want: 0},
		{text: "120", want: 120 * time.Second},
		{text: "007", want: 7 * time.Second},
		{text: " 10 ", want: 10 * time.Second},
		{text: "99999999999999999999", want: 9223372036 * time.Second},
		{text: "9223372036.5", want: 9223372036 * time.Second},
		{text: "9223372035.5", want: 9223372036 * time.Second},

		{text: "1.5", want: 2 * time.Second},
		{text: "0.493", want: time.Second},
		{text: "120.0", want: 120 * time.Second},
		{text: "0.000", want: 0},
		{text: "0.0000000000001", want: time.Second},
		{text: "1.", want: 0},
		{text: ".5", want: 0},
		{text: "1.5.5", want: 0},
		{text: "1,5", want: 0},
		{text: "-1", want: 0},
		{text: "+1", want: 0},
		{text: "1e3", want: 0},
		{text: "0x10", want: 0},
		{text: "1_0", want: 0},
		{text: "1 s", want: 0},

		{text: date + "21 GMT", want: 21 * time.Second},
		{text: date + "21 GMT", date: date + "20 GMT", want: time.Second},
		{text: date + "21 GMT", date: "yesterday", want: 21 * time.Second},
		{text: "Saturday, 01-Jan-00 00:00:21 GMT", want: 21 * time.Second},
		{text: "Sat Jan  1 00:00:21 2000", want: 21 * time.Second},
		{text: date + "20 GMT", date: date + "21 GMT", want: -time.Second},
	} {
		header := http.Header{"Retry-After": {c.text}, "Date": {c.date}}
		require.Equal(t, c.want, retryAfter(header, now), "%q", c.text)
	}
}

// A number is never too early and at most a second too late; anything else is no number.
func FuzzRetryAfter(f *testing.F) {
	for _, text := range []string{"120", "1.5", "0.493", "120.0", "-1", "99999999999999999999", "1e3", "0x1p-2", "1_000",
		"Sat, 01 Jan 2000 00:00:21 GMT"} {
		f.Add(text, "Sat, 01 Jan 2000 00:00:20 GMT")
	}
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text, date string) {
		got := retryAfter(http.Header{"Retry-After": {text}, "Date": {date}}, now)
		text = strings.TrimSpace(text)
		exact, isNumber := new(big.Rat).SetString(text)
		if !isNumber || strings.Trim(text, "0123456789.") != "" || text[0] == '.' || text[len(text)-1] == '.' {
			_, err := http.ParseTime(text)
			require.True(t, err == nil || got == 0, "%q: %v", text, got)
			return
		}
		if exact.Cmp(big.NewRat(int64(wait.Forever/time.Second), 1)) > 0 {
			require.Equal(t, wait.Forever.Truncate(time.Second), got)
			return
		}
		late := new(big.Rat).Sub(big.NewRat(int64(got), int64(time.Second)), exact)
		require.GreaterOrEqual(t, late.Sign(), 0, "%q: %v", text, got)
		require.Negative(t, late.Cmp(big.NewRat(1, 1)), "%q: %v", text, got)
		require.Zero(t, got%time.Second)
	})
}
