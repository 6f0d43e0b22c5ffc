package bench

import (
	"context"
	"fmt"
)

const (
	// footprintStarts is how often each kind of server is started, in turn.
	footprintStarts = 9

	// footprintCalls is how many calls the garbage collector is watched over.
	footprintCalls = 1_000_000
)

// A Footprint is what the module adds to a server that is otherwise idle, and what
// the Go runtime does during a million calls.
type Footprint struct {
	Without Start `json:"without_module"`
	With    Start `json:"with_module"`

	// Threads are the names of the threads, without and with the module, after a
	// hundred thousand calls.
	ThreadsWithout []string `json:"threads_without_module"`
	ThreadsWith    []string `json:"threads_with_module"`

	// Calls, and the collections and allocated objects of the Go runtime during
	// them. Calls is 0 if there was no debug build of the module to ask.
	Calls       int64 `json:"calls,omitempty"`
	Collections int64 `json:"garbage_collections"`
	Allocations int64 `json:"go_allocations"`
}

// A Start is what starts of one kind of server came to.
type Start struct {
	Milliseconds Spread `json:"milliseconds_to_first_answer"`

	// RSS is the resident memory, and Private the part of it that belongs to this
	// process alone rather than to a file, both in KiB.
	RSS     Spread `json:"rss_kibibytes"`
	Private Spread `json:"private_kibibytes"`
}

// MeasureFootprint starts servers with and without the module. The debug module,
// which may be empty, is a build with the tag funneldebug.
func MeasureFootprint(ctx context.Context, program, module, debugModule string, progress func(string, ...any)) (*Footprint, error) {
	result := &Footprint{}
	var starts [2]struct{ time, rss, private []float64 }
	modules := [2][]string{nil, {module}}
	for turn := range footprintStarts {
		progress("start-up and memory: turn %d of %d", turn+1, footprintStarts)
		for i := range modules {
			s := &starts[i]
			err := withServer(ctx, ServerOptions{Program: program, Modules: modules[i]}, func(server *Server) error {
				rss, private, err := residentMemory(server.Pid())
				s.time = append(s.time, server.StartTime.Seconds()*1e3)
				s.rss = append(s.rss, rss)
				s.private = append(s.private, private)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for i, start := range []*Start{&result.Without, &result.With} {
		*start = Start{spreadOf(starts[i].time), spreadOf(starts[i].rss), spreadOf(starts[i].private)}
	}

	progress("threads")
	for i, threads := range []*[]string{&result.ThreadsWithout, &result.ThreadsWith} {
		err := withServer(ctx, ServerOptions{Program: program, Modules: modules[i]}, func(server *Server) error {
			name := "set"
			if i == 1 {
				name = "throttle"
			}
			if err := sendCalls(ctx, server, name, 100_000); err != nil {
				return err
			}
			var err error
			*threads, err = threadNames(server.Pid())
			return err
		})
		if err != nil {
			return nil, err
		}
	}

	if debugModule == "" {
		return result, nil
	}
	progress("garbage collections during %d calls", footprintCalls)
	err := withServer(ctx, ServerOptions{Program: program, Modules: []string{debugModule}}, func(server *Server) error {
		read := func() (collections, allocations int64, err error) {
			if collections, err = server.Client.Do(ctx, "FUNNEL.DEBUG", "COLLECTIONS").Int64(); err != nil {
				return 0, 0, fmt.Errorf("%s is no build with the tag funneldebug: %w", debugModule, err)
			}
			allocations, err = server.Client.Do(ctx, "FUNNEL.DEBUG", "ALLOCATIONS").Int64()
			return collections, allocations, err
		}
		// The first reading allocates what later ones use again.
		if _, _, err := read(); err != nil {
			return err
		}
		collections, allocations, err := read()
		if err != nil {
			return err
		}
		// Reading allocates, too: what two readings in a row differ by is taken off.
		_, again, err := read()
		if err != nil {
			return err
		}
		if err := sendCalls(ctx, server, "throttle", footprintCalls); err != nil {
			return err
		}
		collectionsAfter, allocationsAfter, err := read()
		result.Calls = footprintCalls
		result.Collections = collectionsAfter - collections
		result.Allocations = max(0, allocationsAfter-again-(again-allocations))
		return err
	})
	return result, err
}

func withServer(ctx context.Context, options ServerOptions, use func(*Server) error) error {
	server, err := StartServer(ctx, options)
	if err != nil {
		return err
	}
	defer server.Stop()
	return use(server)
}

// sendCalls sends allowed calls of one alternative to 1,000 keys.
func sendCalls(ctx context.Context, server *Server, name string, calls int) error {
	alternatives, err := Choose([]string{name}, false)
	if err != nil {
		return err
	}
	w := newWorkload(alternatives[0], 0)
	player, err := newPlayer(ctx, server.Address, 0)
	if err != nil {
		return err
	}
	defer player.close()
	const pipeline = 100
	for range calls / pipeline {
		if err := player.batch(&w, pipeline, 1000); err != nil {
			return err
		}
	}
	return nil
}
