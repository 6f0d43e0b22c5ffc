// Llm shows budgets for the tenants of a language model: how many requests a minute each
// may send, and how many tokens a minute it may use. How many tokens an answer takes is
// known only when it is there. Each request goes like this:
//
//  1. reserve one request and the estimated tokens, both or neither;
//  2. ask the model;
//  3. settle: charge what was used beyond the estimate, or refund what was not used.
//
// Run it:
//
//	./build.sh run          # a server with the module, in another terminal
//	go run ./examples/llm   # -redis ADDRESS for another server
//
// Of two tenants one is greedy: it waits for its own budget, and the other does not notice.
// The model is a function of this program; -seed changes its answers, and -requests how
// many each tenant asks for. It ends after some seconds, and on Ctrl-C. Run it twice at the
// same time to see two processes share the budgets.
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

// The budgets of a tenant. Tokens that have leaked before the request is settled do not come
// back. A burst of 3,000 tokens, of which 500 leak a second, is enough for requests of 6 s.
// For longer ones take a larger burst, or a low estimate, and charge the rest.
var (
	requestsLimit = limiter.PerMinute(60).Burst(10)
	tokensLimit   = limiter.PerMinute(30_000).Burst(3_000)
)

func main() {
	address := flag.String("redis", "localhost:6379", "`address` of Redis or Valkey")
	requests := flag.Int("requests", 6, "number of requests of each tenant")
	seed := flag.Uint64("seed", 1, "seed of the model's answers")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A call that the client repeats after a network error may take its tokens twice.
	rdb := redis.NewClient(&redis.Options{Addr: *address, ContextTimeoutEnabled: true, MaxRetries: -1})
	defer rdb.Close()
	l := limiter.New(rdb, limiter.WithPrefix("example:llm:"), limiter.WithTimeout(time.Second))

	tenants := []*tenant{
		{name: "greedy", prompt: 800, limiter: l, model: newModel(*seed, 1)},
		{name: "modest", prompt: 50, limiter: l, model: newModel(*seed, 2)},
	}
	errs := make([]error, len(tenants))
	var running sync.WaitGroup
	for i, tenant := range tenants {
		running.Go(func() { errs[i] = tenant.run(ctx, *requests) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// A tenant has a budget of requests and one of tokens, each a funnel.
type tenant struct {
	name    string
	prompt  int // tokens of each of its prompts
	limiter *limiter.Limiter
	model   *model

	answered, used int           // requests, tokens
	waited         time.Duration // for the budgets
}

// The keys have one hash tag: a cluster keeps both in one slot, and decides on them as one.
func (t *tenant) requestsKey() string { return "{" + t.name + "}:requests" }
func (t *tenant) tokensKey() string   { return "{" + t.name + "}:tokens" }

// run sends the requests, one after the other.
func (t *tenant) run(ctx context.Context, requests int) (err error) {
	for t.answered < requests && err == nil {
		err = t.request(ctx)
	}
	fmt.Printf("%s: %d of %d requests answered, %d tokens used, %v waited\n",
		t.name, t.answered, requests, t.used, t.waited.Round(time.Millisecond))
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// request is one request to the model, within the budgets.
func (t *tenant) request(ctx context.Context) error {
	reserved, err := t.reserve(ctx, t.prompt+usualAnswer)
	if err != nil {
		return err
	}
	used, err := t.model.ask(ctx, t.prompt)
	t.used += used
	// Also when the model has failed, or the program is to end: what was reserved and
	// not used would be missing from the budget.
	if err := t.settle(context.WithoutCancel(ctx), reserved, used); err != nil {
		return err
	}
	if err == nil {
		t.answered++
	}
	return err
}

// reserve takes a request and the tokens from the budgets, and waits until both fit. It
// returns the Result of the tokens.
func (t *tenant) reserve(ctx context.Context, tokens int) (limiter.Result, error) {
	asked := time.Now()
	results, err := t.limiter.WaitAll(ctx,
		limiter.Request{Key: t.requestsKey(), Limit: requestsLimit, Quantity: 1},
		limiter.Request{Key: t.tokensKey(), Limit: tokensLimit, Quantity: tokens})
	if err != nil {
		return limiter.Result{}, err
	}
	waited := time.Since(asked)
	t.waited += waited
	t.tell("%d tokens reserved after %v; %d requests and %d tokens remain",
		tokens, waited.Round(time.Millisecond), results[0].Remaining, results[1].Remaining)
	return results[1], nil
}

// settle corrects what was reserved to what was used.
func (t *tenant) settle(ctx context.Context, reserved limiter.Result, used int) error {
	estimate := reserved.Allowed // which Settle changes
	result, err := t.limiter.Settle(ctx, &reserved, used)
	if err != nil {
		return err
	}
	overfull := ""
	if result.RetryAfter > 0 { // the next request has to wait for what this one used too much
		overfull = fmt.Sprintf(", overfull for %v", result.RetryAfter.Round(time.Millisecond))
	}
	t.tell("%d tokens used of %d; %d tokens remain%s", used, estimate, result.Remaining, overfull)
	return nil
}

var began = time.Now()

// tell prints what has happened to the request that is not answered yet.
func (t *tenant) tell(format string, values ...any) {
	what := fmt.Sprintf(format, values...)
	fmt.Printf("%5.2fs %s, request %d: %s\n", time.Since(began).Seconds(), t.name, t.answered+1, what)
}

// A model answers as a language model does: after a while, at a length that nobody knew
// before.
type model struct{ random *rand.Rand }

func newModel(seed, tenant uint64) *model { return &model{rand.New(rand.NewPCG(seed, tenant))} }

// In tokens. The estimate is neither the shortest nor the longest answer.
const (
	shortestAnswer = 50
	usualAnswer    = 200
	longestAnswer  = 400
)

// ask returns how many tokens prompt and answer have used.
func (m *model) ask(ctx context.Context, prompt int) (used int, err error) {
	answer := shortestAnswer + m.random.IntN(longestAnswer-shortestAnswer+1)
	select {
	case <-time.After(time.Duration(answer) * 200 * time.Microsecond):
		return prompt + answer, nil
	case <-ctx.Done(): // the prompt has been read
		return prompt, context.Cause(ctx)
	}
}
