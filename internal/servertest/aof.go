package servertest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ReadAppendOnlyFile returns the commands of the incremental part of the AOF.
func ReadAppendOnlyFile(t testing.TB, server *Server) [][]string {
	t.Helper()
	files := AppendOnlyFiles(t, server, "*.incr.aof")
	require.Len(t, files, 1)
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	return parseCommands(content)
}

// AppendOnlyFiles are the parts of the append-only file, as paths. Before Redis 7.0
// it was one file.
func AppendOnlyFiles(t testing.TB, server *Server, pattern string) []string {
	t.Helper()
	if !Since7(t) {
		return []string{filepath.Join(server.Dir, "appendonly.aof")}
	}
	files, err := filepath.Glob(filepath.Join(server.Dir, "appendonlydir", pattern))
	require.NoError(t, err)
	return files
}

// WithoutTransactions leaves out the MULTI and EXEC that Redis 6.2 puts around everything
// that a module replicates, even around one command.
func WithoutTransactions(t testing.TB, commands [][]string) [][]string {
	t.Helper()
	return slices.DeleteFunc(commands, func(words []string) bool {
		return !Since7(t) && (words[0] == "MULTI" || words[0] == "EXEC")
	})
}
