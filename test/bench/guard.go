package bench

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// The regression guard compares ratios, because another build of the same version of Redis executes
// a few percent more or fewer instructions everywhere:
//
//   - ratios to commands of the server, with the ratios that are committed for its version
//     in instructions.txt; other versions do different work and are not judged;
//   - ratios to the floor (marker/marker.c), on all servers: a cost above it is funnel's own;
//   - ratios of CL.RESERVE and CL.TAKE to CL.THROTTLE, on all servers.
//
//go:embed instructions.txt
var committedText string

const (
	guardTolerance = 0.03 // counts repeat to within 0.5%, and compilers differ by as much
	guardRuns      = 3    // a call has become more expensive only if all runs say so
)

// guarded are the ratios that the guard compares. An allowed call writes a key with an expiry, like
// SET; a limited call replies five integers, like the noop. Most is the largest ratio that is
// accepted; if it is 0, the committed ratio counts.
var guarded = []struct {
	id, yardstick string
	most          float64
}{
	{"throttle/allowed", "set", 0},
	{"throttle/limited", "noop", 0},
	{"throttle/allowed", "floor/allowed", 1.14},
	{"throttle/limited", "floor/limited", 1.17},
	{"reserve/allowed", "throttle/allowed", 1.20},
	{"reserve/limited", "throttle/limited", 1.30},
	{"take/allowed", "throttle/allowed", 1.22},
	{"take/limited", "throttle/limited", 1.23},
	{"quota/allowed", "reserve/allowed", 1.05},
	{"quota/limited", "reserve/limited", 1.06},
	{"reserve3/allowed", "throttle/allowed", 2.92},
	{"reserve3/limited", "throttle/limited", 2.82},
}

// parseCommitted reads a server's lines: server, version, ID and count. It skips empty lines and
// lines that begin with #.
func parseCommitted(text, server string) (map[string]float64, error) {
	committed := map[string]float64{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		var name, version, id string
		var count float64
		_, err := fmt.Sscanln(line, &name, &version, &id, &count)
		if err != nil || count <= 0 {
			return nil, fmt.Errorf("instructions.txt: line %d must be server, version, name and count, "+
				"as in 'redis 7.0.15 set 9693', not '%s'", i+1, line)
		}
		if name+" "+version == server {
			committed[id] = count
		}
	}
	return committed, nil
}

// A verdict is the judgement on one ratio; most is the largest that is tolerated.
type verdict struct {
	id, yardstick  string
	measured, most float64
}

func (v verdict) failed() bool { return v.measured > v.most }

// judge compares counts with the committed ones, if there are any, and with the floor.
func judge(committed map[string]float64, counts map[string]Count) ([]verdict, error) {
	var verdicts []verdict
	for _, g := range guarded {
		v := verdict{g.id, g.yardstick, counts[g.id].PerCall / counts[g.yardstick].PerCall, g.most}
		if g.most == 0 {
			if len(committed) == 0 {
				continue
			}
			v.most = committed[g.id] / committed[g.yardstick] * (1 + guardTolerance)
		}
		if !(v.measured > 0 && v.most > 0) { // nor is NaN
			return nil, fmt.Errorf("'%s' and '%s' are needed, but are not committed, or were not measured", g.id, g.yardstick)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// Guard counts the instructions of guarded calls, and fails if a ratio has risen.
func (s *Setting) Guard(output io.Writer) {
	committed, err := parseCommitted(committedText, s.server)
	s.failed(err)
	cases := Cases(choose("set", "noop", "floor", "throttle", "reserve", "take", "quota", "reserve3"))
	var counts map[string]Count
	var verdicts []verdict
	for run := 0; run == 0 || run < guardRuns && slices.ContainsFunc(verdicts, verdict.failed); run++ {
		counts = s.Count(s.Module, cases, instructionCalls)
		again, err := judge(committed, counts)
		if s.failed(err) {
			return
		}
		for i := range verdicts {
			again[i].measured = min(again[i].measured, verdicts[i].measured)
		}
		verdicts = again
	}
	fmt.Fprintf(output, "Instructions per call. To commit them on purpose, with the reason, in %s:\n\n%s\n",
		"test/bench/instructions.txt", committedLines(s.server, counts))
	for _, v := range verdicts {
		word := "ok"
		if v.failed() {
			word = "FAILED"
			s.failed(errors.New("calls have become more expensive: make them cheaper again, " +
				"or commit the lines above in test/bench/instructions.txt and say why"))
		}
		fmt.Fprintf(output, "%-6s  %-16s is %.3f times %-13s  at most %.3f\n", word, v.id, v.measured, v.yardstick, v.most)
	}
	if len(committed) == 0 {
		fmt.Fprintf(output, "SKIPPED: nothing is committed for %s, so only the floor was compared with\n", s.server)
	}
}

func committedLines(server string, counts map[string]Count) (text string) {
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf("%s %-18s %6.0f\n", server, id, counts[id].PerCall)
	}
	return text
}
