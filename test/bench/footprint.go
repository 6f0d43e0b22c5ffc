package bench

import "context"

// footprintStarts is how often each kind of server is started, in turn.
const footprintStarts = 9

// A Footprint is what the module adds to a server.
type Footprint struct {
	Without Start `json:"without_module"`
	With    Start `json:"with_module"`

	// Threads are the names of the threads, without and with the module, after a
	// hundred thousand calls.
	ThreadsWithout []string `json:"threads_without_module"`
	ThreadsWith    []string `json:"threads_with_module"`
}

// A Start is what starts of one kind of server came to.
type Start struct {
	Milliseconds Spread `json:"milliseconds_to_first_answer"`

	// RSS is the resident memory, and Private the part of it that belongs to this
	// process alone rather than to a file, both in KiB.
	RSS     Spread `json:"rss_kibibytes"`
	Private Spread `json:"private_kibibytes"`
}

// MeasureFootprint starts servers with and without the module.
func MeasureFootprint(ctx context.Context, program, module string, progress func(string, ...any)) (*Footprint, error) {
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

	return result, nil
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
