package slots_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

var twenty = limiter.Slots{Limit: 20, TTL: 2 * time.Second}

// TestMain is the program of the processes, too.
func TestMain(m *testing.M) {
	if addr := os.Getenv("FUNNEL_TEST_WORKERS"); addr != "" {
		runWorkers(addr)
		return
	}
	m.Run()
}

// startWorkers starts a process of 50 workers, which is killed when the test ends.
func startWorkers(t *testing.T, addr string, observer *os.File) *exec.Cmd {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), "FUNNEL_TEST_WORKERS="+addr)
	process.Stdout, process.Stderr = observer, os.Stderr
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, process.Start())
	t.Cleanup(func() { process.Process.Kill() })
	return process
}

// runWorkers runs workers until SIGTERM. The client of every other one repeats calls without an answer.
func runWorkers(addr string) {
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	var workers sync.WaitGroup
	for _, retries := range []int{-1, 3} {
		l := limiter.New(observed{redis.NewClient(&redis.Options{Addr: addr, MaxRetries: retries, PoolSize: 25})})
		for worker := range 25 {
			workers.Go(func() {
				for piece := 0; stop.Err() == nil; piece++ {
					work(stop, l, fmt.Sprint(os.Getpid(), ":", retries, ":", worker, ":", piece))
				}
			})
		}
	}
	workers.Wait()
}

// work asks for a slot until it has one, works, and gives it back, at times twice.
func work(stop context.Context, l *limiter.Limiter, name string) {
	ctx := context.WithValue(context.Background(), observed{}, name)
	var slot *limiter.Slot
	for pause := 25 * time.Millisecond; slot == nil && stop.Err() == nil; pause = min(2*pause, time.Second/2) {
		if slot, _, _ = l.Acquire(ctx, "slots", twenty); slot == nil {
			time.Sleep(pause/2 + rand.N(pause))
		}
	}
	if slot == nil {
		return
	}
	length := time.Millisecond + rand.N(50*time.Millisecond)
	if rand.IntN(500) == 0 {
		length = 3 * time.Second // it is renewed
	}
	select {
	case <-time.After(length):
	case <-slot.Context().Done():
	case <-stop.Done():
	}
	if now := time.Now(); slot.Context().Err() == nil {
		tell(name, time.Time{}, now)
	}
	for slot.Release(ctx) != nil {
	}
	if rand.IntN(10) == 0 {
		slot.Release(ctx)
	}
}

// An observed client tells the observer what CL.RESERVE is answered: the holder has a slot from now,
// and runs at least until a ttl after the call was sent.
type observed struct{ *redis.Client }

func (c observed) Process(ctx context.Context, command redis.Cmder) error {
	sent := time.Now()
	err := c.Client.Process(ctx, command)
	if err != nil || command.Name() != "cl.reserve" {
		return err
	}
	until := sent.Add(twenty.TTL)
	if reply := command.(*redis.Cmd).Val().([]any); reply[0] != int64(0) {
		until = time.Time{}
	}
	tell(ctx.Value(observed{}), time.Now(), until)
	return nil
}

// tell writes a line into the pipe that all processes share, at once.
func tell(name any, from, until time.Time) {
	fmt.Println(name, max(0, from.UnixMicro()), max(0, until.UnixMicro()))
}
