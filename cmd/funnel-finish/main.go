// Command funnel-finish makes funnel.so, which servers load, out of what the Go linker wrote
// (package funnel/internal/finish):
//
//	funnel-finish [-imports PREFIX] LINKED FINISHED
//
// It needs Go, whose disassembler it calls, and must be built for the machine that it
// runs on, whichever one the library is for.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"funnel/internal/finish"
)

func main() {
	imports := flag.String("imports", "", "beginnings of further names that the file may import, separated by commas")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: funnel-finish [-imports PREFIX,...] LINKED FINISHED")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	options := finish.Options{}
	if *imports != "" {
		options.Imports = strings.Split(*imports, ",")
	}
	if err := finish.File(flag.Arg(0), flag.Arg(1), options); err != nil {
		fmt.Fprintln(os.Stderr, "funnel-finish:", err)
		os.Exit(1)
	}
}
