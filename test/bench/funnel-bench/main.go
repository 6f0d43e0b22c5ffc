// Command funnel-bench measures what CL.THROTTLE costs in a Redis or Valkey
// server, beside plain commands, the usual scripts and pipelines for limiting a
// rate, and any other module with that command.
//
// It starts all servers itself, each on a free port of the loopback interface, and
// installs nothing. Package bench does the measuring and explains how; this
// command reads options, keeps the order of the parts, and prints.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"funnel/test/bench"
)

// exitInterrupted is what shells report of a program that Ctrl-C has ended.
const exitInterrupted = 130

func main() {
	options, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fail(err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, options)
	stop()
	os.Exit(code)
}

func fail(err error) { fmt.Fprintln(os.Stderr, "funnel-bench:", err) }

// run measures, prints, and returns the exit code.
func run(ctx context.Context, o options) int {
	if len(o.alternatives) == 1 && o.alternatives[0] == "none" {
		for _, a := range bench.Alternatives() {
			fmt.Printf("%-12s %s; answers: %s\n", a.Name, a.Title, a.Answer)
		}
		return 0
	}
	folder, err := os.MkdirTemp("", "funnel-bench-")
	if err != nil {
		fail(err)
		return 1
	}
	defer os.RemoveAll(folder)
	r := runner{options: o, progress: progressFrom(time.Now())}
	r.report.Environment = bench.NewEnvironment()
	r.marker, err = bench.BuildMarker(ctx, folder)
	if err == nil {
		if o.guard {
			err = r.guard(ctx)
		} else {
			err = r.measure(ctx)
		}
	}
	// Interrupted or not: what has been measured is worth seeing.
	if !o.guard {
		err = errors.Join(err, r.print())
	}
	switch {
	case ctx.Err() != nil:
		fail(errors.New("interrupted: the tables hold what had been measured until then"))
		return exitInterrupted
	case err != nil:
		fail(err)
		return 1
	}
	return 0
}

// progressFrom returns a function that reports, with the time since the start.
func progressFrom(start time.Time) func(string, ...any) {
	return func(format string, arguments ...any) {
		fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, arguments...))
	}
}

type runner struct {
	options  options
	marker   string
	progress func(string, ...any)
	report   bench.Report
}

func (r *runner) measure(ctx context.Context) error {
	o := r.options
	alternatives, err := bench.Choose(o.alternatives, o.peer != "")
	if err != nil {
		return err
	}
	r.report.Load = bench.Load{
		Clients: o.clients, Pipeline: o.pipeline, Keys: o.keys, Limited: o.limited,
		Rounds: o.rounds, Round: o.round.String(),
	}
	if err := r.describe(ctx); err != nil {
		return err
	}
	if o.has(partInstructions) {
		if r.report.Instructions, err = r.instructions(ctx, alternatives, false); err != nil {
			return err
		}
	}
	if o.has(partMemory) || o.has(partThroughput) || o.has(partLatency) {
		if err := r.onServers(ctx, alternatives); err != nil {
			return err
		}
	}
	if o.has(partTail) {
		r.report.Tail, err = bench.MeasureTail(ctx, bench.TailOptions{
			Program: o.server, Module: o.module, Rate: o.rate, Clients: 4, Keys: o.keys,
			Rounds: o.rounds, Round: 3 * time.Second, Progress: r.progress,
		})
		if err != nil {
			return err
		}
	}
	if o.has(partFootprint) {
		if r.report.Footprint, err = bench.MeasureFootprint(ctx, o.server, o.module, r.progress); err != nil {
			return err
		}
	}
	if o.has(partScale) {
		r.report.Scale, err = bench.MeasureScale(ctx, bench.ScaleOptions{
			Program: o.server, Module: o.module,
			Keys: steps(o.scaleKeys), Clients: ints(steps(int64(o.scaleClients))), Pipeline: o.pipeline,
			Rounds: o.rounds, Round: o.round, Progress: r.progress,
		})
	}
	return err
}

// steps are the powers of ten up to most, and most itself.
func steps(most int64) []int64 {
	var values []int64
	for value := int64(1); value < most; value *= 10 {
		values = append(values, value)
	}
	return append(values, most)
}

