package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/montanaflynn/stats"
)

// Callgrind writes a file of counts each time the server enters bench_mark, a function of the
// marker module, and starts again from zero. So BENCH.MARK before and after a block of calls counts
// the block. Nothing attaches to the process, so valgrind's debugger interface, which containers
// often forbid, is not needed.
//
// A count includes everything that the process executes, and nothing that the kernel does.

const (
	instructionCalls  = 8000 // in a block that is counted; counts repeat to within 0.5%
	instructionKeys   = 1000
	instructionBlocks = 3 // the middle one is reported: a timer may fire within one
)

// A Count has the instructions per call in the middle block. Spread is the difference between the
// blocks, as a share of that number.
type Count struct{ PerCall, Spread float64 }

// Count counts the instructions of cases, in their own server, and returns the counts by ID.
func (s *Setting) Count(module string, cases []Case, calls int) map[string]Count {
	counts := map[string]Count{}
	folder, err := os.MkdirTemp("", "funnel-bench-callgrind-")
	if len(cases) == 0 || s.failed(err) {
		return counts
	}
	defer os.RemoveAll(folder)
	dumps := filepath.Join(folder, "counts")
	s.Progress("instructions: starting the server under callgrind")
	client := s.Start(module, []string{"valgrind", "--tool=callgrind",
		"--callgrind-out-file=" + dumps, "--dump-before=bench_mark",
		// The program may be a script that ends in the server, like the scripts of
		// scripts/servers.sh.
		"--trace-children=yes", "--trace-children-skip=*/dirname,*/readlink"},
		// The server does as little as possible besides the commands.
		"--hz", "1", "--dynamic-hz", "no")
	defer client.Close()

	marks := 0
	mark := func() string {
		marks++
		client.Do("BENCH.MARK")
		return fmt.Sprintf("%s.%d", dumps, marks)
	}
	names := keys("key:", instructionKeys)
	for _, c := range cases {
		client.Do("FLUSHALL", "SYNC")
		client.prepare(c, names)
		random := rand.New(rand.NewPCG(7, 0)) // the same keys for all cases
		var blocks []float64
		mark()
		for range instructionBlocks {
			for range calls / sentAtOnce {
				var some [sentAtOnce]string
				for i := range some {
					some[i] = names[random.IntN(len(names))]
				}
				client.expect(c, some[:]...)
			}
			total, err := readTotal(mark())
			if s.failed(err) {
				return counts
			}
			blocks = append(blocks, total/float64(calls))
		}
		middle, _ := stats.Median(blocks)
		counts[c.ID()] = Count{middle, (slices.Max(blocks) - slices.Min(blocks)) / middle}
		s.Progress("instructions: %-20s %8.0f, blocks within %.1f%%", c.ID(), middle, counts[c.ID()].Spread*100)
	}
	return counts
}

// instructions has a row per alternative and a column per case.
func (s *Setting) instructions() Table {
	table := Table{
		Title:   "Instructions per call",
		Columns: []string{"call", "allowed", "limited", "allowed / SET PX"},
	}
	worst, reference := 0.0, 0.0
	for _, peer := range []bool{false, true} {
		cases := slices.DeleteFunc(Cases(s.Alternatives()), func(c Case) bool { return c.Peer != peer })
		counts := s.Count(s.moduleOf(peer), cases, instructionCalls)
		for _, c := range cases {
			count := counts[c.ID()]
			if c.Name == Reference {
				reference = count.PerCall
			}
			column := max(1, slices.Index(table.Columns, c.Case))
			table.set(c.Title, column, thousands(count.PerCall))
			if column == 1 {
				table.set(c.Title, 3, fmt.Sprintf("%.2f", count.PerCall/reference))
			}
			// Slots grow with each call, so their blocks differ.
			if !c.OnlyCounted {
				worst = max(worst, count.Spread)
			}
		}
	}
	table.Note = fmt.Sprintf("Counted by callgrind in %s, %d calls sent at once on random keys out of %s. "+
		"The middle one of three blocks of calls, which are at most %.1f%% apart, except for slots, "+
		"of which none is given back meanwhile.",
		s.server, sentAtOnce, thousands(instructionKeys), worst*100)
	return table
}

var totals = regexp.MustCompile(`(?m)^totals: (\d+)`)

// readTotal reads the count from a file that callgrind has written.
func readTotal(path string) (float64, error) {
	dump, err := os.ReadFile(path)
	match := totals.FindSubmatch(dump)
	if match != nil {
		return strconv.ParseFloat(string(match[1]), 64)
	}
	return 0, fmt.Errorf("callgrind has written no total; this valgrind may not know --dump-before: %w", err)
}
