package servertest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ReadAppendOnlyFile returns the commands of the incremental part of the append-only file. A server
// before Redis 7.0 has a single file.
func ReadAppendOnlyFile(t testing.TB, server *Server) [][]string {
	t.Helper()
	pattern := "appendonlydir/*.incr.aof"
	if !Since7(t) {
		pattern = "appendonly.aof"
	}
	files, err := filepath.Glob(filepath.Join(server.Dir, pattern))
	require.NoError(t, err)
	require.Len(t, files, 1)
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	return parseCommands(content)
}

// WithoutTransactions leaves out the MULTI and EXEC that Redis 6.2 puts around everything that a
// module replicates, even around one command.
func WithoutTransactions(t testing.TB, commands [][]string) [][]string {
	t.Helper()
	return slices.DeleteFunc(commands, func(words []string) bool {
		return !Since7(t) && (words[0] == "MULTI" || words[0] == "EXEC")
	})
}