func ints(values []int64) []int {
	var result []int
	for _, value := range values {
		result = append(result, int(value))
	}
	return result
}

// describe fills in the environment; it also finds out early whether the modules
// load.
func (r *runner) describe(ctx context.Context) error {
	return r.withServers(ctx, r.options.peer != "", func(servers map[string]*bench.Server) error {
		e := &r.report.Environment
		var err error
		if e.Server, err = servers[bench.OnFunnel].Version(ctx); err != nil {
			return err
		}
		if e.Module, err = servers[bench.OnFunnel].ModuleVersion(ctx); err != nil {
			return err
		}
		if peer := servers[bench.OnPeer]; peer != nil {
			e.Peer, err = peer.ModuleVersion(ctx)
		}
		return err
	})
}

func (r *runner) instructions(ctx context.Context, alternatives []bench.Alternative, brief bool) ([]bench.InstructionCount, error) {
	o := r.options
	version, err := bench.ValgrindVersion(ctx, o.valgrind)
	if err != nil {
		return nil, err
	}
	r.report.Environment.Valgrind = version
	return bench.MeasureInstructions(ctx, bench.CallgrindOptions{
		Program: o.server, Valgrind: o.valgrind, Module: o.module, Marker: r.marker, Peer: o.peer,
		Calls: o.calls, Brief: brief, Progress: r.progress,
	}, alternatives)
}

// onServers takes the parts for which the alternatives share running servers.
func (r *runner) onServers(ctx context.Context, alternatives []bench.Alternative) error {
	o := r.options
	return r.withServers(ctx, o.peer != "", func(servers map[string]*bench.Server) error {
		var err error
		if o.has(partMemory) {
			if r.report.Memory, err = bench.MeasureMemory(ctx, servers, alternatives, r.progress); err != nil {
				return err
			}
		}
		load := bench.WallClockOptions{
			Clients: o.clients, Keys: o.keys, Limited: o.limited,
			Rounds: o.rounds, Round: o.round, Progress: r.progress,
		}
		if o.has(partThroughput) {
			load.Pipeline = o.pipeline
			if r.report.Throughput, err = bench.MeasureWallClock(ctx, load, servers, alternatives); err != nil {
				return err
			}
		}
		if o.has(partLatency) {
			load.Pipeline = 1
			r.report.Latency, err = bench.MeasureWallClock(ctx, load, servers, alternatives)
		}
		return err
	})
}

func (r *runner) withServers(ctx context.Context, peer bool, use func(map[string]*bench.Server) error) error {
	modules := map[string]string{bench.OnFunnel: r.options.module}
	if peer {
		modules[bench.OnPeer] = r.options.peer
	}
	servers := map[string]*bench.Server{}
	for on, module := range modules {
		server, err := bench.StartServer(ctx, bench.ServerOptions{Program: r.options.server, Modules: []string{module, r.marker}})
		if err != nil {
			return err
		}
		defer server.Stop()
		servers[on] = server
	}
	return use(servers)
}

// print writes the report in the forms that were asked for.
func (r *runner) print() error {
	o, tables := r.options, r.report.Tables()
	if o.json {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r.report); err != nil {
			return err
		}
	} else {
		for _, table := range tables {
			if o.markdown {
				fmt.Printf("### %s\n\n%s\n", table.Title, table.Markdown())
			} else {
				fmt.Printf("%s\n", table.Text())
			}
		}
	}
	if o.svg != "" {
		for _, chart := range r.report.Charts() {
			path := filepath.Join(o.svg, chart.Name+".svg")
			if err := os.WriteFile(path, []byte(chart.SVG()), 0o644); err != nil {
				return err
			}
			r.progress("wrote %s", path)
		}
	}
	for _, path := range o.update {
		document, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, placed := bench.Splice(string(document), tables)
		if len(placed) == 0 {
			return fmt.Errorf("%s has no marker of these tables, such as <!-- funnel-bench: instructions -->", path)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
		r.progress("put into %s: %s", path, strings.Join(placed, ", "))
	}
	return nil
}
