package servertest

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A Commander is a client, a connection or a pipeline.
type Commander interface {
	Do(ctx context.Context, arguments ...any) *redis.Cmd
}

// Words are the words of a command.
func Words(line string) []any { return ToAny(strings.Fields(line)) }

// ToAny converts words to arguments of Do.
func ToAny(words []string) (arguments []any) {
	for _, word := range words {
		arguments = append(arguments, word)
	}
	return arguments
}

// Call sends a command, such as "cl.throttle k 15 30 60", and returns the reply as [Line] writes
// it. An error fails the test.
func Call(t testing.TB, client Commander, line string) string {
	t.Helper()
	command := client.Do(context.Background(), Words(line)...)
	require.NoError(t, command.Err(), line)
	return Line(command)
}

// Try is [Call] for commands that may fail: it returns the reply or the error.
func Try(client Commander, line string) string {
	return Line(client.Do(context.Background(), Words(line)...))
}

// Line writes a reply on one line: a reply of CL.THROTTLE as "0 15 14 -1 2", a reply of another
// command as "0 0 [0 10 9 0 0.1 100ms]", with each row in brackets, and an error as its text. A
// receipt is written as the time after [Epoch], and left out if it is "0".
func Line(command *redis.Cmd) string {
	err := command.Err()
	if err != nil {
		return err.Error()
	}
	line := fmt.Sprint(command.Val())
	line = strings.TrimSuffix(strings.TrimPrefix(line, "["), "]")
	line = strings.NewReplacer("[[", "[", "]]", "]").Replace(line)
	return receipts.ReplaceAllStringFunc(line, func(row string) string {
		at := strings.LastIndex(row, " ")
		tat, err := strconv.ParseInt(row[at+1:len(row)-1], 10, 64)
		switch {
		case err != nil:
			return row
		case tat == 0:
			return row[:at] + "]"
		}
		return row[:at+1] + time.Unix(0, tat).Sub(Epoch).String() + "]"
	})
}

// receipts matches rows of six words whose last word is a receipt. A shorter number is seconds.
var receipts = regexp.MustCompile(`\[([^][ ]+ ){5}(\d{11,}|0)\]`)

// InfoField reads a number from INFO.
func InfoField(t testing.TB, client *redis.Client, section, field string) int64 {
	t.Helper()
	info, err := client.Info(context.Background(), section).Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		value, found := strings.CutPrefix(strings.TrimSpace(line), field+":")
		if found {
			number, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			return number
		}
	}
	t.Fatalf("INFO %s has no field %s:\n%s", section, field, info)
	return 0
}
