package servertest

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
)

// LoseAnswer returns an address that leads to a server until the test ends. The first
// connection that sends the word, in lower or upper case, is closed once the server has
// answered; its client never gets that answer.
func LoseAnswer(t testing.TB, server, word string) string {
	t.Helper()
	lost := &atomic.Bool{}
	return proxy(t, server, func(sent []byte) bool {
		return bytes.Contains(bytes.ToLower(sent), []byte(strings.ToLower(word))) && lost.CompareAndSwap(false, true)
	})
}
