package window_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"funnel/internal/servertest"
)

// rdb is the client of the examples, which have no test to start a server for.
var rdb *redis.Client

func TestMain(m *testing.M) {
	program := &program{}
	rdb = servertest.Start(program, servertest.Options{}).Client(program)
	code := m.Run()
	program.end()
	os.Exit(code)
}

// A program stands in for a test that lasts as long as the test binary does.
type program struct {
	testing.TB // nil: what servertest needs of it is below
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
	for len(p.cleanups) > 0 {
		last := len(p.cleanups) - 1
		cleanup := p.cleanups[last]
		p.cleanups = p.cleanups[:last]
		cleanup()
	}
}
