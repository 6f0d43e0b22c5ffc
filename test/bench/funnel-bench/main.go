// Command funnel-bench prints the measurements of package bench, and puts them into pages.
package main

import (
	"context"
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
	progress := func(format string, arguments ...any) {
		fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, arguments...))
	}
	s := bench.Setting{Ctx: ctx, Rounds: 11, Round: 300 * time.Millisecond, Progress: progress}
	var known []string
	for _, part := range bench.Parts {
		known = append(known, part.Name)
	}
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: funnel-bench [option...]; tables go to standard output")
		flag.PrintDefaults()
	}
	flag.StringVar(&s.Peer, "peer", "", "another module with CL.THROTTLE, measured in a server of its own: `path`")
	parts := flag.String("parts", strings.Join(known, ","), "measure only: `names`, with commas")
	update := flag.String("update", "", "put the tables into this `document`, at their markers")
	guard := flag.Bool("guard", false,
		"compare instructions with test/bench/instructions.txt and with the floor, and fail if they have risen")
	flag.Parse()

	chosen := strings.Split(*parts, ",")
	for _, part := range chosen {
		if !slices.Contains(known, part) {
			return fmt.Errorf("-parts has '%s', but must be some of %s", part, strings.Join(known, ","))
		}
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("options begin with -, but got '%s': see -help", flag.Arg(0))
	}
	s.Module, _ = filepath.Abs("funnel.so") // servers run in folders of their own
	if s.Peer != "" {
		s.Peer, _ = filepath.Abs(s.Peer)
	}
	folder, err := os.MkdirTemp("", "funnel-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	s.Marker, err = bench.BuildMarker(ctx, folder)
	if err != nil {
		return err
	}
	tables := []bench.Table{s.Describe()}
	if *guard {
		s.Guard(os.Stdout)
		return s.Err
	}
	for _, part := range bench.Parts {
		if slices.Contains(chosen, part.Name) {
			s.Progress("%s", part.Name)
			table := part.Measure(&s)
			if s.Err != nil {
				return s.Err
			}
			table.Name = part.Name
			tables = append(tables, table)
			fmt.Printf("%s\n\n%s\n", table.Title, table.Markdown())
		}
	}
	s.DescribeEnd(&tables[0])
	if s.Err != nil {
		return s.Err
	}
	fmt.Print(tables[0].Markdown())
	if *update != "" {
		return bench.Update(*update, tables)
	}
	return nil
}
