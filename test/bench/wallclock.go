package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A WallClockOptions says how much load there is, and for how long.
type WallClockOptions struct {
	Clients  int           // connections that send at the same time, at least 1
	Pipeline int           // calls that a client sends before it reads, at least 1
	Keys     int64         // at least 1, chosen at random
	Limited  float64       // share of calls that are limited, 0 to 1
	Rounds   int           // per alternative, at least 1
	Round    time.Duration // length of a round
	Progress func(format string, arguments ...any)
}

// A WallClock is what the rounds of one alternative came to. Ratios are against
// the reference within the same turn, and only then summed up.
type WallClock struct {
	Name  string `json:"name"`
	Title string `json:"title"`

	// Throughput in calls per second, and its ratio: above 1 is better.
	Throughput      Spread `json:"calls_per_second"`
	ThroughputRatio Spread `json:"throughput_ratio"`

	// Processor is the time that the server's threads worked, in microseconds per
	// call: what a call costs when the client is not the bottleneck.
	Processor      Spread `json:"server_processor_microseconds_per_call"`
	ProcessorRatio Spread `json:"server_processor_ratio"`

	// Latency from sending a batch to the last of its replies, in microseconds.
	P50  Spread `json:"p50_microseconds"`
	P99  Spread `json:"p99_microseconds"`
	P999 Spread `json:"p999_microseconds"`

	P99Ratio Spread `json:"p99_ratio"`
}

// Reference is the alternative that ratios are taken against.
const Reference = "set"

// A round is one measurement of one alternative.
type round struct {
	throughput, processor, p50, p99, p999 float64
}

// MeasureWallClock takes the alternatives in turn, in another order each time, on
// servers that are already running. When it is interrupted it returns what it
// has.
func MeasureWallClock(ctx context.Context, options WallClockOptions, servers map[string]*Server, alternatives []Alternative) ([]WallClock, error) {
	rounds := map[string][]round{}
	random := rand.New(rand.NewPCG(1, 1))
	var err error
turns:
	for turn := range options.Rounds {
		options.Progress("wall clock, %d clients, pipeline %d: turn %d of %d", options.Clients, options.Pipeline, turn+1, options.Rounds)
		taken := map[string]round{}
		for _, i := range random.Perm(len(alternatives)) {
			a := alternatives[i]
			var r round
			r, err = measureRound(ctx, options, servers[a.Server], newWorkload(a, options.Limited))
			if err != nil {
				break turns
			}
			taken[a.Name] = r
		}
		// Only whole turns count, so that all have the same number of rounds.
		for name, r := range taken {
			rounds[name] = append(rounds[name], r)
		}
	}

	var results []WallClock
	for _, a := range alternatives {
		if own := rounds[a.Name]; len(own) > 0 {
			results = append(results, summarize(a, own, rounds[Reference]))
		}
	}
	return results, err
}

func measureRound(ctx context.Context, options WallClockOptions, server *Server, w workload) (round, error) {
	players, err := prepare(ctx, server, &w, options.Clients, options.Keys)
	if err != nil {
		return round{}, err
	}
	defer closeAll(players)
	return playRound(ctx, server, players, &w, options)
}

// prepare empties the server, fills it for the workload, and connects.
func prepare(ctx context.Context, server *Server, w *workload, clients int, keys int64) ([]*player, error) {
	if setup := w.alternative.Setup; setup != nil {
		if err := setup(ctx, server.Client); err != nil {
			return nil, err
		}
	}
	if err := server.empty(ctx); err != nil {
		return nil, err
	}
	var players []*player
	for number := range clients {
		player, err := newPlayer(ctx, server.Address, number)
		if err != nil {
			closeAll(players)
			return nil, err
		}
		players = append(players, player)
	}
	if err := players[0].fill(w, keys); err != nil {
		closeAll(players)
		return nil, err
	}
	return players, nil
}

func closeAll(players []*player) {
	for _, player := range players {
		player.close()
	}
}

// playRound lets all players send for the length of a round.
func playRound(ctx context.Context, server *Server, players []*player, w *workload, options WallClockOptions) (round, error) {
	before, err := server.processorSeconds(ctx)
	if err != nil {
		return round{}, err
	}
	histograms := make([]*hdrhistogram.Histogram, len(players))
	counts := make([]int64, len(players))
	errs := make([]error, len(players))
	var group sync.WaitGroup
	start := time.Now()
	for i, player := range players {
		histograms[i] = newHistogram()
		group.Go(func() {
			for last := start; last.Sub(start) < options.Round; {
				if errs[i] = player.batch(w, options.Pipeline, options.Keys); errs[i] != nil {
					return
				}
				now := time.Now()
				histograms[i].RecordValue(int64(now.Sub(last)))
				last = now
				counts[i] += int64(options.Pipeline)
			}
		})
	}
	group.Wait()
	elapsed := time.Since(start).Seconds()
	after, err := server.processorSeconds(ctx)
	if err != nil {
		return round{}, err
	}

	calls := int64(0)
	for i := range players {
		if errs[i] != nil {
			return round{}, fmt.Errorf("%s: %w", w.alternative.Title, errs[i])
		}
		calls += counts[i]
		if i > 0 {
			histograms[0].Merge(histograms[i])
		}
	}
	return round{
		throughput: float64(calls) / elapsed,
		processor:  (after - before) * 1e6 / float64(calls),
		p50:        microseconds(histograms[0], 50),
		p99:        microseconds(histograms[0], 99),
		p999:       microseconds(histograms[0], 99.9),
	}, nil
}

// newHistogram counts nanoseconds, up to a minute, to three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(100, int64(time.Minute), 3)
}

func microseconds(h *hdrhistogram.Histogram, percent float64) float64 {
	return float64(h.ValueAtPercentile(percent)) / 1e3
}

func summarize(a Alternative, own, reference []round) WallClock {
	return WallClock{
		Name: a.Name, Title: a.Title,
		Throughput:      spreadOver(own, func(r round) float64 { return r.throughput }),
		ThroughputRatio: ratioOver(own, reference, func(r round) float64 { return r.throughput }),
		Processor:       spreadOver(own, func(r round) float64 { return r.processor }),
		ProcessorRatio:  ratioOver(own, reference, func(r round) float64 { return r.processor }),
		P50:             spreadOver(own, func(r round) float64 { return r.p50 }),
		P99:             spreadOver(own, func(r round) float64 { return r.p99 }),
		P999:            spreadOver(own, func(r round) float64 { return r.p999 }),
		P99Ratio:        ratioOver(own, reference, func(r round) float64 { return r.p99 }),
	}
}

func spreadOver(rounds []round, value func(round) float64) Spread {
	var values []float64
	for _, r := range rounds {
		values = append(values, value(r))
	}
	return spreadOf(values)
}

// ratioOver compares the rounds of the same turn. Without a reference it returns
// the zero Spread.
func ratioOver(own, reference []round, value func(round) float64) Spread {
	if len(own) != len(reference) {
		return Spread{}
	}
	var ratios []float64
	for i := range own {
		ratios = append(ratios, value(own[i])/value(reference[i]))
	}
	return spreadOf(ratios)
}
