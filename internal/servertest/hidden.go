package servertest

import (
	"bufio"
	"bytes"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// HideCommands returns an address that leads to a server until the test ends. Commands with
// these names reach the server under others of the same length, which it does not know: the
// replies are its own. Sent returns the words of all commands since its last call, with the
// names that the clients gave them.
func HideCommands(t testing.TB, server string, names ...string) (address string, sent func() [][]string) {
	t.Helper()
	word := regexp.MustCompile(`(?i)\r\n(` + strings.ReplaceAll(strings.Join(names, "|"), ".", `\.`) + `)\r\n`)
	var mutex sync.Mutex
	var all [][]string
	address = proxy(t, server, func(sent []byte) bool {
		mutex.Lock()
		defer mutex.Unlock()
		wire := Wire{reader: bufio.NewReader(bytes.NewReader(sent))}
		for value, err := wire.value(); err == nil; value, err = wire.value() {
			values, _ := value.([]any)
			words := make([]string, len(values))
			for i := range values {
				words[i], _ = values[i].(string)
			}
			all = append(all, words)
		}
		for _, place := range word.FindAllIndex(sent, -1) {
			sent[place[0]+len("\r\n")] = '?'
		}
		return false
	})
	return address, func() [][]string {
		mutex.Lock()
		defer mutex.Unlock()
		defer func() { all = nil }()
		return all
	}
}
