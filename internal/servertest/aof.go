package servertest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ReadAppendOnlyFile returns the commands of the incremental part of the AOF.
func ReadAppendOnlyFile(t testing.TB, server *Server) (commands [][]string) {
	t.Helper()
	files := AppendOnlyFiles(t, server, "*.incr.aof")
	require.Len(t, files, 1)
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	rest := string(content)
	next := func(kind string) int {
		line, after, _ := strings.Cut(rest, "\r\n")
		rest = after
		number, err := strconv.Atoi(strings.TrimPrefix(line, kind))
		require.NoError(t, err, "line %q", line)
		return number
	}
	for rest != "" {
		words := make([]string, next("*"))
		for i := range words {
			length := next("$")
			words[i], rest = rest[:length], rest[length+2:]
		}
		commands = append(commands, words)
	}
	return commands
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

// WithoutTransactions leaves out what Redis 6.2 puts around all that a module
// replicates, be it one command.
func WithoutTransactions(t testing.TB, commands [][]string) [][]string {
	t.Helper()
	return slices.DeleteFunc(commands, func(words []string) bool {
		return !Since7(t) && (words[0] == "MULTI" || words[0] == "EXEC")
	})
}

// ToAny converts words to arguments of Do.
func ToAny(words []string) (arguments []any) {
	for _, word := range words {
		arguments = append(arguments, word)
	}
	return arguments
}
