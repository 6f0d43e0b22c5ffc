package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"funnel/test/bench"
)

// guardRuns is how often a rise is looked at again before it is believed. A run
// under callgrind now and then comes out a per cent off as a whole, but a dearer
// call is dearer in every run.
const guardRuns = 3

// guard counts what the regression guard watches, and fails if it has risen.
func (r *runner) guard(ctx context.Context) error {
	text, err := os.ReadFile(r.options.guardFile)
	if err != nil {
		return fmt.Errorf("the committed counts cannot be read; see -guard-file: %w", err)
	}
	committed, err := bench.ParseCommitted(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", r.options.guardFile, err)
	}
	r.options.peer = ""
	if err := r.describe(ctx); err != nil {
		return err
	}
	server := r.report.Environment.Server

	verdicts, counts, err := r.judge(ctx, committed)
	for run := 1; run < guardRuns && err == nil && len(risen(verdicts)) > 0; run++ {
		r.progress("guard: risen, so once more")
		var again []bench.Verdict
		if again, counts, err = r.judge(ctx, committed); err == nil {
			for i := range verdicts {
				verdicts[i].Measured = min(verdicts[i].Measured, again[i].Measured)
			}
		}
	}
	if err != nil {
		return err
	}

	fmt.Printf("Instructions per call, in %s, by %s. To commit them on purpose, with the reason, in %s:\n\n%s\n",
		server, r.report.Environment.Valgrind, r.options.guardFile, bench.Lines(server, counts))
	if verdicts == nil {
		fmt.Printf("SKIPPED: nothing is committed for %s, only for %s\n", server, strings.Join(committed.Servers(), ", "))
		return nil
	}
	for _, v := range verdicts {
		word := "ok"
		if v.Failed() {
			word = "FAILED"
		}
		fmt.Printf("%-6s  %-16s is %.3f times %s; committed: %.3f; change %+.1f%%, tolerated +%.0f%%\n",
			word, v.ID, v.Measured, v.Yardstick, v.Committed, v.Rise()*100, bench.GuardTolerance*100)
	}
	if names := risen(verdicts); len(names) > 0 {
		return fmt.Errorf("calls have become dearer (%s): make them cheaper again, or commit the lines above in %s and say why",
			strings.Join(names, ", "), r.options.guardFile)
	}
	return nil
}

// judge counts once.
func (r *runner) judge(ctx context.Context, committed bench.Committed) ([]bench.Verdict, []bench.InstructionCount, error) {
	alternatives, err := bench.Choose(bench.GuardAlternatives, false)
	if err != nil {
		return nil, nil, err
	}
	counts, err := r.instructions(ctx, alternatives, true)
	if err != nil {
		return nil, counts, err
	}
	verdicts, err := committed.Judge(r.report.Environment.Server, counts)
	return verdicts, counts, err
}

// risen names the counts that have risen too far.
func risen(verdicts []bench.Verdict) []string {
	var names []string
	for _, v := range verdicts {
		if v.Failed() {
			names = append(names, v.ID)
		}
	}
	return names
}
