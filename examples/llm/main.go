// Llm shows budgets for the tenants of a language model: how many requests a minute each
// may send, and how many tokens a minute it may use. How many tokens an answer takes is
// known only when its stream ends, after seconds. Each request goes like this:
//
//  1. reserve one request and the tokens of the longest answer, both or neither;
//  2. stream the answer;
//  3. settle: what was not used is given back.
//
// Run it:
//
//	./build.sh run          # a server with the module, in another terminal
//	go run ./examples/llm   # -redis ADDRESS for another server
//
// Of two tenants one is greedy, and sends all its requests at once: it waits for its own
// budget, and the other does not notice. The model is a function of this program. Run it
// twice at the same time to see two processes share the budgets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

const longestAnswer = 1000 // tokens

// The budgets of a tenant. Tokens that leak while an answer streams cannot be given back, so the
// burst is more than leaks in the longest stream: 500 a second, for 4 seconds.
var (
	requestsLimit = limiter.PerMinute(60).Burst(10)
	tokensLimit   = limiter.PerMinute(30_000).Burst(6_000)
)

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey")
	requests := flag.Int("requests", 6, "number of requests of each tenant")
	perToken := flag.Duration("token", 4*time.Millisecond, "how long the model takes for a token of an answer")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A call that the client repeats after a network error may take its tokens twice.
	rdb := redis.NewClient(&redis.Options{Addr: *address, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	l := limiter.New(rdb, limiter.WithPrefix("example:llm:"), limiter.WithTimeout(time.Second))

	var greedy, modest error
	var running sync.WaitGroup
	running.Go(func() { greedy = run(ctx, tenant{"greedy", 800, l, *perToken}, *requests, *requests) })
	running.Go(func() { modest = run(ctx, tenant{"modest", 50, l, *perToken}, *requests, 1) })
	running.Wait()
	if err := errors.Join(greedy, modest); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run sends requests, some of them at once, and prints what they used.
func run(ctx context.Context, t tenant, requests, atOnce int) error {
	var mutex sync.Mutex
	answered, used := 0, 0
	var failed error
	next := make(chan int)
	var streams sync.WaitGroup
	for range atOnce {
		streams.Go(func() {
			for number := range next {
				tokens, err := t.request(ctx, number)
				mutex.Lock()
				used += tokens
				if err == nil {
					answered++
				} else {
					failed = fmt.Errorf("%s: %w", t.name, err)
				}
				mutex.Unlock()
			}
		})
	}
	for number := range requests {
		next <- number + 1
	}
	close(next)
	streams.Wait()
	fmt.Printf("%s: %d of %d requests answered, %d tokens used\n", t.name, answered, requests, used)
	return failed
}

// A tenant has a budget of requests and one of tokens, each a funnel.
type tenant struct {
	name     string
	prompt   int // tokens of each of its prompts
	limiter  *limiter.Limiter
	perToken time.Duration
}

// request is one request to the model, within the budgets. It returns how many tokens it used.
func (t tenant) request(ctx context.Context, number int) (used int, err error) {
	asked := time.Now()
	// The keys have one hash tag: a cluster keeps both in one slot, and decides on them as one.
	results, err := t.limiter.WaitAll(ctx,
		limiter.Request{Key: "{" + t.name + "}:requests", Limit: requestsLimit, Quantity: 1},
		limiter.Request{Key: "{" + t.name + "}:tokens", Limit: tokensLimit, Quantity: t.prompt + longestAnswer})
	if err != nil {
		return 0, err
	}
	tokens := &results[1]
	t.tell(number, "%d tokens reserved after %v, %d remain", tokens.Allowed, since(asked), tokens.Remaining)

	asked = time.Now()
	answer, failed := stream(ctx, t.perToken)
	used = t.prompt + answer
	// Also when the model has failed, or the program is to end: what was not used would be missing.
	unused := tokens.Allowed - used
	settled, err := t.limiter.Settle(context.WithoutCancel(ctx), tokens, used)
	if err == nil {
		t.tell(number, "%d tokens used in %v, %d given back, %d remain", used, since(asked), unused, settled.Remaining)
	}
	return used, errors.Join(failed, err)
}

// tell prints what has happened to a request.
func (t tenant) tell(number int, format string, values ...any) {
	fmt.Printf("%s, request %d: %s\n", t.name, number, fmt.Sprintf(format, values...))
}

func since(instant time.Time) time.Duration { return time.Since(instant).Round(time.Millisecond) }

// stream answers as a language model does: token by token, and nobody knows how many there will
// be. It returns how many there were.
func stream(ctx context.Context, perToken time.Duration) (tokens int, err error) {
	tokens = 100 + rand.IntN(longestAnswer-100+1)
	began := time.Now()
	select {
	case <-time.After(time.Duration(tokens) * perToken):
		return tokens, nil
	case <-ctx.Done():
		return min(tokens, int(time.Since(began)/perToken)), context.Cause(ctx)
	}
}
