package bench

import (
	"encoding/csv"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"funnel/internal/servertest"
)

// The load of redis-benchmark: the number of its connections, and of the keys from which it picks
// at random.
const loadClients, loadKeys = 8, 1000

// A loaded case is sent by redis-benchmark.
type loaded struct {
	Case
	contestant
	client   *Client
	prefix   string // of its keys: the cases on a server do not share keys
	requests int    // how many requests fill a round
}

// throughput has a row for each alternative: calls per second of connections that send many calls
// at once.
func (s *Setting) throughput() Table {
	table := Table{Title: "Throughput", Columns: []string{"call", "calls per second", "ratio to SET PX",
		"server µs per call", "ratio to SET PX", "limited calls per second"}}
	all := s.load(Cases(s.Alternatives()))
	if s.failed(nil) {
		return table
	}
	reference := &all[slices.IndexFunc(all, func(l *loaded) bool { return l.Name == Reference })].contestant
	for _, l := range all {
		if l.Case.Case == "limited" {
			table.set(l.Title, 5, thousands(l.median(rate)))
			continue
		}
		table.set(l.Title, 1, thousands(l.median(rate)))
		table.set(l.Title, 2, l.ratio(reference, rate))
		table.set(l.Title, 3, fmt.Sprintf("%.2f", l.median(processor)))
		table.set(l.Title, 4, l.ratio(reference, processor))
	}
	table.Note = fmt.Sprintf("%s and its redis-benchmark, %d clients, %d calls at once each, %s keys. "+
		"Medians of %d rounds of about %v, the alternatives in turn; in brackets the quartiles of the rounds. "+
		"Client and server share the machine.",
		s.server, loadClients, sentAtOnce, thousands(loadKeys), s.Rounds, s.Round)
	return table
}

// load lets cases take turns. It leaves out slots, because redis-benchmark cannot make a holder for
// each call.
func (s *Setting) load(cases []Case) (all []*loaded) {
	servers := map[bool]*Client{}
	var turns []*contestant
	for i, c := range cases {
		if c.OnlyCounted {
			continue
		}
		if servers[c.Peer] == nil {
			servers[c.Peer] = s.Start(s.moduleOf(c.Peer), nil)
			defer servers[c.Peer].Close()
		}
		l := &loaded{Case: c, client: servers[c.Peer], prefix: fmt.Sprintf("k%02d:", i), requests: 5000}
		l.contestant = contestant{title: c.Title, round: l.send}
		l.client.prepare(c, keys(l.prefix, loadKeys))
		all, turns = append(all, l), append(turns, &l.contestant)
	}
	s.takeTurns("throughput", turns)
	return all
}

// send sends one round. Redis-benchmark stops at an error reply, but does not check other replies.
// So send makes calls before and after the round, and checks these.
func (l *loaded) send() (result round) {
	some := keys(l.prefix, 16)
	l.client.expect(l.Case, some...)
	before := l.client.Info(serverTime)
	if l.client.failed(nil) {
		return result
	}
	// The program is in the server's folder: redis-benchmark, or valkey-benchmark.
	program := strings.TrimSuffix(servertest.Program(), "-server") + "-benchmark"
	words := strings.Fields(fmt.Sprint("--csv -p ", l.client.server.Port, " -c ", loadClients, " -P ", sentAtOnce,
		" -r ", loadKeys, " -n ", l.requests))
	words = append(words, l.operation.Words(Target{Key: l.prefix + "__rand_int__"})...)
	output, err := exec.CommandContext(l.client.Ctx, program, words...).CombinedOutput()
	if err == nil {
		result[rate], err = readCSV(string(output))
	}
	if err != nil {
		l.client.failed(fmt.Errorf("%s of %s: %w\n%s", program, l.ID(), err, output))
		return result
	}
	result[processor] = (l.client.Info(serverTime) - before) * 1e6 / float64(l.requests)
	l.client.expect(l.Case, some...)
	l.requests = max(1000, int(result[rate]*l.client.Round.Seconds())) // fill the next one
	return result
}

// readCSV reads the calls per second from the output of redis-benchmark: a line of names, and one
// of values.
func readCSV(output string) (callsPerSecond float64, err error) {
	lines, err := csv.NewReader(strings.NewReader(output)).ReadAll()
	if err != nil || len(lines) != 2 {
		return 0, fmt.Errorf("not a line of names and one of values: %w", err)
	}
	return strconv.ParseFloat(lines[1][max(0, slices.Index(lines[0], "rps"))], 64)
}
