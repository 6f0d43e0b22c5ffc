// Package bench measures what CL.THROTTLE costs, and compares it in the same run with other ways to
// limit a rate with a Redis or Valkey server. Tests check that each way limits as it should, and
// every measurement checks replies.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"funnel/internal/servertest"
)

// A Setting is shared by all measurements. Once Err holds an error, they do nothing.
type Setting struct {
	Ctx    context.Context
	Err    error
	Module string // path of funnel.so
	Peer   string // of another module with CL.THROTTLE, or empty
	Marker string // from BuildMarker

	Rounds int           // of each case whose time is measured
	Round  time.Duration // about how long one round takes

	// Progress receives a line for each step.
	Progress func(format string, arguments ...any)

	server, peer string // with their versions, from Describe
	machine      servertest.Machine
}

// failed keeps the first error, and reports whether there has been an error.
func (s *Setting) failed(err error) bool {
	s.Err = cmp.Or(s.Err, err, s.Ctx.Err())
	return s.Err != nil
}

// Alternatives returns the alternatives that can be measured.
func (s *Setting) Alternatives() []Alternative {
	return slices.DeleteFunc(Alternatives(s.peer), func(a Alternative) bool { return a.Peer && s.Peer == "" })
}

const (
	Reference  = "set" // the alternative that ratios are taken against
	sentAtOnce = 16    // calls that share reads and writes of the socket
)

// Parts are the measurements. Each fills the table of its name in documents.
var Parts = []struct {
	Name    string
	Measure func(*Setting) Table
}{
	{"instructions", (*Setting).instructions},
	{"memory", (*Setting).memory},
	{"throughput", (*Setting).throughput},
	{"clients", (*Setting).goClients},
	{"rates", (*Setting).atFixedRates},
}

func (s *Setting) moduleOf(peer bool) string {
	if peer {
		return s.Peer
	}
	return s.Module
}

// Describe returns the table of the environment. It fails early if a module does not load.
func (s *Setting) Describe() Table {
	table := Table{Name: "environment", Columns: []string{"what", "which"}}
	var module string
	s.server, module = s.versions(s.Module)
	table.set("measured", 1, time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	table.set("server", 1, s.server)
	table.set("module", 1, module)
	if s.Peer != "" {
		_, s.peer = s.versions(s.Peer)
		table.set("other module", 1, s.peer)
	}
	var err error
	s.machine, err = servertest.ReadMachine()
	s.failed(err)
	processors, _ := os.ReadFile("/proc/cpuinfo")
	model := regexp.MustCompile(`model name\s*: (.*)|$`).FindStringSubmatch(string(processors))[1]
	table.set("machine", 1, fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model))
	return table
}

// DescribeEnd adds to the table of the environment what else the machine did during the
// measurements.
func (s *Setting) DescribeEnd(table *Table) {
	now, err := servertest.ReadMachine()
	if !s.failed(err) {
		table.set("beside", 1, now.Since(s.machine))
	}
}

var (
	serverVersion = regexp.MustCompile(`(?m)^(redis|valkey)_version:(\S+)`)
	moduleVersion = regexp.MustCompile(`module:name=([^,]*),ver=(\d+)`)
	ourVersion    = regexp.MustCompile(`funnel_version:(\S+)\s+funnel_commit:(\S+)`)
)

// versions names a server as "redis 7.0.15", and its module as "funnel 0.1.0 (commit)", or by the
// number that any module has.
func (s *Setting) versions(path string) (server, module string) {
	client := s.Start(path, nil)
	defer client.Close()
	info, _ := client.Do("INFO", "everything").(string)
	for _, found := range serverVersion.FindAllStringSubmatch(info, -1) {
		server = found[1] + " " + found[2] // Valkey's own comes after its Redis version
	}
	for _, found := range moduleVersion.FindAllStringSubmatch(info, -1) {
		if found[1] != "bench" {
			module = found[1] + " " + found[2]
		}
	}
	ours := ourVersion.FindStringSubmatch(info)
	if ours != nil {
		module = fmt.Sprintf("funnel %s (%s)", ours[1], ours[2])
	}
	return server, module
}

// BuildMarker compiles marker/marker.c into a folder, by the C compiler that CC names, or cc, and
// returns the path of the module. It reads the sources in the folder where this program was
// compiled.
func BuildMarker(ctx context.Context, folder string) (string, error) {
	_, here, _, _ := runtime.Caller(0)
	marker, abi := filepath.Join(here, "../marker/marker.c"), filepath.Join(here, "../../../module")
	module := filepath.Join(folder, "marker.so")
	line := append(strings.Fields(cmp.Or(os.Getenv("CC"), "cc")), "-shared", "-fPIC", "-fvisibility=hidden", "-O2",
		"-I", abi, "-o", module, marker, filepath.Join(abi, "abi.c"))
	output, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot compile the marker module, with the compiler in CC or cc: %w\n%s", err, output)
	}
	return module, nil
}
