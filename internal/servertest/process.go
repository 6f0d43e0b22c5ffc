package servertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ProcessStatus returns the fields of /proc/PROCESS/status, by name.
func ProcessStatus(t testing.TB, process any) map[string]string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%v/status", process))
	require.NoError(t, err)
	fields := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// Emulated reports whether a server runs under qemu, because it is built for another kind of
// machine.
func Emulated(t testing.TB, server *Server) bool {
	t.Helper()
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", server.Pid()))
	require.NoError(t, err)
	return strings.HasPrefix(filepath.Base(program), "qemu-")
}

// MemoryOf is the resident memory of a server's process in bytes: "VmRSS" for all memory, "RssAnon"
// for memory that belongs to no file.
func MemoryOf(t testing.TB, server *Server, kind string) int64 {
	t.Helper()
	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(ProcessStatus(t, server.Pid())[kind], " kB"), 10, 64)
	require.NoError(t, err)
	return kilobytes << 10
}
