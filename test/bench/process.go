package bench

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"funnel/limiter"
	"funnel/limiter/lease"
)

// The limit that processes share, and for how long they decide without Redis.
const (
	sharedRate, sharedBurst = 2000, 400
	spanMilliseconds        = 50
	span                    = spanMilliseconds * time.Millisecond
	perSpan                 = sharedRate * spanMilliseconds / 1000
)

var sharedLimit = limiter.PerSecond(sharedRate).Burst(sharedBurst)

// processArgument is the only argument of a program that is one of a fleet's processes.
const processArgument = "process-of-a-fleet"

// Whatever program measures can be started again as a process of a fleet: funnel-bench, and the
// tests.
func init() {
	if len(os.Args) != 2 || os.Args[1] != processArgument {
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A task is calls in one way, evenly but for some jitter.
type task struct {
	Addr     string
	Way      int // of ways
	Gap, For time.Duration
	Seed     uint64
}

// An account says how many calls a process made, and at which instants it had been allowed one.
// Instants are those of CLOCK_MONOTONIC, which all processes of a machine share.
type account struct {
	Asked   int
	Allowed []int64
	Late    time.Duration // of the call that was made the longest after it was due
}

// serve reads a task, answers when it is connected, reads the instant to begin at, and answers
// by an account.
func serve(in io.Reader, out io.Writer) error {
	orders, answers := gob.NewDecoder(in), gob.NewEncoder(out)
	var t task
	if err := orders.Decode(&t); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: t.Addr, MaxRetries: -1})
	defer rdb.Close()
	allow := ways[t.Way].connect(ctx, rdb)
	err := rdb.Ping(ctx).Err()
	var begin int64
	if err = errors.Join(err, answers.Encode(true), orders.Decode(&begin)); err != nil {
		return err
	}
	result, err := t.run(ctx, begin, allow)
	return errors.Join(err, answers.Encode(result))
}

// A way is how processes share a limit.
type way struct {
	name     string
	connect  func(context.Context, *redis.Client) decide
	capacity float64
	bound    string // of the tokens of a stretch of time, beyond those that leak in it
	class    string // of the bars in the chart, if there are any
	demands  []float64
}

// A decide asks for one token.
type decide func(context.Context) (allowed bool, err error)

var allDemands = []float64{0.5, 0.9, 1.1, 2, 10} // in proportion to the rate

var ways = []way{
	{"leases", byLeases, sharedBurst, fmt.Sprint(sharedBurst + perSpan), "ours", allDemands},
	{"local counts, 400 in 200 ms", byCounter(200 * time.Millisecond), sharedBurst, "none", "", allDemands},
	{"local counts, 2,000 in 1 s", byCounter(time.Second), sharedRate, "none", "bar", allDemands},
	{"Allow", byLimiter, sharedBurst, fmt.Sprint(sharedBurst), "", []float64{1.1}},
}

const sharedKey = "shared"

func byLimiter(_ context.Context, rdb *redis.Client) decide {
	l := limiter.New(rdb)
	return func(ctx context.Context) (bool, error) {
		result, err := l.Allow(ctx, sharedKey, sharedLimit)
		return !result.Limited(), err
	}
}

func byLeases(_ context.Context, rdb *redis.Client) decide {
	leases := lease.New(limiter.New(rdb), span)
	return func(ctx context.Context) (bool, error) {
		result, err := leases.Allow(ctx, sharedKey, sharedLimit)
		return !result.Limited(), err
	}
}

// byCounter reconciles at instants of its own, as processes do that do not know each other.
func byCounter(window time.Duration) func(context.Context, *redis.Client) decide {
	return func(ctx context.Context, rdb *redis.Client) decide {
		c := newLocalCounter(sharedKey, sharedRate*window.Seconds(), window)
		go func() {
			time.Sleep(rand.N(span))
			for ticker := time.NewTicker(span); ctx.Err() == nil; <-ticker.C {
				c.reconcile(ctx, rdb, time.Now())
			}
		}()
		return func(context.Context) (bool, error) { return c.allow(time.Now()) }
	}
}

// run makes each call when it is due, whether or not those before it have been answered: a
// closed loop would ask for less where answers take longer. Limited calls are not made again.
func (t *task) run(ctx context.Context, begin int64, allow decide) (result account, err error) {
	random := rand.New(rand.NewPCG(t.Seed, 0))
	var mutex sync.Mutex
	var calls sync.WaitGroup
	for ; time.Duration(result.Asked)*t.Gap < t.For; result.Asked++ {
		due := begin + int64((float64(result.Asked)+random.Float64())*float64(t.Gap))
		time.Sleep(time.Duration(due - monotonic()))
		result.Late = max(result.Late, time.Duration(monotonic()-due))
		calls.Go(func() {
			is, failure := allow(ctx)
			at := monotonic()
			mutex.Lock()
			defer mutex.Unlock()
			if err = errors.Join(err, failure); is && failure == nil {
				result.Allowed = append(result.Allowed, at)
			}
		})
	}
	calls.Wait()
	return result, err
}

// monotonic returns the nanoseconds of CLOCK_MONOTONIC, which package time does not show.
func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails for other clocks
	return now.Nano()
}
