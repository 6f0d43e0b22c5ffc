// Command funnel-bench measures what CL.THROTTLE costs in a Redis or Valkey server,
// compared with plain commands, the usual scripts and pipelines for limiting a rate, and
// any other module with that command.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"funnel/test/bench"
)

const usage = `usage: funnel-bench [option...]

Measures what CL.THROTTLE costs in a Redis or Valkey server, compared with other
ways to limit a rate; then package limiter and other clients in Go programs.
Tables go to standard output, progress to standard error. Ctrl-C stops all
servers. FUNNEL_SERVER names the server program; redis-benchmark comes from the
same folder.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "funnel-bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	start := time.Now()
	s := bench.Setting{Ctx: ctx, Progress: func(format string, arguments ...any) {
		fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, arguments...))
	}}
	var known []string
	for _, part := range bench.Parts {
		known = append(known, part.Name)
	}
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage); flag.PrintDefaults() }
	flag.StringVar(&s.Module, "module", "funnel.so", "the module to measure: `path` of funnel.so")
	flag.StringVar(&s.Peer, "peer", "", "another module with CL.THROTTLE, measured in a server of its own: `path`")
	flag.IntVar(&s.Rounds, "rounds", 11, "throughput, latency, scale and clients: rounds of each alternative, 3 or more")
	flag.DurationVar(&s.Window, "window", 3*time.Second, "waiting: `time` that is counted for each line, and twice that for processes on one key; clients and leases: ten rounds")
	parts := flag.String("parts", strings.Join(slices.Compact(known), ","), "measure only: `names`, with commas")
	charts := flag.String("svg", "", "write charts to this `folder`")
	update := flag.String("update", "", "put the tables into these documents, at their markers: `files`, with commas")
	guard := flag.Bool("guard", false, "compare instructions with test/bench/instructions.txt and with the floor, and fail if they have risen")
	flag.Parse()

	unknown := slices.DeleteFunc(list(*parts), func(part string) bool { return slices.Contains(known, part) })
	if len(unknown) > 0 || s.Rounds < 3 || s.Window <= 0 || flag.NArg() > 0 {
		return fmt.Errorf("-parts has other names (%v), -rounds is less than 3, -window is not above 0, or an option (%v) does not begin with -: see -help", unknown, flag.Args())
	}
	s.Module, _ = filepath.Abs(s.Module) // servers run in folders of their own
	if s.Peer != "" {
		s.Peer, _ = filepath.Abs(s.Peer)
	}
	folder, err := os.MkdirTemp("", "funnel-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if s.Marker, err = bench.BuildMarker(ctx, folder); err != nil {
		return err
	}
	tables := []bench.Table{s.Describe()}
	if *guard {
		s.Guard(os.Stdout)
		return s.Err
	}
	for _, part := range bench.Parts {
		if slices.Contains(list(*parts), part.Name) {
			s.Progress("%s", part.Name)
			table := part.Measure(&s)
			if s.Err != nil {
				return s.Err
			}
			table.Name = cmp.Or(table.Name, part.Name)
			tables = append(tables, table)
			fmt.Printf("%s\n\n%s\n", table.Title, table.Markdown())
		}
	}
	if *charts != "" {
		err = bench.Draw(*charts, tables)
	}
	for _, path := range list(*update) {
		err = errors.Join(err, bench.Update(path, tables))
	}
	return err
}

func list(text string) []string { return strings.Fields(strings.ReplaceAll(text, ",", " ")) }
