package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// patience is how long a server may take to answer one batch of commands. Under
// callgrind it runs fifty times slower than usual, on a busy machine slower yet.
const patience = 60 * time.Second

// A connection sends encoded calls and reads the little that has to be known of
// the replies. It is closed when its context ends.
type connection struct {
	net    net.Conn
	reader *bufio.Reader
	stop   func() bool
	ctx    context.Context
}

func dial(ctx context.Context, address string) (*connection, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &connection{net: conn, reader: bufio.NewReaderSize(conn, 1<<16), ctx: ctx}
	c.stop = context.AfterFunc(ctx, func() { conn.Close() })
	return c, nil
}

func (c *connection) close() {
	c.stop()
	c.net.Close()
}

// send sends a batch; the caller then reads as many replies as are due.
func (c *connection) send(batch []byte) error {
	c.net.SetDeadline(time.Now().Add(patience))
	_, err := c.net.Write(batch)
	return c.explain(err)
}

// explain prefers the reason for which a context closed the connection.
func (c *connection) explain(err error) error {
	if err != nil && c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return err
}

// An errorReply is an error that the server answered with.
type errorReply string

func (e errorReply) Error() string { return string(e) }

// receive reads one reply and returns its number: the integer that it is, or that
// an array begins with; 0 for any other reply.
func (c *connection) receive() (int64, error) {
	number, err := c.value()
	return number, c.explain(err)
}

func (c *connection) value() (int64, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 3 {
		return 0, fmt.Errorf("the server sent the line %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return 0, nil
	case '-':
		return 0, errorReply(text)
	}
	number, err := parseNumber(text)
	if err != nil {
		return 0, err
	}
	switch kind {
	case ':':
		return number, nil
	case '$':
		if number >= 0 {
			_, err = c.reader.Discard(int(number) + 2)
		}
		return 0, err
	case '*':
		var first int64
		for i := range number {
			value, err := c.value()
			if err != nil {
				return 0, err
			}
			if i == 0 {
				first = value
			}
		}
		return first, nil
	}
	return 0, fmt.Errorf("the server sent the line %q", line)
}

// parseNumber saves the allocation that strconv would need.
func parseNumber(text []byte) (int64, error) {
	var number int64
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return 0, errors.New("the server sent a number that is none")
		}
		number = number*10 + int64(digit-'0')
	}
	if negative {
		return -number, nil
	}
	return number, nil
}

// receiveReplies reads the replies of a call, appended to replies.
func (c *connection) receiveReplies(operation *Operation, replies []int64) ([]int64, error) {
	for i := range operation.Commands {
		number, err := c.receive()
		if err != nil {
			return replies, fmt.Errorf("%s: %w", operation.Commands[i][0], err)
		}
		replies = append(replies, number)
	}
	return replies, nil
}
