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

// The load that redis-benchmark sends: so many connections, and keys that it picks at random.
const loadClients, loadKeys = 8, 1000

// A loaded case is sent by redis-benchmark, as many calls at once as pipeline says.
type loaded struct {
	Case
	contestant
	client   *Client
	prefix   string // of its keys: the cases on a server do not share any
	pipeline int
	requests int // that fill a round
}

// throughput has a row for each alternative: calls per second of connections that send many
// calls at once, and the latency of connections that send one.
func (s *Setting) throughput() Table {
	table := Table{Title: "Throughput and latency",
		Columns: []string{"call", "calls per second", "ratio to SET PX", "server µs per call", "ratio to SET PX",
			"limited calls per second", "p99 µs, one call at once"},
		Chart: Chart{Title: "Calls per second, in proportion to SET PX (more is better)", MoreIsBetter: true,
			Note: fmt.Sprintf("%s, redis-benchmark, %d clients, %d calls at once", s.server, loadClients, sentAtOnce)}}
	cases := withoutCase("peek", Cases(s.Alternatives()))
	many := s.load("throughput", cases, sentAtOnce)
	single := s.load("latency", withoutCase("limited", cases), 1)
	if s.failed(nil) {
		return table
	}
	reference := &many[slices.IndexFunc(many, func(l *loaded) bool { return l.Name == Reference })].contestant
	for _, l := range many {
		share := l.quartiles(reference, rate).Q2
		table.Chart.add(l.Case, share, fmt.Sprintf("%.2f", share))
		if l.Case.Case == "limited" {
			table.set(l.Title, 5, thousands(l.median(rate)))
			continue
		}
		table.set(l.Title, 1, thousands(l.median(rate)))
		table.set(l.Title, 2, l.ratio(reference, rate))
		table.set(l.Title, 3, fmt.Sprintf("%.2f", l.median(processor)))
		table.set(l.Title, 4, l.ratio(reference, processor))
	}
	for _, l := range single {
		table.set(l.Title, 6, thousands(l.median(p99)))
	}
	table.Note = fmt.Sprintf("%s and its redis-benchmark, %d clients, %d calls at once each, %s keys; in the last column "+
		"one call at once. Medians of %d rounds of about %v, the alternatives in turn; in brackets the quartiles "+
		"of the rounds. Client and server share the machine.",
		s.server, loadClients, sentAtOnce, thousands(loadKeys), s.Rounds, s.Round)
	return table
}

// load lets cases take turns. It leaves out cases of several commands, because redis-benchmark can only
// send one, and kinds whose calls are only counted: redis-benchmark cannot make a holder of slots for each call.
func (s *Setting) load(part string, cases []Case, pipeline int) (all []*loaded) {
	servers := map[bool]*Client{}
	var turns []*contestant
	for i, c := range cases {
		if c.OnlyCounted || len(c.operation.Commands(Call{})) > 1 {
			continue
		}
		if servers[c.Peer] == nil {
			servers[c.Peer] = s.Start(s.moduleOf(c.Peer), nil)
			defer servers[c.Peer].Close()
		}
		l := &loaded{Case: c, client: servers[c.Peer], prefix: fmt.Sprintf("k%02d:", i), pipeline: pipeline, requests: 5000}
		l.contestant = contestant{title: c.Title, round: l.send}
		l.client.prepare(c, keys(l.prefix, loadKeys))
		all, turns = append(all, l), append(turns, &l.contestant)
	}
	s.takeTurns(part, turns)
	return all
}

// send sends one round. Redis-benchmark stops at an error reply, but does not read other
// replies: calls before and after the round are checked instead.
func (l *loaded) send() (result round) {
	some := keys(l.prefix, 16)
	l.client.expect(l.Case, some...)
	before := l.client.Info(serverTime)
	if l.client.failed(nil) {
		return result
	}
	// It is in the server's folder: redis-benchmark, or valkey-benchmark.
	program := strings.TrimSuffix(servertest.Program(), "-server") + "-benchmark"
	words := strings.Fields(fmt.Sprint("--csv -p ", l.client.server.Port, " -c ", loadClients, " -P ", l.pipeline,
		" -r ", loadKeys, " -n ", l.requests))
	words = append(words, l.operation.Commands(Call{Key: l.prefix + "__rand_int__"})[0]...)
	output, err := exec.CommandContext(l.client.Ctx, program, words...).CombinedOutput()
	if err != nil {
		l.client.failed(fmt.Errorf("%s of %s: %w\n%s", program, l.ID(), err, output))
		return result
	}
	result, err = readCSV(string(output))
	l.client.failed(err)
	result[processor] = (l.client.Info(serverTime) - before) * 1e6 / float64(l.requests)
	l.client.expect(l.Case, some...)
	l.requests = max(1000, int(result[rate]*l.client.Round.Seconds())) // fill the next one
	return result
}

// readCSV reads the output of redis-benchmark: a line of names, and one of values.
func readCSV(output string) (result round, err error) {
	lines, err := csv.NewReader(strings.NewReader(output)).ReadAll()
	if err == nil && len(lines) == 2 {
		for figure, name := range map[int]string{rate: "rps", p99: "p99_latency_ms"} {
			result[figure], _ = strconv.ParseFloat(lines[1][max(0, slices.Index(lines[0], name))], 64)
		}
	}
	if result[rate]*result[p99] <= 0 {
		return round{}, fmt.Errorf("redis-benchmark has printed %q", output)
	}
	result[p99] *= 1000
	return result, nil
}
