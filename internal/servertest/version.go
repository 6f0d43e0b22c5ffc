package servertest

import (
	"fmt"
	"os/exec"
	"regexp"
	"sync"
	"testing"
)

// serverVersion asks the server program once what it is: "Redis server v=6.2.8 ...".
var serverVersion = sync.OnceValues(func() (version [2]int, err error) {
	output, err := exec.Command(Program(), "--version").Output()
	if err != nil {
		return version, fmt.Errorf("%s --version: %w", Program(), err)
	}
	found := regexp.MustCompile(`v=\d+\.\d+`).Find(output)
	_, err = fmt.Sscanf(string(found), "v=%d.%d", &version[0], &version[1])
	if err != nil {
		return version, fmt.Errorf("%s --version says %q", Program(), output)
	}
	return version, nil
})

// Since7 reports whether the server has the features of Redis 7.0. The oldest server that the
// module runs on is 6.2; Valkey and Redict began after 7.0.
func Since7(t testing.TB) bool {
	t.Helper()
	version, err := serverVersion()
	if err != nil {
		t.Fatal(err)
	}
	return version[0] >= 7
}

// NeedSince7 skips a test on servers before Redis 7.0. The reason for skipping names the feature
// that they lack.
func NeedSince7(t testing.TB, what string) {
	t.Helper()
	if !Since7(t) {
		t.Skip("Redis 7.0 is the first with " + what)
	}
}
