// Worker shows a consumer of a queue that calls somebody else's service, here a mail server that
// accepts 8 mails at once and 4 a second. Any number of workers in any number of processes share
// that limit: all of them wait for the tokens of one funnel.
//
//	./build.sh run                       # a server with the module, in another terminal
//	go run ./examples/worker -add 12     # -redis ADDRESS for another server
//
// -add puts jobs into the queue. Run the program twice at the same time to see two processes share
// the limit, and press Ctrl-C to see jobs go back to the queue.
//
// A worker waits by [limiter.Limiter.WaitN]: one call and one sleep, and workers are served in the
// order of asking. While Redis is down, workers wait too: with [limiter.FailClosed], WaitN asks
// again each second.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey")
	add := flag.Int("add", 0, "number of jobs to put into the queue first")
	workers := flag.Int("workers", 3, "number of workers")
	name := flag.String("name", fmt.Sprint(os.Getpid()), "the `name` of this process: if it is started again after a "+
		"crash, by the same name, it does the jobs that it had begun")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: *address, ContextTimeoutEnabled: true})
	defer rdb.Close()
	q := &queue{rdb: rdb, waiting: "example:mails", begun: "example:mails:" + *name}
	err := q.fill(ctx, *add)
	if err != nil {
		log.Fatal(err)
	}

	w := &worker{
		limiter: limiter.New(rdb, limiter.WithTimeout(time.Second), limiter.OnFailure(limiter.FailClosed)),
		queue:   q,
		send:    printMails(time.Now()),
	}
	var running sync.WaitGroup
	for range *workers {
		running.Go(func() { w.run(ctx) })
	}
	running.Wait()
}

// printMails stands for the mail server.
func printMails(began time.Time) func(ctx context.Context, j job, mails int) error {
	return func(_ context.Context, j job, mails int) error {
		fmt.Printf("%4.1fs job %s: %d of %d mails\n", time.Since(began).Seconds(), j.ID, mails, j.Mails)
		return nil
	}
}
