package servertest

import (
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

// RunWithClient runs the tests of a package beside a bare server that lasts as long
// as they all do, and returns the exit code: for TestMain of packages whose examples
// need a server, since an example has no test to start one for. Use receives the
// client.
func RunWithClient(m *testing.M, use func(*redis.Client)) int {
	program := &program{}
	defer program.end()
	use(Start(program, Options{}).Client(program))
	return m.Run()
}

// A program is the testing.TB of [RunWithClient].
type program struct {
	testing.TB // nil: what Start and Client need of it is below
	cleanups   []func()
}

func (p *program) Helper()                      {}
func (p *program) Failed() bool                 { return false }
func (p *program) Cleanup(cleanup func())       { p.cleanups = append(p.cleanups, cleanup) }
func (p *program) Fatal(arguments ...any)       { panic(fmt.Sprint(arguments...)) }
func (p *program) Logf(format string, a ...any) { fmt.Printf(format+"\n", a...) }

func (p *program) TempDir() string {
	folder, err := os.MkdirTemp("", "funnel")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

func (p *program) end() {
	for last := len(p.cleanups) - 1; last >= 0; last-- {
		p.cleanups[last]()
	}
}
