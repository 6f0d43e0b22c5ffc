package servertest

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// proxy returns an address that leads to a server until the test ends. Each piece that a
// client sends is passed to the server after the function has seen it, and perhaps changed
// bytes of it. Where the function returns true, the connection is closed once the server has
// answered; its client never gets that answer.
func proxy(t testing.TB, server string, see func(sent []byte) (lose bool)) string {
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
			go relay(client, server, see)
		}
	}()
	return listener.Addr().String()
}

// relay owns the client's connection. It passes all that is sent, and the answers until
// see is true of what was sent; the next one ends the connection.
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
