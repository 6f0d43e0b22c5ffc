package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Tail compares the slowest calls of SET and CL.THROTTLE, sent side by side to
// one server at a fixed rate. Each call is timed from the instant at which it was
// due, not at which it was sent, so that a pause of the server counts for every
// call that it held up. Times are in microseconds.
type Tail struct {
	// Rate is how many calls per second there were of each.
	Rate   int `json:"calls_per_second_of_each"`
	Rounds int `json:"rounds"`

	Set      TailTimes `json:"set"`
	Throttle TailTimes `json:"throttle"`

	// SetWithout is SET on a server without the module, at twice the rate: the
	// same load without the module.
	SetWithout TailTimes `json:"set_without_module"`

	// Ratio of CL.THROTTLE to SET at the 99.9th percentile, round by round.
	Ratio Spread `json:"p999_ratio"`
}

// A TailTimes holds percentiles, each over the rounds.
type TailTimes struct {
	P50  Spread  `json:"p50_microseconds"`
	P99  Spread  `json:"p99_microseconds"`
	P999 Spread  `json:"p999_microseconds"`
	Max  float64 `json:"maximum_microseconds"`
}

// A TailOptions says what load is sent.
type TailOptions struct {
	Program  string
	Module   string
	Rate     int // calls per second of each command, at least 1
	Clients  int // connections per command, at least 1
	Keys     int64
	Rounds   int
	Round    time.Duration
	Progress func(format string, arguments ...any)
}

// MeasureTail sends the load in rounds, to the two servers in turn.
func MeasureTail(ctx context.Context, options TailOptions) (*Tail, error) {
	with, err := StartServer(ctx, ServerOptions{Program: options.Program, Modules: []string{options.Module}})
	if err != nil {
		return nil, err
	}
	defer with.Stop()
	without, err := StartServer(ctx, ServerOptions{Program: options.Program})
	if err != nil {
		return nil, err
	}
	defer without.Stop()
	pair, err := Choose([]string{"set", "throttle"}, false)
	if err != nil {
		return nil, err
	}
	set, throttle := newWorkload(pair[0], 0), newWorkload(pair[1], 0)

	var sets, throttles, plains []*hdrhistogram.Histogram
	var ratios []float64
	for turn := range options.Rounds {
		options.Progress("tail latency: turn %d of %d", turn+1, options.Rounds)
		h, err := paced(ctx, with, options, []*workload{&set, &throttle})
		if err != nil {
			return nil, err
		}
		p, err := paced(ctx, without, options, []*workload{&set, &set})
		if err != nil {
			return nil, err
		}
		p[0].Merge(p[1])
		sets, throttles, plains = append(sets, h[0]), append(throttles, h[1]), append(plains, p[0])
		ratios = append(ratios, microseconds(h[1], 99.9)/microseconds(h[0], 99.9))
	}
	return &Tail{
		Rate: options.Rate, Rounds: options.Rounds,
		Set: tailTimes(sets), Throttle: tailTimes(throttles), SetWithout: tailTimes(plains),
		Ratio: spreadOf(ratios),
	}, nil
}

func tailTimes(histograms []*hdrhistogram.Histogram) TailTimes {
	at := func(percent float64) Spread {
		var values []float64
		for _, h := range histograms {
			values = append(values, microseconds(h, percent))
		}
		return spreadOf(values)
	}
	result := TailTimes{P50: at(50), P99: at(99), P999: at(99.9)}
	for _, h := range histograms {
		result.Max = max(result.Max, float64(h.Max())/1e3)
	}
	return result
}

// paced sends each workload at the rate of the options, spread over its
// connections, all at the same time. Keys of different workloads differ: SET would
// overwrite funnels.
func paced(ctx context.Context, server *Server, options TailOptions, workloads []*workload) ([]*hdrhistogram.Histogram, error) {
	if err := server.empty(ctx); err != nil {
		return nil, err
	}
	interval := time.Duration(float64(time.Second) * float64(options.Clients) / float64(options.Rate))
	results := make([]*hdrhistogram.Histogram, len(workloads))
	var lock sync.Mutex
	var failure error
	var group sync.WaitGroup
	start := time.Now().Add(50 * time.Millisecond)
	for number, w := range workloads {
		results[number] = newHistogram()
		for client := range options.Clients {
			slot := client*len(workloads) + number
			group.Go(func() {
				// Due times of all connections are spread evenly over the interval.
				first := start.Add(interval * time.Duration(slot) / time.Duration(options.Clients*len(workloads)))
				own, err := pacedClient(ctx, server, options, w, slot, int64(number)*options.Keys, first, interval)
				lock.Lock()
				defer lock.Unlock()
				if err != nil {
					failure = fmt.Errorf("%s: %w", w.alternative.Title, err)
					return
				}
				results[number].Merge(own)
			})
		}
	}
	group.Wait()
	return results, failure
}

func pacedClient(ctx context.Context, server *Server, options TailOptions, w *workload, number int, firstKey int64, due time.Time, interval time.Duration) (*hdrhistogram.Histogram, error) {
	player, err := newPlayer(ctx, server.Address, number)
	if err != nil {
		return nil, err
	}
	defer player.close()
	histogram := newHistogram()
	for end := due.Add(options.Round); due.Before(end); due = due.Add(interval) {
		time.Sleep(time.Until(due))
		now := time.Now().UnixMilli()
		player.add(w.roomy, firstKey+player.random.Int64N(options.Keys), now)
		if err := player.flush(); err != nil {
			return nil, err
		}
		histogram.RecordValue(int64(time.Since(due)))
	}
	return histogram, nil
}
