// Llm shows budgets for the tenants of a language model. They limit the requests in flight, the
// requests a minute, the tokens a minute, and the tokens a month. The number of tokens of an answer
// is known only when its stream ends, after seconds. So a request waits for a slot, one request and
// the tokens of the longest answer, all or nothing, and settles the tokens when it ends. From the
// month it takes only the tokens of the prompt, and charges the answer in pieces while it streams.
// The piece that overspends the month ends its answer: at most 5 slots × 200 tokens are overspent
// (docs/limits.md, "A budget").
//
//	./build.sh run          # a server with the module, in another terminal
//	go run ./examples/llm   # -redis ADDRESS for another server
//
// Two tenants send all their requests at once. Slots limit chatty, whose prompts are short. Tokens
// limit greedy, and chatty does not notice that. The model is a function of this program. Run the
// program twice at the same time to see two processes share the budgets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

const (
	longestAnswer = 1000 // tokens
	piece         = 200  // tokens of an answer that are charged together
)

var errMonthUsed = errors.New("the answer ends early, because the month is used")

// The budgets of a tenant. Tokens that leak while an answer streams cannot be given back, so the
// capacity is larger than the number of tokens that leak in the longest stream: 500 a second, for 4
// seconds.
var (
	slots         = limiter.Slots{Max: 5, TTL: 10 * time.Second}
	requestsLimit = limiter.PerMinute(60).WithCapacity(10)
	tokensLimit   = limiter.PerMinute(30_000).WithCapacity(7_000)
	monthLimit    = limiter.Monthly(1_000_000, time.UTC)
)

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey")
	requests := flag.Int("requests", 7, "number of requests of each tenant")
	perToken := flag.Duration("token", 4*time.Millisecond, "how long the model takes for a token of an answer")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A call that the client repeats after a network error may take its tokens twice.
	rdb := redis.NewClient(&redis.Options{Addr: *address, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	l := limiter.New(rdb, limiter.WithPrefix("example:llm:"), limiter.WithTimeout(time.Second),
		limiter.WithMaxWait(10*time.Minute)) // a tenant that has used its month does not wait for the next one

	tenants := []tenant{{"chatty", 50, l, *perToken}, {"greedy", 1200, l, *perToken}}
	answers := make(chan error)
	for number := range *requests {
		for _, t := range tenants {
			go func() { answers <- t.request(ctx, number+1) }()
		}
	}
	var err error
	for range *requests * len(tenants) {
		err = errors.Join(err, <-answers)
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

type tenant struct {
	name     string
	prompt   int // tokens of each of its prompts
	limiter  *limiter.Limiter
	perToken time.Duration
}

func (t tenant) request(ctx context.Context, number int) error {
	// The hash tag keeps the keys on one server of a cluster, which decides on them together.
	l, key := t.limiter, "{"+t.name+"}"
	began := time.Now()
	got, err := l.Acquire(ctx,
		slots.At(key+":slots"),
		limiter.Request{Key: key + ":requests", Limit: requestsLimit, Quantity: 1},
		limiter.Request{Key: key + ":tokens", Limit: tokensLimit, Quantity: t.prompt + longestAnswer},
		limiter.Request{Key: key + ":month", Limit: monthLimit, Quantity: t.prompt})
	inFlight, requests, tokens, month := got.Results[0], got.Results[1], got.Results[2], got.Results[3]
	switch {
	case errors.Is(err, limiter.ErrWaitTooLong) && month.RetryAfter > 0:
		return fmt.Errorf("%s has used its month: more in %v", t.name, month.RetryAfter)
	case err != nil:
		return fmt.Errorf("%s, request %d: %w", t.name, number, err)
	}
	defer got.Release(ctx)
	fmt.Printf("%s, request %d: allowed after %.1f s; %d slots, %d requests, %d tokens remain\n", t.name, number,
		time.Since(began).Seconds(), inFlight.Remaining, requests.Remaining, tokens.Remaining)

	answer, failed := stream(got.Context(), t.perToken, func(tokens int) (err error) {
		month, err = l.Charge(context.WithoutCancel(ctx), month.Key, month.Limit, tokens)
		if month.RetryAfter > 0 { // more than the limit is used
			err = errMonthUsed
		}
		return err
	})
	// This settles even if the model has failed or the program ends: otherwise the tokens that were
	// not used would be missing.
	settled, err := l.Settle(context.WithoutCancel(ctx), &tokens, t.prompt+answer)
	if err == nil {
		fmt.Printf("%s, request %d: %d tokens used, %d given back, %d remain, %d this month\n",
			t.name, number, t.prompt+answer, longestAnswer-answer, settled.Remaining, month.Remaining)
	}
	return errors.Join(failed, err)
}

// stream answers as a language model does, token by token, and nobody knows how many tokens will
// come. It charges each piece, ends early if that fails, and returns the number of tokens.
func stream(ctx context.Context, perToken time.Duration, charge func(tokens int) error) (tokens int, err error) {
	length := 100 + rand.IntN(longestAnswer-100+1)
	for tokens < length && err == nil {
		next := min(piece, length-tokens)
		began := time.Now()
		select {
		case <-time.After(time.Duration(next) * perToken):
		case <-ctx.Done():
			next, err = min(next, int(time.Since(began)/perToken)), context.Cause(ctx)
		}
		tokens += next
		err = errors.Join(err, charge(next))
	}
	return tokens, err
}
