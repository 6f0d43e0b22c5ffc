package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// How instructions are measured. Callgrind writes a file of counts each time the
// server enters bench_mark, a function of the marker module, and starts again from
// zero: so BENCH.MARK before and after a block of calls counts the block, and one
// start of the server serves all cases. Nothing attaches to the process, so the
// debugger interface of valgrind, which containers often forbid, is not needed.
//
// A count holds everything that the process executes: the event loop, reading and
// parsing of the command, reply, and the timer of the server, which is set to its
// lowest frequency. It holds none of what the kernel does.

const (
	// instructionKeys is how many keys a case spreads over, at random.
	instructionKeys = 1000

	// instructionPipeline is how many calls are sent at once: reading from the
	// socket and writing to it are shared among them.
	instructionPipeline = 16

	// instructionBlocks is how many blocks are counted per case. The middle one is
	// reported, so a timer that fires within one block does no harm.
	instructionBlocks = 3
)

// A CallgrindOptions says what to count.
type CallgrindOptions struct {
	Program  string // of the server
	Valgrind string // path or name of valgrind
	Module   string
	Marker   string // from BuildMarker
	Peer     string // another module with CL.THROTTLE, or empty

	// Calls per block, a multiple of 16. 8,000 repeat to within 0.5%.
	Calls int

	// Brief leaves everything out that the guard does not need.
	Brief bool

	// Progress is told what is going on, a line at a time.
	Progress func(format string, arguments ...any)
}

// An InstructionCount is what one case costs.
type InstructionCount struct {
	// Name of the alternative, and the case: "allowed", "limited", "peek", or
	// empty for plain commands.
	Name string `json:"name"`
	Case string `json:"case,omitempty"`

	// Title is for tables.
	Title string `json:"title"`

	// PerCall is the count of instructions per call, of the middle block; Spread
	// is how far the blocks lie apart, as a share of it.
	PerCall float64 `json:"instructions_per_call"`
	Spread  float64 `json:"spread"`
}

// ID names the count in files: "throttle/allowed".
func (c InstructionCount) ID() string {
	if c.Case == "" {
		return c.Name
	}
	return c.Name + "/" + c.Case
}

// ValgrindVersion is the version of valgrind, or an error that says how to get it.
func ValgrindVersion(ctx context.Context, valgrind string) (string, error) {
	output, err := exec.CommandContext(ctx, valgrind, "--version").Output()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("valgrind is missing ('%s'): install it (apt-get install valgrind; dnf install valgrind), name it with -valgrind, or leave the instruction counts out with -skip instructions", valgrind)
	}
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", valgrind, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// MeasureInstructions counts the instructions per call of the alternatives, in
// their cases. When it is interrupted it returns what it has.
func MeasureInstructions(ctx context.Context, options CallgrindOptions, alternatives []Alternative) ([]InstructionCount, error) {
	var counts []InstructionCount
	for _, on := range []string{OnFunnel, OnPeer} {
		module := map[string]string{OnFunnel: options.Module, OnPeer: options.Peer}[on]
		cases := instructionCases(on, alternatives, options.Brief)
		if len(cases) == 0 {
			continue
		}
		counted, err := countInstructions(ctx, options, module, cases)
		counts = append(counts, counted...)
		if err != nil {
			return counts, err
		}
	}
	return counts, nil
}

type instructionCase struct {
	count    InstructionCount
	workload workload
}

func instructionCases(on string, alternatives []Alternative, brief bool) []instructionCase {
	var cases []instructionCase
	for _, a := range alternatives {
		if a.Server != on {
			continue
		}
		add := func(name string, w workload) {
			cases = append(cases, instructionCase{InstructionCount{Name: a.Name, Case: name, Title: a.Title}, w})
		}
		if !a.Limits {
			add("", newWorkload(a, 0))
			continue
		}
		add("allowed", newWorkload(a, 0))
		add("limited", newWorkload(a, 1))
		if a.Peeks && !brief {
			add("peek", newPeek(a))
		}
	}
	return cases
}

// countInstructions counts all cases in one run of the server.
func countInstructions(ctx context.Context, options CallgrindOptions, module string, cases []instructionCase) ([]InstructionCount, error) {
	options.Progress("instructions: starting the server under callgrind")
	counts, err := countInOneRun(ctx, options, module, cases)
	if ctx.Err() != nil {
		return counts, context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("the server does not run under callgrind: %w", err)
	}
	return counts, err
}

func countInOneRun(ctx context.Context, options CallgrindOptions, module string, cases []instructionCase) ([]InstructionCount, error) {
	folder, err := os.MkdirTemp("", "funnel-bench-callgrind-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	dumps := filepath.Join(folder, "counts")

	server, err := StartServer(ctx, ServerOptions{
		Program: options.Program,
		Wrapper: []string{options.Valgrind, "--tool=callgrind", "--callgrind-out-file=" + dumps, "--dump-before=bench_mark",
			// The program may be a script that ends in the server, as those of
			// scripts/servers.sh are.
			"--trace-children=yes", "--trace-children-skip=*/dirname,*/readlink"},
		Modules: []string{module, options.Marker},
		// The least of what is none of the commands' business.
		Config: []string{"--hz", "1", "--dynamic-hz", "no"},
	})
	if err != nil {
		return nil, err
	}
	defer server.Stop()

	player, err := newPlayer(ctx, server.Address, 0)
	if err != nil {
		return nil, err
	}
	defer player.close()

	var counts []InstructionCount
	marks := 0
	mark := func() error {
		marks++
		return server.Client.Do(ctx, "BENCH.MARK").Err()
	}
	for _, c := range cases {
		if setup := c.workload.alternative.Setup; setup != nil {
			if err := setup(ctx, server.Client); err != nil {
				return counts, err
			}
		}
		if err := server.empty(ctx); err != nil {
			return counts, err
		}
		if err := player.fill(&c.workload, instructionKeys); err != nil {
			return counts, err
		}
		if err := mark(); err != nil {
			return counts, err
		}
		var blocks []float64
		for range instructionBlocks {
			for range options.Calls / instructionPipeline {
				if err := player.batch(&c.workload, instructionPipeline, instructionKeys); err != nil {
					return counts, err
				}
			}
			if err := mark(); err != nil {
				return counts, err
			}
			total, err := readTotal(fmt.Sprintf("%s.%d", dumps, marks))
			if err != nil {
				return counts, err
			}
			blocks = append(blocks, total/float64(options.Calls))
		}
		c.count.PerCall = median(blocks)
		c.count.Spread = (slices.Max(blocks) - slices.Min(blocks)) / c.count.PerCall
		counts = append(counts, c.count)
		options.Progress("instructions: %-20s %8.0f, blocks within %.1f%%", c.count.ID(), c.count.PerCall, c.count.Spread*100)
	}
	return counts, nil
}

var totals = regexp.MustCompile(`(?m)^totals: (\d+)`)

// readTotal reads the count out of a file that callgrind has written.
func readTotal(path string) (float64, error) {
	dump, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("callgrind has written no counts; this valgrind may not know --dump-before: %w", err)
	}
	match := totals.FindSubmatch(dump)
	if match == nil {
		return 0, fmt.Errorf("callgrind has written no total to %s", filepath.Base(path))
	}
	return strconv.ParseFloat(string(match[1]), 64)
}
