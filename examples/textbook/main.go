// Textbook shows the four ways to limit a rate that every tutorial walks through, each as short as
// in a tutorial, and right: a sliding window in a sorted set, a funnel in the process, a funnel in
// a hash with a Lua script, and CL.THROTTLE. It sends the same calls to each of them, and prints
// how many each let through.
//
//	./build.sh run               # a server with the module, in another terminal
//	go run ./examples/textbook   # -redis ADDRESS for another server
//
// The limit is 5 calls in 4 seconds. All four let 5 through at once. Then they differ: for the
// window, the next call has to wait until the first one is 4 seconds old. A funnel has room for
// another one after 0.8 seconds, so in the first 4 seconds it lets 9 through; but it never lets
// through 5 at once again before it is empty. In the long run all let through the same number.
//
// examples/README.md says what each way costs, and what it gets wrong.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// A limit allows so many calls per period. A funnel of that limit holds count tokens, and leaks one
// each interval.
type limit struct {
	count  int
	period time.Duration
}

// interval is the time in which a funnel leaks one token.
func (l limit) interval() time.Duration { return l.period / time.Duration(l.count) }

// A way decides whether a call of a user goes through.
type way interface {
	allow(ctx context.Context, key string) (bool, error)
}

// A burst is a number of calls at one instant.
type burst struct {
	at    float64 // in periods since the first burst
	calls int
}

// bursts show what differs. The first fills everything. Half a period later, a funnel has leaked
// 2.5 tokens. Just after the period, the window has forgotten the first burst, but not the second.
// In the end all is as in the beginning.
var bursts = []burst{{0, 7}, {0.5, 3}, {0.9, 3}, {1.1, 7}, {2.3, 7}}

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey with the module")
	period := flag.Duration("period", 4*time.Second, "the period of the limit")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: *address})
	defer rdb.Close()
	err := show(ctx, os.Stdout, rdb, limit{count: 5, period: *period})
	if err != nil {
		log.Fatal(err)
	}
}

// show sends the bursts to each way, and prints how many calls of each burst it let through.
func show(ctx context.Context, out io.Writer, rdb *redis.Client, l limit) error {
	names := []string{"window", "process", "hash", "CL.THROTTLE"}
	ways := []way{&window{rdb, l}, newProcess(l), &hash{rdb, l}, &module{rdb, l}}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "second\tcalls\t"+strings.Join(names, "\t")+"\t")
	for _, name := range names {
		err := rdb.Del(ctx, keyOf(name)).Err() // of an earlier run
		if err != nil {
			return err
		}
	}
	began := time.Now()
	calls := 0
	together := make([]int, len(ways))
	for _, b := range bursts {
		at := time.Duration(b.at * float64(l.period))
		err := sleepUntil(ctx, began.Add(at))
		if err != nil {
			return err
		}
		row := make([]int, len(ways))
		for i, w := range ways {
			row[i], err = send(ctx, w, keyOf(names[i]), b.calls)
			if err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			together[i] += row[i]
		}
		calls += b.calls
		printRow(table, fmt.Sprintf("%.1f", at.Seconds()), b.calls, row)
	}
	printRow(table, "together", calls, together)
	return table.Flush()
}

func keyOf(name string) string { return "example:textbook:" + name }

// send makes calls one after the other, and returns how many went through.
func send(ctx context.Context, w way, key string, calls int) (through int, err error) {
	for range calls {
		allowed, err := w.allow(ctx, key)
		if err != nil {
			return 0, err
		}
		if allowed {
			through++
		}
	}
	return through, nil
}

func printRow(table io.Writer, first string, calls int, through []int) {
	fmt.Fprintf(table, "%s\t%d\t", first, calls)
	for _, n := range through {
		fmt.Fprintf(table, "%d\t", n)
	}
	fmt.Fprintln(table)
}

// sleepUntil sleeps until an instant, or until ctx is done, and returns the cause then.
func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
