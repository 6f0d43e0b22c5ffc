package servertest

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// LoseAnswer returns an address that leads to a server until the test ends. The first connection
// that sends the word, in lower or upper case, is closed once the server has answered; its client
// never gets that answer.
func LoseAnswer(t testing.TB, server, word string) string {
	t.Helper()
	lost := &atomic.Bool{}
	return Proxy(t, func() string { return server }, func(sent []byte) bool {
		return bytes.Contains(bytes.ToLower(sent), []byte(strings.ToLower(word))) && lost.CompareAndSwap(false, true)
	})
}

// Proxy returns an address that leads to a server until the test ends. For each connection, the
// function server names the address of the server. The function see is called with each piece that
// a client sends, before the server gets it, and may change its bytes. After see returns true, the
// connection is closed instead of passing on the server's next answer.
func Proxy(t testing.TB, server func() string, see func(sent []byte) (lose bool)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(client, server(), see)
		}
	}()
	return listener.Addr().String()
}

// relay connects a client to the server at an address. It owns the client's connection.
func relay(client net.Conn, address string, see func(sent []byte) (lose bool)) {
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
		if see(buffer[:n]) {
			losing.Store(true)
		}
		return n, err
	}))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(buffer []byte) (int, error) { return f(buffer) }
