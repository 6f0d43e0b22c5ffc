package caddylimit

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// BenchmarkCaddy prints what a limit costs: requests a second of 32 clients that ask as fast as
// they can, and the p99 at 1,000 requests a second, which says more of a site. Nobody is limited.
// FUNNEL_CADDY_RATELIMIT names a Caddy that has github.com/mholt/caddy-ratelimit beside this module,
// for a row about that.
// The rows take turns, so that what else the machine does concerns all of them alike; a row is the
// median of five rounds.
func BenchmarkCaddy(b *testing.B) {
	redis := servertest.StartModule(b)
	const ours = "funnel {\npolicy all {\nkey all\nrate 1000000 1s\n}\n}\n"
	const two = "funnel {\npolicy all {\nkey all\nrate 1000000 1s\n}\npolicy each {\nrate 1000000 1s\n}\n}\n"
	const theirs = "rate_limit {\nzone all {\nkey all\nevents 1000000\nwindow 1s\n}\n}\n"
	self, err := os.Executable()
	require.NoError(b, err)
	rows := []struct {
		name, settings, site, program string
		caddy                         *server
		speeds, p99s                  []int
	}{
		{name: "no limit", program: self},
		{name: "funnel, one policy", site: ours, program: self},
		{name: "funnel, two policies", site: two, program: self},
		{name: "funnel, one policy, `lease 50ms`", settings: "lease 50ms", site: ours, program: self},
		{name: "caddy-ratelimit, one zone, that Caddy alone", site: theirs, program: os.Getenv("FUNNEL_CADDY_RATELIMIT")},
	}
	if rows[len(rows)-1].program == "" {
		rows = rows[:len(rows)-1]
	}
	for i, row := range rows {
		rows[i].caddy = startAt(b, row.program, redis.Addr(), row.settings, row.site+"respond ok")
	}
	const length = 4 * time.Second
	before, err := servertest.ReadMachine()
	require.NoError(b, err)
	for range 5 {
		for i := range rows {
			fast := load(b, rows[i].caddy, length, 0)
			steady := load(b, rows[i].caddy, length, benchRate)
			rows[i].speeds = append(rows[i].speeds, len(fast)/int(length.Seconds()))
			rows[i].p99s = append(rows[i].p99s, p99(steady))
		}
	}
	after, err := servertest.ReadMachine()
	require.NoError(b, err)
	fmt.Print("\n| Caddy with | requests a second | p99 µs at 1,000 a second |\n| --- | ---: | ---: |\n")
	for _, row := range rows {
		slices.Sort(row.speeds)
		slices.Sort(row.p99s)
		fmt.Printf("| %s | %d | %d |\n", row.name, row.speeds[2], row.p99s[2])
	}
	fmt.Println(after.Since(before))
}

// benchRate is the fixed rate, in requests a second.
const benchRate = 1000

// load asks by 32 clients, at a rate, and returns how long each request took: see
// [servertest.Pace].
func load(b *testing.B, caddy *server, length time.Duration, rate int) []time.Duration {
	var times [32][]time.Duration
	servertest.Pace(len(times), rate, length, func(client int, due time.Time) bool {
		a, err := caddy.try(b.Context(), "/")
		if err != nil || a.status != http.StatusOK {
			b.Errorf("answer %v: %v", a, err)
			return false
		}
		times[client] = append(times[client], time.Since(due))
		return true
	})
	all := slices.Concat(times[:]...)
	require.NotEmpty(b, all)
	return all
}

func p99(times []time.Duration) int {
	slices.Sort(times)
	return int(times[len(times)*99/100].Microseconds())
}
