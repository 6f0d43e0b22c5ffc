package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The parts of a report that can be asked for.
const (
	partInstructions = "instructions"
	partMemory       = "memory"
	partThroughput   = "throughput"
	partLatency      = "latency"
	partTail         = "tail"
	partFootprint    = "footprint"
	partScale        = "scale"
)

var (
	usualParts = []string{partInstructions, partMemory, partThroughput, partLatency}
	tailParts  = []string{partTail, partFootprint}
	scaleParts = []string{partScale}
	allParts   = slices.Concat(usualParts, tailParts, scaleParts)
)

type options struct {
	server, module, peer, valgrind string

	parts        []string
	alternatives []string

	clients, pipeline, rounds, calls, rate int
	keys, scaleKeys                        int64
	scaleClients                           int
	limited                                float64
	round                                  time.Duration

	json, markdown bool
	svg            string
	update         []string

	guard     bool
	guardFile string
}

const usage = `usage: funnel-bench [option...]

Measures what CL.THROTTLE costs in a Redis or Valkey server, and the other ways
to limit a rate beside it. Tables go to standard output, progress to standard
error. Ctrl-C stops all servers and prints what there is.

Without options: instructions, memory, throughput and latency.

`

// parse reads the command line. It returns flag.ErrHelp when help was asked for.
func parse(arguments []string, output io.Writer) (options, error) {
	var o options
	var alternatives, skip, update string
	var tail, scale, all bool
	flags := flag.NewFlagSet("funnel-bench", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() {
		fmt.Fprint(output, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.module, "module", "funnel.so", "the module to measure: `path` of funnel.so")
	flags.StringVar(&o.peer, "peer", "", "another module with CL.THROTTLE, measured in a server of its own: `path`")
	flags.StringVar(&o.server, "server", "", "`path` of redis-server or valkey-server ($FUNNEL_SERVER, or from the PATH)")
	flags.StringVar(&o.valgrind, "valgrind", "valgrind", "`path` of valgrind")

	flags.BoolVar(&tail, "tail", false, "measure instead: tail latency at a fixed rate, start-up, memory, threads")
	flags.BoolVar(&scale, "scale", false, "measure instead: cost as keys, clients, AOF and replica grow")
	flags.BoolVar(&all, "all", false, "measure everything")
	flags.StringVar(&skip, "skip", "", "leave out: `parts`, with commas, of "+strings.Join(allParts, ", "))
	flags.StringVar(&alternatives, "alternatives", "", "measure only: `names`, with commas; 'none' lists them")

	flags.IntVar(&o.clients, "clients", 8, "wall clock: connections that send at the same time")
	flags.IntVar(&o.pipeline, "pipeline", 16, "throughput and scale: calls that a client sends at once")
	flags.Int64Var(&o.keys, "keys", 1000, "wall clock: keys, chosen at random")
	flags.Float64Var(&o.limited, "limited", 0.1, "wall clock: share of calls that are limited, 0 to 1")
	flags.IntVar(&o.rounds, "rounds", 11, "wall clock: rounds per alternative")
	flags.DurationVar(&o.round, "round", 300*time.Millisecond, "wall clock: length of a round")
	flags.IntVar(&o.calls, "calls", 8000, "instructions: calls per block, a multiple of 16; there are 3 blocks")
	flags.IntVar(&o.rate, "rate", 2000, "tail: calls per second of each command")
	flags.Int64Var(&o.scaleKeys, "scale-keys", 1_000_000, "scale: the most keys")
	flags.IntVar(&o.scaleClients, "scale-clients", 1000, "scale: the most clients")

	flags.BoolVar(&o.json, "json", false, "print JSON instead of tables")
	flags.BoolVar(&o.markdown, "markdown", false, "print the tables as Markdown")
	flags.StringVar(&o.svg, "svg", "", "write charts to this `folder`")
	flags.StringVar(&update, "update", "", "put the tables into these documents, at their markers: `files`, with commas")

	flags.BoolVar(&o.guard, "guard", false, "compare the instructions with the committed ones, and fail if they have risen")
	flags.StringVar(&o.guardFile, "guard-file", "test/bench/instructions.txt", "guard: the committed counts")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("there is no argument '%s': options begin with -, see -help", flags.Arg(0))
	}

	o.parts = parts(tail, scale, all)
	for _, part := range list(skip) {
		if !slices.Contains(allParts, part) {
			return o, fmt.Errorf("-skip: there is no part '%s': choose from %s", part, strings.Join(allParts, ", "))
		}
		o.parts = slices.DeleteFunc(o.parts, func(p string) bool { return p == part })
	}
	o.alternatives, o.update = list(alternatives), list(update)
	return o, o.check()
}

func parts(tail, scale, all bool) []string {
	switch {
	case all:
		return slices.Clone(allParts)
	case tail && scale:
		return slices.Concat(tailParts, scaleParts)
	case tail:
		return slices.Clone(tailParts)
	case scale:
		return slices.Clone(scaleParts)
	}
	return slices.Clone(usualParts)
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func (o options) has(part string) bool { return slices.Contains(o.parts, part) }

// check refuses numbers that make no sense, and finds the programs and modules.
func (o *options) check() error {
	for _, number := range []struct {
		name  string
		value float64
		least float64
		most  float64
	}{
		{"clients", float64(o.clients), 1, 9000},
		{"pipeline", float64(o.pipeline), 1, 10_000},
		{"keys", float64(o.keys), 1, 100_000_000},
		{"limited", o.limited, 0, 1},
		{"rounds", float64(o.rounds), 1, 10_000},
		{"round", o.round.Seconds(), 0.001, 3600},
		{"calls", float64(o.calls), 16, 1_000_000},
		{"rate", float64(o.rate), 1, 1_000_000},
		{"scale-keys", float64(o.scaleKeys), 1, 100_000_000},
		{"scale-clients", float64(o.scaleClients), 1, 9000},
	} {
		// Not the other way round, which would let NaN pass.
		if !(number.value >= number.least && number.value <= number.most) {
			return fmt.Errorf("-%s must be from %s to %s", number.name,
				strconv.FormatFloat(number.least, 'f', -1, 64), strconv.FormatFloat(number.most, 'f', -1, 64))
		}
	}
	o.calls = int(math.Round(float64(o.calls)/16)) * 16

	for _, module := range []struct {
		path *string
		hint string
	}{
		{&o.module, "build it with ./build.sh build, or name it with -module"},
		{&o.peer, "see -peer"},
	} {
		if *module.path == "" {
			continue
		}
		if _, err := os.Stat(*module.path); err != nil {
			return fmt.Errorf("there is no module %s: %s", *module.path, module.hint)
		}
		// The server runs in a folder of its own.
		absolute, err := filepath.Abs(*module.path)
		if err != nil {
			return err
		}
		*module.path = absolute
	}

	if o.server == "" {
		o.server = os.Getenv("FUNNEL_SERVER")
	}
	candidates := []string{"redis-server", "valkey-server"}
	if o.server != "" {
		candidates = []string{o.server}
	}
	for _, candidate := range candidates {
		if path, err := exec.LookPath(candidate); err == nil {
			o.server, err = filepath.Abs(path)
			return err
		}
	}
	if o.server != "" {
		return fmt.Errorf("there is no server program '%s': name a redis-server or valkey-server with -server", o.server)
	}
	return errors.New("redis-server is missing: install Redis or Valkey, or name a server with -server")
}
