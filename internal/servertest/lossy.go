package servertest

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// LoseAnswer returns an address that leads to a server until the test ends. The first
// connection that sends the word, in lower or upper case, is closed once the server has
// answered; its client never gets that answer.
func LoseAnswer(t testing.TB, server, word string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	lost := &atomic.Bool{}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(client, server, func(sent []byte) bool {
				return bytes.Contains(bytes.ToLower(sent), []byte(strings.ToLower(word))) && lost.CompareAndSwap(false, true)
			})
		}
	}()
	return listener.Addr().String()
}

// relay owns the client's connection. It passes all that is sent, and the answers until
// loses is true of what was sent; the next one ends the connection.
func relay(client net.Conn, address string, loses func(sent []byte) bool) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	losing := &atomic.Bool{}
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, readerFunc(func(buffer []byte) (int, error) {
			n, err := server.Read(buffer)
			if losing.Load() {
				return 0, io.EOF
			}
			return n, err
		}))
	}()
	_, _ = io.Copy(server, readerFunc(func(buffer []byte) (int, error) {
		n, err := client.Read(buffer)
		if loses(buffer[:n]) {
			losing.Store(true)
		}
		return n, err
	}))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(buffer []byte) (int, error) { return f(buffer) }
