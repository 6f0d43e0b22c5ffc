package servertest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Wire is a connection to a server without a client library. Tests use it for what a library
// hides: bytes that are no command, and pushes.
type Wire struct {
	net.Conn
	reader *bufio.Reader
}

// [Wire.Receive] returns nil, an int64, a string, a []any, or one of these. A map of RESP3 is a
// []any of keys and values in turn.
type (
	// An ErrorReply is the text of an error, which begins with its code.
	ErrorReply string

	// A Push is a message of RESP3 that answers no command.
	Push []any
)

func (e ErrorReply) Error() string { return string(e) }

// RedisError makes an ErrorReply an error reply of go-redis, too.
func (ErrorReply) RedisError() {}

// Wire connects to the server, until the test ends.
func (s *Server) Wire(t testing.TB) *Wire {
	t.Helper()
	connection, err := net.DialTimeout("tcp", s.Addr(), Patience)
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return &Wire{connection, bufio.NewReaderSize(connection, 1<<16)}
}

// AppendCommand appends a command as it goes over the wire.
func AppendCommand(buffer []byte, words ...string) []byte {
	header := func(kind byte, length int) {
		buffer = append(strconv.AppendInt(append(buffer, kind), int64(length), 10), "\r\n"...)
	}
	header('*', len(words))
	for _, word := range words {
		header('$', len(word))
		buffer = append(append(buffer, word...), "\r\n"...)
	}
	return buffer
}

// Do sends a command and returns the next reply or push.
func (w *Wire) Do(words ...string) (any, error) {
	_, err := w.Write(AppendCommand(nil, words...))
	if err != nil {
		return nil, err
	}
	return w.Receive()
}

// MustDo is Do for connections that must not fail: an error fails the test.
func (w *Wire) MustDo(t testing.TB, words ...string) any {
	t.Helper()
	got, err := w.Do(words...)
	require.NoError(t, err)
	return got
}

// CallMany sends many calls, in batches. Words makes the i-th call, and check sees its reply.
func CallMany(wire *Wire, calls int, words func(i int) []string, check func(i int, reply any) error) error {
	const batch = 1000
	for first := 0; first < calls; first += batch {
		end := min(first+batch, calls)
		var buffer []byte
		for i := first; i < end; i++ {
			buffer = AppendCommand(buffer, words(i)...)
		}
		_, err := wire.Write(buffer)
		if err != nil {
			return err
		}
		for i := first; i < end; i++ {
			reply, err := wire.Receive()
			if err == nil {
				err = check(i, reply)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// parseCommands reads commands, up to the first bytes that are not a command.
func parseCommands(sent []byte) (commands [][]string) {
	wire := Wire{reader: bufio.NewReader(bytes.NewReader(sent))}
	for value, err := wire.value(); err == nil; value, err = wire.value() {
		values, _ := value.([]any)
		words := make([]string, len(values))
		for i := range values {
			words[i], _ = values[i].(string)
		}
		commands = append(commands, words)
	}
	return commands
}

// Receive returns the next reply or push, or an error if none comes in time.
func (w *Wire) Receive() (any, error) {
	err := w.SetReadDeadline(time.Now().Add(Patience))
	if err != nil {
		return nil, err
	}
	return w.value()
}

func (w *Wire) value() (any, error) {
	line, err := w.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("unexpected line from the server: %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return ErrorReply(text), nil
	case '_':
		return nil, nil
	}

	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("unexpected line from the server: %q: %w", line, err)
	}
	switch kind {
	case ':':
		return number, nil
	case '$':
		return w.bulk(number)
	case '*':
		return w.values(number)
	case '%':
		return w.values(2 * number)
	case '>':
		values, err := w.values(number)
		push, _ := values.([]any)
		return Push(push), err
	}
	return nil, fmt.Errorf("unexpected line from the server: %q", line)
}

// bulk and values return nil for the length -1.
func (w *Wire) bulk(length int64) (any, error) {
	if length < 0 {
		return nil, nil
	}
	content := make([]byte, length+2)
	_, err := io.ReadFull(w.reader, content)
	if err != nil {
		return nil, err
	}
	return string(content[:length]), nil
}

func (w *Wire) values(length int64) (any, error) {
	if length < 0 {
		return nil, nil
	}
	values := make([]any, length)
	for i := range values {
		var err error
		values[i], err = w.value()
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}
