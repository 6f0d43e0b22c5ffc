package bench

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/montanaflynn/stats"

	"funnel/internal/servertest"
)

// A load describes what redis-benchmark sends: the number of connections, the calls at once
// on each, and the number of keys, from which it picks at random.
type load struct {
	clients, pipeline, keys int
	config                  []string // of the server
	replica                 bool
}

// A round has figures: calls per second; the time that the server's threads worked, in
// microseconds per call, which is the cost of a call when the client is the bottleneck;
// and latencies in microseconds. For a client in Go, it also has the client's processor
// time and number of allocations, per call, and the commands that the server got in a second.
type round [7]float64

const rate, processor, p50, p99, ofClient, allocations, commands = 0, 1, 2, 3, 4, 5, 6
const roundLength = 300 * time.Millisecond // about

// A run is a case in a load, and the figures of its rounds.
type run struct {
	Case
	load
	client   *Client
	prefix   string // of its keys: the runs on a server do not share any
	requests int    // that fill a round
	rounds   []round
}

// measure takes cases in turn, in another order each time: a machine that becomes
// slower meanwhile is slower for all of them. It leaves out cases that redis-benchmark
// cannot send, because that can only send one command.
func (s *Setting) measure(cases []Case, l load) (runs []*run) {
	clients := map[bool]*Client{}
	for i, c := range cases {
		if len(c.operation.Commands(Call{})) > 1 {
			continue
		}
		if clients[c.Peer] == nil {
			clients[c.Peer] = s.Start(s.moduleOf(c.Peer), nil, l.config...)
			defer clients[c.Peer].Close()
		}
		r := &run{Case: c, load: l, client: clients[c.Peer], prefix: fmt.Sprintf("k%02d:", i), requests: 20_000}
		r.client.prepare(c, keys(r.prefix, l.keys))
		runs = append(runs, r)
	}
	if l.replica && !s.failed(nil) {
		replica := s.Start(s.Module, nil, "--replicaof", fmt.Sprint("127.0.0.1 ", clients[false].server.Port))
		defer replica.Close()
		for replica.Info("master_repl_offset") == 0 && !s.failed(nil) {
			time.Sleep(50 * time.Millisecond)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for turn := range 1 + s.Rounds {
		for _, i := range random.Perm(len(runs)) {
			result, err := runs[i].round()
			switch {
			case s.failed(err):
				return nil
			case turn == 0: // only shows how many calls fill a round
				runs[i].requests = max(1000, int(result[rate]*roundLength.Seconds()))
			default:
				runs[i].rounds = append(runs[i].rounds, result)
			}
		}
	}
	return runs
}

// round sends one round. Redis-benchmark stops at an error reply, but does not read other
// replies: calls before and after the round are checked instead.
func (r *run) round() (round, error) {
	some := keys(r.prefix, min(r.keys, 16))
	r.client.expect(r.Case, some...)
	before := r.client.Info("used_cpu_user", "used_cpu_sys")
	// It is in the server's folder: redis-benchmark, or valkey-benchmark.
	program, err := exec.LookPath(strings.TrimSuffix(servertest.Program(), "-server") + "-benchmark")
	if r.client.failed(err) {
		return round{}, err
	}
	words := strings.Fields(fmt.Sprint("--csv -p ", r.client.server.Port, " -c ", r.clients, " -P ", r.pipeline, " -r ", r.keys, " -n ", r.requests))
	words = append(words, r.operation.Commands(Call{Key: r.prefix + "__rand_int__"})[0]...)
	output, err := exec.CommandContext(r.client.Ctx, program, words...).CombinedOutput()
	if err != nil {
		return round{}, fmt.Errorf("%s of %s: %w\n%s", program, r.ID(), err, output)
	}
	result, err := readCSV(string(output))
	result[processor] = (r.client.Info("used_cpu_user", "used_cpu_sys") - before) * 1e6 / float64(r.requests)
	r.client.expect(r.Case, some...)
	return result, err
}

// readCSV reads the output of redis-benchmark: a line of names, and one of values.
func readCSV(output string) (result round, err error) {
	lines, err := csv.NewReader(strings.NewReader(output)).ReadAll()
	if err == nil && len(lines) == 2 {
		for figure, name := range map[int]string{rate: "rps", p50: "p50_latency_ms", p99: "p99_latency_ms"} {
			result[figure], _ = strconv.ParseFloat(lines[1][max(0, slices.Index(lines[0], name))], 64)
		}
	}
	if result[rate]*result[p50]*result[p99] <= 0 {
		return round{}, fmt.Errorf("redis-benchmark has printed %q", output)
	}
	result[p50], result[p99] = result[p50]*1000, result[p99]*1000
	return result, nil
}

func (r *run) median(figure int) float64 { return quartiles(r, nil, figure).Q2 }

// quartiles sums rounds up, divided by the same rounds of a reference.
func quartiles(r, reference *run, figure int) stats.Quartiles {
	var values []float64
	for turn, own := range r.rounds {
		value := own[figure]
		if reference != nil {
			value /= reference.rounds[turn][figure]
		}
		values = append(values, value)
	}
	q, _ := stats.Quartile(values) // an error is for no values
	return q
}

// ratio formats the median of the ratio to a reference, and its quartiles.
func ratio(r, reference *run, figure int) string {
	q := quartiles(r, reference, figure)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", q.Q2, q.Q1, q.Q3)
}

// timed returns the runs of all cases except peeks, and that of the reference.
func (s *Setting) timed(l load, without string) (runs []*run, reference *run) {
	runs = s.measure(slices.DeleteFunc(Cases(s.Alternatives()), func(c Case) bool { return c.Case == "peek" || c.Case == without }), l)
	if i := slices.IndexFunc(runs, func(r *run) bool { return r.Name == Reference }); i >= 0 {
		reference = runs[i]
	}
	return runs, reference
}

func (s *Setting) loadNote(l load) string {
	return fmt.Sprintf("%s and its redis-benchmark, %d clients, %d calls at once each, %s keys. Medians of %d rounds of about %s, the alternatives in turn; in brackets the quartiles of the rounds. Client and server share the machine. A call of the sorted set, or of INCR and EXPIRE, is more than one command, which redis-benchmark cannot send: no figures.",
		s.server, l.clients, l.pipeline, thousands(float64(l.keys)), s.Rounds, roundLength)
}

func (s *Setting) throughput() Table {
	l := load{clients: 8, pipeline: 16, keys: 1000}
	table := Table{Title: "Throughput", Note: s.loadNote(l),
		Columns: []string{"call", "calls per second", "ratio to SET PX", "server µs per call", "ratio to SET PX", "limited calls per second"},
		Chart: Chart{Title: "Calls per second, in proportion to SET PX (more is better)",
			Note: fmt.Sprintf("%s, redis-benchmark, %d clients, %d calls at once", s.server, l.clients, l.pipeline)}}
	runs, reference := s.timed(l, "peek")
	for _, r := range runs {
		share := quartiles(r, reference, rate).Q2
		table.Chart.add(r.Case, share, fmt.Sprintf("%.2f", share))
		if r.Case.Case == "limited" {
			table.set(r.Title, 5, thousands(r.median(rate)))
			continue
		}
		for i, text := range []string{thousands(r.median(rate)), ratio(r, reference, rate), fmt.Sprintf("%.2f", r.median(processor)), ratio(r, reference, processor)} {
			table.set(r.Title, i+1, text)
		}
	}
	return table
}

func (s *Setting) latency() Table {
	l := load{clients: 8, pipeline: 1, keys: 1000}
	table := Table{Title: "Latency in microseconds", Columns: []string{"call", "p50", "p99", "p99 / SET PX"}, Note: s.loadNote(l)}
	runs, reference := s.timed(l, "limited")
	for _, r := range runs {
		table.Rows = append(table.Rows, []string{r.Title, thousands(r.median(p50)), thousands(r.median(p99)), ratio(r, reference, p99)})
	}
	return table
}

// scale varies one thing at a time, and switches the AOF and a replica on.
func (s *Setting) scale() Table {
	table := Table{Title: "CL.THROTTLE as keys, clients and listeners grow",
		Columns: []string{"keys", "clients", "AOF", "replica", "server µs per call", "of SET PX", "ratio", "calls per second"},
		Note:    fmt.Sprintf("%s, 16 calls at once per client. Medians of %d rounds; in brackets the quartiles of the rounds.", s.server, s.Rounds)}
	pair := Cases(choose("set", "throttle"))[:2]
	aof := []string{"--appendonly", "yes"}
	for _, l := range []load{ // at fewer keys than 10, calls of all rounds would fill a funnel
		{10, 16, 10, nil, false}, {10, 16, 100, nil, false}, {10, 16, 10_000, nil, false}, {10, 16, 1_000_000, nil, false},
		{1, 16, 100_000, nil, false}, {10, 16, 100_000, nil, false}, {100, 16, 100_000, nil, false}, {1000, 16, 100_000, nil, false},
		{10, 16, 100_000, aof, false}, {10, 16, 100_000, nil, true}, {10, 16, 100_000, aof, true},
	} {
		s.Progress("scale: %d keys, %d clients, AOF %v, replica %v", l.keys, l.clients, l.config != nil, l.replica)
		runs := s.measure(pair, l)
		if runs == nil {
			break
		}
		set, throttle, yes := runs[0], runs[1], map[bool]string{true: "yes", false: "no"}
		table.Rows = append(table.Rows, []string{thousands(float64(l.keys)), thousands(float64(l.clients)), yes[l.config != nil], yes[l.replica],
			fmt.Sprintf("%.2f", throttle.median(processor)), fmt.Sprintf("%.2f", set.median(processor)),
			ratio(throttle, set, processor), thousands(throttle.median(rate))})
	}
	return table
}
