// Package bench measures what CL.THROTTLE costs, and compares it in the same run with
// other ways to limit a rate with a Redis or Valkey server. Tests check that each limits
// as it should, and every measurement checks replies.
package bench

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A Setting is shared by all measurements. After an error, which Err holds, they do
// nothing.
type Setting struct {
	Ctx    context.Context
	Err    error
	Module string // path of funnel.so
	Peer   string // of another module with CL.THROTTLE, or empty
	Marker string // from BuildMarker
	Rounds int    // of each case, where time is measured

	// Window is how long to measure waiting, or ten rounds of clients in Go.
	Window time.Duration

	// Progress receives a line for each step.
	Progress func(format string, arguments ...any)

	server, module, peer string // with their versions, from Describe
}

// failed keeps an error, if it is the first, and reports whether there has been one.
func (s *Setting) failed(err error) bool {
	s.Err = cmp.Or(s.Err, err, s.Ctx.Err())
	return s.Err != nil
}

// Alternatives returns those that can be measured.
func (s *Setting) Alternatives() []Alternative {
	return slices.DeleteFunc(Alternatives(s.peer), func(a Alternative) bool { return a.Peer && s.Peer == "" })
}

const (
	Reference = "set" // the alternative that ratios are taken against
	Calls     = 8000  // in a block that is counted; counts repeat to within 0.5%
)

// Parts are the measurements. A part with two tables is here twice.
var Parts = []struct {
	Name    string
	Measure func(*Setting) Table
}{
	{"instructions", (*Setting).instructions}, {"memory", (*Setting).memory},
	{"throughput", (*Setting).throughput}, {"latency", (*Setting).latency}, {"scale", (*Setting).scale},
	{"clients", (*Setting).goClients}, {"waiting", (*Setting).waiting}, {"leases", (*Setting).hotKey}, {"leases", (*Setting).leases},
}

func (s *Setting) moduleOf(peer bool) string {
	return map[bool]string{false: s.Module, true: s.Peer}[peer]
}

// Describe returns the table of the environment. It fails early if a module does not load.
func (s *Setting) Describe() Table {
	table := Table{Name: "environment", Columns: []string{"what", "which"}}
	s.server, s.module = s.versions(s.Module)
	table.Rows = [][]string{{"measured", time.Now().UTC().Format("2006-01-02 15:04 UTC")}, {"server", s.server}, {"module", s.module}}
	if s.Peer != "" {
		_, s.peer = s.versions(s.Peer)
		table.set("other module", 1, s.peer)
	}
	processors, _ := os.ReadFile("/proc/cpuinfo")
	model := regexp.MustCompile(`model name\s*: (.*)|$`).FindStringSubmatch(string(processors))[1]
	table.set("machine", 1, fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model))
	return table
}

var (
	serverVersion = regexp.MustCompile(`(?m)^(redis|valkey)_version:(\S+)`)
	moduleVersion = regexp.MustCompile(`module:name=([^,]*),ver=(\d+)`)
	ourVersion    = regexp.MustCompile(`funnel_version:(\S+)\s+funnel_commit:(\S+)`)
)

// versions names a server as "redis 7.0.15", and its module as "funnel 0.1.0 (commit)",
// or by the number that any module has.
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
	if ours := ourVersion.FindStringSubmatch(info); ours != nil {
		module = fmt.Sprintf("funnel %s (%s)", ours[1], ours[2])
	}
	return server, module
}

//go:embed marker/*.c
var markerSources embed.FS

// BuildMarker compiles the module of the folder marker into a folder, by the C
// compiler that CC names, or cc, and returns its path.
func BuildMarker(ctx context.Context, folder string) (string, error) {
	compiler := strings.Fields(cmp.Or(os.Getenv("CC"), "cc"))
	if err := os.CopyFS(folder, markerSources); err != nil {
		return "", err
	}
	module, sources := filepath.Join(folder, "marker.so"), filepath.Join(folder, "marker")
	line := append(compiler, "-shared", "-fPIC", "-O2", "-o", module, filepath.Join(sources, "marker.c"), filepath.Join(sources, "floor.c"))
	if output, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot compile the marker module, with the compiler in CC or cc: %w\n%s", err, output)
	}
	return module, nil
}
