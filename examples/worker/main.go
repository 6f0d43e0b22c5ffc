// Worker shows workers that do jobs no faster than a limit allows, all of them
// together, on however many machines: they share the funnel of one key.
//
//	./build.sh run                    # a server with the module, in another terminal
//	go run ./examples/worker          # asks, and sleeps for RetryAfter
//	go run ./examples/worker -do      # the same with Limiter.Do
//
// Flags change the number of jobs and workers, and -redis the server. Run it twice at
// the same time to see two processes share the limit; Ctrl-C ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

// Such as what a mail server accepts: 4 mails at once, and 4 a second.
var limit = limiter.PerSecond(4)

const key = "example:mails"

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey")
	jobs := flag.Int("jobs", 12, "number of jobs")
	workers := flag.Int("workers", 3, "number of workers")
	do := flag.Bool("do", false, "use Limiter.Do")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: *address})
	defer rdb.Close()
	l := limiter.New(rdb, limiter.WithTimeout(time.Second))

	// Both wait for their turn, and then call the function.
	inTurn := func(ctx context.Context, job func(context.Context) error) error { return askAndSleep(ctx, l, job) }
	if *do {
		inTurn = func(ctx context.Context, job func(context.Context) error) error { return l.Do(ctx, key, limit, job) }
	}
	done, err := work(ctx, *jobs, *workers, inTurn)
	fmt.Printf("%d of %d jobs done\n", done, *jobs)
	switch {
	case ctx.Err() != nil: // interrupted
	case err != nil:
		log.Fatal(err)
	}
}

// work does the jobs with so many workers, and returns how many it has done.
func work(ctx context.Context, jobs, workers int, inTurn func(context.Context, func(context.Context) error) error) (int, error) {
	queue := make(chan int, jobs)
	for job := range jobs {
		queue <- job + 1
	}
	close(queue)

	start := time.Now()
	var mutex sync.Mutex
	done, errs := 0, []error(nil)
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			for job := range queue {
				err := inTurn(ctx, func(context.Context) error {
					mutex.Lock()
					defer mutex.Unlock()
					done++
					fmt.Printf("%4.1fs worker %d: job %d\n", time.Since(start).Seconds(), worker+1, job)
					return nil
				})
				if err != nil {
					mutex.Lock()
					errs = append(errs, fmt.Errorf("worker %d gives up before job %d: %w", worker+1, job, err))
					mutex.Unlock()
					return
				}
			}
		})
	}
	wait.Wait()
	return done, errors.Join(errs...)
}

// askAndSleep does what Limiter.Do does, except that Do sleeps up to an eighth longer,
// at random, so that callers who were limited together do not return together.
func askAndSleep(ctx context.Context, l *limiter.Limiter, job func(context.Context) error) error {
	for {
		result, err := l.Allow(ctx, key, limit)
		if err != nil {
			return err
		}
		if !result.Limited() {
			return job(ctx)
		}
		select {
		case <-time.After(result.RetryAfter):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
