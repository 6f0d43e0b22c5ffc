// Worker shows workers that do jobs no faster than a limit allows, all of them together,
// on any number of machines: they share the funnel of one key.
//
//	./build.sh run                    # a server with the module, in another terminal
//	go run ./examples/worker
//
// Each waits by [limiter.Limiter.Wait]: one call and one sleep, in the order of asking. While Redis
// is down they wait, too: with [limiter.FailClosed], Wait asks again each second. Run it
// twice at the same time to see two processes share the limit. -help shows the flags.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
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
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: *address, ContextTimeoutEnabled: true})
	defer rdb.Close()
	l := limiter.New(rdb, limiter.WithTimeout(time.Second), limiter.OnFailure(limiter.FailClosed))

	queue := make(chan int, *jobs)
	for job := range *jobs {
		queue <- job + 1
	}
	close(queue)

	start := time.Now()
	var done atomic.Int64
	var running sync.WaitGroup
	for worker := range *workers {
		running.Go(func() {
			for job := range queue {
				if err := l.Wait(ctx, key, limit); err != nil {
					log.Printf("worker %d gives up before job %d: %v", worker+1, job, err)
					return
				}
				done.Add(1)
				fmt.Printf("%4.1fs worker %d: job %d\n", time.Since(start).Seconds(), worker+1, job)
			}
		})
	}
	running.Wait()
	fmt.Printf("%d of %d jobs done\n", done.Load(), *jobs)
	if ctx.Err() == nil && int(done.Load()) < *jobs {
		os.Exit(1)
	}
}
